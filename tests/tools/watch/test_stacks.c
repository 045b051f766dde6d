/* The stacks of threads that hang, as they are logged. */
#include "core/base/log.h"
#include "core/os/plain_file.h"
#include "tools/godwit/node/progress.h"
#include "tools/godwit/watch/stacks.h"
#include "tools/godwit/watch/symbols.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char logged[20000];

static void keep(void *context, gw_level level, const char *room, const char *text) {
    (void)context;
    cr_expect_eq(level, GW_ERROR);
    cr_expect_str_eq(room, "stacks");
    size_t length = strlen(logged);
    snprintf(logged + length, sizeof logged - length, "%s\n", text);
}

typedef struct sleeper {
    const char *name;
    bool deaf; /* blocks all signals */
    sem_t ready, over;
    pthread_t thread;
} sleeper;

/* The function is neither static nor inlined, so that its name can be found. */
void here_it_hangs(sleeper *s);
__attribute__((noinline)) void here_it_hangs(sleeper *s) {
    sem_post(&s->ready);
    while (sem_wait(&s->over) != 0) {
    }
    __asm__ volatile("" ::: "memory"); /* prevents a tail call */
}

static void *sleeper_main(void *context) {
    sleeper *s = context;
    sigset_t all;
    sigfillset(&all);
    if (s->deaf) pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_setname_np(pthread_self(), s->name);
    here_it_hangs(s);
    return NULL;
}

static void start(sleeper *s, const char *name, bool deaf) {
    s->name = name;
    s->deaf = deaf;
    sem_init(&s->ready, 0, 0);
    sem_init(&s->over, 0, 0);
    cr_assert_eq(pthread_create(&s->thread, NULL, sleeper_main, s), 0);
    while (sem_wait(&s->ready) != 0) {
    }
}

static void end(sleeper *s) {
    sem_post(&s->over);
    pthread_join(s->thread, NULL);
}

static int times(const char *part) {
    int count = 0;
    for (const char *at = logged; (at = strstr(at, part)) != NULL; at++) count++;
    return count;
}

/* Imitates a disk that hangs: readers wait until it is back. */
typedef enum files { NO_FILES, SYMBOLS, UNWINDER } files;
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    files hang;
} disk = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NO_FILES};

static void read_disk(files some) {
    pthread_mutex_lock(&disk.lock);
    while (disk.hang == some) pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

bool __real_gw_plain_open(const char *path, gw_plain_file *file, gw_err *err);
bool __wrap_gw_plain_open(const char *path, gw_plain_file *file, gw_err *err);
int __real_backtrace(void **list, int size);
int __wrap_backtrace(void **list, int size);

bool __wrap_gw_plain_open(const char *path, gw_plain_file *file, gw_err *err) {
    read_disk(SYMBOLS);
    return __real_gw_plain_open(path, file, err);
}

int __wrap_backtrace(void **list, int size) {
    read_disk(UNWINDER);
    return __real_backtrace(list, size);
}

static void begin(void) {
    gw_err err;
    gw_log_set_sink(keep, NULL);
    cr_assert(gw_stacks_open(&err), "%s", err.text);
}

TestSuite(stacks, .init = begin);

Test(stacks, threads_go_by_their_names_and_numbers) {
    sleeper list[4];
    start(&list[0], "gw-some-1", false);
    start(&list[1], "gw-some-2", false);
    start(&list[2], "gw-some-21", false);
    start(&list[3], "gw-somebody", false);
    gw_stacks_log("gw-some-2");
    cr_expect_eq(times("thread "), 1, "%s", logged);
    cr_expect_eq(times("(gw-some-2), state"), 1, "%s", logged);
    logged[0] = '\0';
    gw_stacks_log("gw-some");
    cr_expect_eq(times("thread "), 3, "%s", logged);
    cr_expect_eq(times("gw-somebody"), 0, "%s", logged);
    for (int i = 0; i < 4; i++) end(&list[i]);
}

/* A peer that begins again in its process opens them again. A second thread would share the condition of the
 * first, which was made anew while that one waited for it. */
Test(stacks, that_are_opened_again_have_one_thread_of_names, .timeout = 60) {
    char text[1][GW_SYMBOL_TEXT];
    const uintptr_t address = (uintptr_t)begin;
    gw_err err;
    for (int i = 0; i < 5; i++) {
        cr_assert(gw_stacks_open(&err), "%s", err.text);
        gw_symbol_texts(&address, 1, text); /* a thread has its name by the time at which it has answered */
    }
    gw_stacks_log("gw-symbols");
    cr_expect_eq(times("(gw-symbols), state"), 1, "%s", logged);
}

#if !defined(__SANITIZE_THREAD__) /* it delays signals */
Test(stacks, what_a_thread_hangs_in_is_named) {
    sleeper s;
    start(&s, "gw-sleeper", false);
    gw_stacks_log("gw-sleeper");
    const char *here = strstr(logged, " here_it_hangs+0x"), *caller = strstr(logged, " sleeper_main+0x");
    cr_expect(here != NULL && caller != NULL && here < caller, "%s", logged);
    cr_expect_null(strstr(logged, "takes no signal"), "%s", logged);
    end(&s);
}
#endif

#if !defined(__SANITIZE_THREAD__)
static void hang(files some) {
    pthread_mutex_lock(&disk.lock);
    disk.hang = some;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void log_until(const char *name, const char *part) {
    do {
        logged[0] = '\0';
        gw_stacks_log(name);
    } while (times(part) == 0);
}

/* Addresses take the place of names, and the logging thread goes on. */
Test(stacks, a_disk_that_hangs_costs_names_alone) {
    sleeper s;
    start(&s, "gw-sleeper", false);
    hang(SYMBOLS);
    for (int i = 0; i < 2; i++) {
        log_until("gw-sleeper", " (test_tools_watch_stacks at 0x");
        cr_expect_eq(times("here_it_hangs"), 0, "%s", logged);
    }
    hang(NO_FILES);
    log_until("gw-sleeper", " here_it_hangs+0x");
    end(&s);
}

/* The pages that a thread needs to find its stack come from that disk, so it cannot be waited for. No
 * other thread is asked meanwhile. */
Test(stacks, a_thread_that_hangs_as_it_answers_is_left_alone) {
    sleeper first, other;
    start(&first, "gw-first", false);
    start(&other, "gw-other", false);
    hang(UNWINDER);
    gw_stacks_log("gw-first");
    cr_expect_not_null(strstr(logged, "(gw-first), state S, takes no signal"), "%s", logged);
    log_until("gw-other", "(gw-other), state S, is not asked, because another thread does not answer");
    hang(NO_FILES);
    log_until("gw-other", " here_it_hangs+0x");
    end(&first);
    end(&other);
}
#endif

Test(stacks, of_a_thread_that_takes_no_signal_the_kernel_tells) {
    sleeper deaf, other;
    start(&deaf, "gw-deaf", true);
    start(&other, "gw-other", false);
    gw_stacks_log("gw-deaf");
    cr_expect_not_null(strstr(logged, "(gw-deaf), state S, takes no signal"), "%s", logged);
#if !defined(__SANITIZE_THREAD__)
    logged[0] = '\0';
    gw_stacks_log("gw-other"); /* the next one gets its own answer */
    cr_expect_not_null(strstr(logged, " here_it_hangs+0x"), "%s", logged);
#endif
    end(&deaf);
    end(&other);
}

static void wait_until(void *over) {
    while (sem_wait(over) != 0) continue;
}

/* The event loop must serve others meanwhile. */
Test(stacks, a_node_does_not_wait_for_threads_that_take_no_signal) {
    enum { MANY = 4 };
    static sleeper list[MANY];
    static gw_progress progress;
    gw_err err;
    progress.stacks = gw_helper_open("gw-stacks", &err);
    cr_assert_not_null(progress.stacks, "%s", err.text);
    for (int i = 0; i < MANY; i++) start(&list[i], "gw-deaf", true);
    sem_t over;
    sem_init(&over, 0, 0);
    gw_helper_give(progress.stacks, wait_until, &over);
    gw_progress_log_stacks(&progress, "gw-deaf"); /* it would not return if it waited */
    sem_post(&over);
    gw_helper_close(progress.stacks);
    sem_destroy(&over);
    cr_expect_eq(times("takes no signal"), MANY, "%s", logged);
    for (int i = 0; i < MANY; i++) end(&list[i]);
}

Test(stacks, many_threads_are_counted) {
    enum { MANY = 19 };
    static sleeper list[MANY];
    for (int i = 0; i < MANY; i++) start(&list[i], "gw-many", false);
    gw_stacks_log("gw-many");
    cr_expect_eq(times("(gw-many), state"), 16, "%s", logged);
    cr_expect_not_null(strstr(logged, "... and 3 more threads gw-many"), "%s", logged);
    for (int i = 0; i < MANY; i++) end(&list[i]);
}

Test(stacks, the_first_thread_may_ask_for_its_own) {
    gw_stacks_log_first();
    cr_expect_eq(times("thread "), 1, "%s", logged);
}

Test(symbols, an_address_outside_of_any_file_stays_one) {
    char text[GW_SYMBOL_TEXT];
    gw_symbol_text(16, text);
    cr_expect_str_eq(text, "0x10");
    int local;
    gw_symbol_text((uintptr_t)&local, text);
    cr_expect_eq(strncmp(text, "0x", 2), 0, "%s", text);
}

Test(symbols, without_names_there_are_places_in_files) {
    char text[GW_SYMBOL_TEXT], start_of[64];
    gw_symbol_place((uintptr_t)here_it_hangs, text);
    snprintf(start_of, sizeof start_of, "%p (test_tools_watch_stacks at 0x",
             (void *)(uintptr_t)here_it_hangs);
    cr_expect_eq(strncmp(text, start_of, strlen(start_of)), 0, "%s", text);
    gw_symbol_place(16, text);
    cr_expect_str_eq(text, "0x10");
}

Test(symbols, functions_have_names_with_an_offset_and_their_file) {
    char text[GW_SYMBOL_TEXT], start_of[64];
    gw_symbol_text((uintptr_t)here_it_hangs + 3, text);
    snprintf(start_of, sizeof start_of, "here_it_hangs+0x3 (test_tools_watch_stacks+0x");
    cr_expect_eq(strncmp(text, start_of, strlen(start_of)), 0, "%s", text);
    gw_symbol_text((uintptr_t)sleeper_main, text); /* a static function */
    cr_expect_eq(strncmp(text, "sleeper_main+0x0 (", 18), 0, "%s", text);
    gw_symbol_text((uintptr_t)getpid, text); /* a function of another file, which has several names */
    cr_expect_not_null(strstr(text, ".so"), "%s", text);
}
