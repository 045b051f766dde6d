#include "tools/godwit/watch/stacks.h"

#include "core/base/log.h"
#include "tools/godwit/watch/symbols.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    FRAMES = 64,
    OF_THE_HANDLER = 2, /* frames on top: the handler, and the kernel's return trampoline */
    ANSWER_MS = 500,
    MOST_THREADS = 16,
};

_Static_assert((int)FRAMES <= (int)GW_SYMBOLS_MOST, "one call names all frames");

/* A request has a number, so that a late answer is not taken for the answer to the next request. */
typedef enum answer { ASKED, ANSWERING, GIVEN_UP, ANSWERED } answer;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t request; /* number << 2 | state */
static sem_t answered;           /* posted when `request` may have changed */
static void *frames[FRAMES];
static int frame_count;

static int stack_signal(void) {
    return SIGRTMIN + 5;
}

static void on_signal(int which, siginfo_t *info, void *context) {
    (void)which, (void)context;
    int before = errno;
    uint64_t number = (uint64_t)(uintptr_t)info->si_value.sival_ptr << 2, expected = number | ASKED;
    if (info->si_code == SI_QUEUE && info->si_pid == getpid() &&
        atomic_compare_exchange_strong(&request, &expected, number | ANSWERING)) {
        frame_count = backtrace(frames, FRAMES);
        atomic_store(&request, number | ANSWERED); /* from here on the next request may be sent */
        sem_post(&answered);
    }
    errno = before;
}

bool gw_stacks_open(gw_err *err) {
    static bool open;
    if (open) return true;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sem_init(&answered, 0, 0);
    backtrace(frames, FRAMES); /* the first call loads the unwinder, which a signal handler must not do */
    sigaction(stack_signal(), &action, NULL);
    open = gw_symbols_open(err);
    return open;
}

/* Sends the signal as sigqueue does, but to one thread. */
static bool send_request(pid_t thread, uint64_t number) {
    siginfo_t info = {.si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = (void *)(uintptr_t)number;
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, stack_signal(), &info) == 0;
}

static bool has_answered(uint64_t number) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ANSWER_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (atomic_load(&request) != (number << 2 | ANSWERED))
        if (sem_clockwait(&answered, CLOCK_MONOTONIC, &until) != 0 && errno != EINTR) return false;
    return true;
}

/* Waits for the frames of the thread; false when it has not answered. A thread that has begun to answer
 * gets the time once more, because its pages may have to come from a disk. */
static bool take_answer(uint64_t number) {
    uint64_t expected = number << 2 | ASKED;
    if (has_answered(number)) return true;
    if (atomic_compare_exchange_strong(&request, &expected, number << 2 | GIVEN_UP)) return false;
    return has_answered(number); /* it has begun to answer */
}

/* Reads one line of a file that the kernel has for the thread; "?" where it cannot. */
static void read_line(pid_t thread, const char *what, char text[128]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)thread, what);
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(text, 128, file) == NULL || text[0] == '\0') snprintf(text, 128, "?");
    text[strcspn(text, "\n")] = '\0';
    if (file != NULL) fclose(file);
}

static char state_of(pid_t thread) {
    char stat[128];
    read_line(thread, "stat", stat);
    const char *end = strrchr(stat, ')'); /* the end of the name, which may contain any character */
    return end != NULL && end[1] == ' ' && end[2] != '\0' ? end[2] : '?';
}

/* Logs what the kernel tells of a thread that does not answer; `why` is the reason, as in "takes no
 * signal: in the kernel at folio_wait_bit, system call 74 ...". */
static void log_from_kernel(pid_t thread, const char *name, const char *why) {
    char where[128], call[128];
    read_line(thread, "wchan", where);
    read_line(thread, "syscall", call); /* the fields are number, arguments, stack pointer, address */
    gw_log(GW_ERROR, "stacks", "thread %d (%s), state %c, %s: in the kernel at %s, system call %s",
           (int)thread, name, state_of(thread), why, where, call);
    const char *address = strrchr(call, ' ');
    char text[1][GW_SYMBOL_TEXT];
    uintptr_t at = address == NULL ? 0 : (uintptr_t)strtoull(address, NULL, 16);
    if (at == 0) return;
    gw_symbol_texts(&at, 1, text);
    gw_log(GW_ERROR, "stacks", "  called from %s", text[0]);
}

static void log_frames(pid_t thread, const char *name) {
    static uintptr_t at[FRAMES];
    static char texts[FRAMES][GW_SYMBOL_TEXT];
    int count = 0;
    gw_log(GW_ERROR, "stacks", "thread %d (%s), state %c, is at:", (int)thread, name, state_of(thread));
    /* All addresses but the first are return addresses: the call is before them. */
    for (int i = OF_THE_HANDLER; i < frame_count; i++, count++)
        at[count] = (uintptr_t)frames[i] - (count > 0);
    gw_symbol_texts(at, count, texts);
    for (int i = 0; i < count; i++) gw_log(GW_ERROR, "stacks", "  #%d %s", i, texts[i]);
}

static void log_one(pid_t thread) {
    static uint64_t last;
    char name[128];
    pthread_mutex_lock(&one_at_a_time);
    read_line(thread, "comm", name);
    if ((atomic_load(&request) & 3) == ANSWERING) { /* the handler would hang at the same place */
        log_from_kernel(thread, name, "is not asked, because another thread does not answer");
    } else {
        uint64_t number = ++last;
        atomic_store(&request, number << 2 | ASKED);
        if (send_request(thread, number) && take_answer(number))
            log_frames(thread, name);
        else
            log_from_kernel(thread, name, "takes no signal");
    }
    pthread_mutex_unlock(&one_at_a_time);
}

void gw_stacks_log_first(void) {
    log_one(getpid());
}

static bool is_called(pid_t thread, const char *name) {
    char its[128];
    size_t length = strlen(name);
    read_line(thread, "comm", its);
    return strncmp(its, name, length) == 0 && (its[length] == '\0' || its[length] == '-');
}

void gw_stacks_log(const char *name) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread <= 0 || thread == gettid() || !is_called(thread, name)) continue;
        if (count++ < MOST_THREADS) log_one(thread);
    }
    if (count > MOST_THREADS)
        gw_log(GW_ERROR, "stacks", "... and %d more threads %s", count - MOST_THREADS, name);
    if (tasks != NULL) closedir(tasks);
}
