#include "core/os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The headers of glibc before 2.34 lack the call, with which the kernel came later (Linux 5.9). On an older
 * kernel it fails, and what is not close-on-exec is inherited. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
/* The signal is for the group that the process leads or led (Linux 6.9); older kernels refuse it with EINVAL. */
#ifndef PIDFD_SIGNAL_PROCESS_GROUP
#define PIDFD_SIGNAL_PROCESS_GROUP (1U << 2)
#endif

enum {
    FDS_MOST = 8,
    STACK_BYTES = 32 * 1024,         /* of the child until it executes */
    SEARCH_STACK_BYTES = 256 * 1024, /* the same, where it searches PATH, whose names are then on it */
};

static int open_pidfd(pid_t pid) {
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void set_oom_score(int score) {
    char text[16];
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    int length = snprintf(text, sizeof text, "%d", score);
    (void)!write(fd, text, (size_t)length); /* best effort: it changes no result */
    close(fd);
}

static void default_signals(bool all) {
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    if (all) {
        for (int number = 1; number < NSIG; number++) sigaction(number, &plain, NULL);
    } else { /* the signals that this program ignores; handlers end with the execution */
        sigaction(SIGPIPE, &plain, NULL);
        sigaction(SIGXFSZ, &plain, NULL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Forgets the signals that have come meanwhile: they were for the group of the parent, of which this process was a member
 * until now. That includes the one for the parent's death, so whether the parent lives has to be looked at afterwards. */
static void discard_signals(void) {
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    struct sigaction action;
    sigset_t pending;
    sigpending(&pending);
    for (int number = 1; number < NSIG; number++) {
        if (sigismember(&pending, number) != 1 || sigaction(number, &ignored, &action) != 0) continue;
        sigaction(number, &action, NULL);
    }
}

/* Makes fds[i] descriptor i. Copies above all targets come first where a target is also a source, so that none is
 * overwritten before it is copied. */
static bool take_fds(const gw_spawn *spawn) {
    int copies[FDS_MOST];
    bool overlap = false;
    for (uint32_t i = 0; i < spawn->fd_count; i++) {
        copies[i] = spawn->fds[i];
        overlap |= spawn->fds[i] < (int)spawn->fd_count;
    }
    for (uint32_t i = 0; overlap && i < spawn->fd_count; i++)
        if ((copies[i] = fcntl(spawn->fds[i], F_DUPFD_CLOEXEC, FDS_MOST)) < 0) return false;
    for (uint32_t i = 0; i < spawn->fd_count; i++)
        if (dup2(copies[i], (int)i) < 0) return false;
    if (!spawn->inherits) syscall(SYS_close_range, spawn->fd_count, ~0u, CLOSE_RANGE_CLOEXEC);
    return true;
}

static bool set_file_limit(uint64_t files) {
    struct rlimit limit;
    if (files == 0) return true;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
    limit.rlim_cur = files < limit.rlim_max ? files : limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Moves this process into a control group. */
static bool enter_group(const char *entrance) {
    if (entrance == NULL) return true;
    int fd = open(entrance, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool good = write(fd, "0", 1) == 1;
    int why = errno;
    close(fd);
    errno = why;
    return good;
}

/* What parent and child share; the parent waits until the child has executed or has failed. */
typedef struct child {
    const gw_spawn *spawn;
    pid_t parent;
    int failure; /* errno where it could not execute */
    bool found;  /* all that comes before was well: the program itself cannot be executed */
    char stack[] __attribute__((aligned(16)));
} child;

/* A child that shares the memory of its parent until it executes costs no copy of page tables, and no
 * memory where the kernel does not overcommit. The thread sanitizer takes it for a thread, and reports
 * races of its parent: there only `child` is shared. */
#ifdef __SANITIZE_THREAD__
enum { CLONE_FLAGS = CLONE_VFORK | CLONE_PIDFD | SIGCHLD };

static child *make_child(size_t bytes) {
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared != MAP_FAILED ? shared : NULL;
}

static void free_child(child *c, size_t bytes) {
    munmap(c, bytes);
}
#else
enum { CLONE_FLAGS = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD };

static child *make_child(size_t bytes) {
    return malloc(bytes);
}

static void free_child(child *c, size_t bytes) {
    (void)bytes;
    free(c);
}
#endif

/* The child: it calls nothing that allocates or locks. */
static int become(void *context) {
    child *c = context;
    const gw_spawn *spawn = c->spawn;
    if (prctl(PR_SET_PDEATHSIG, spawn->death_signal != 0 ? spawn->death_signal : SIGKILL) != 0) _exit(1);
    setsid();
    discard_signals();
    if (getppid() != c->parent) _exit(1);
    setpriority(PRIO_PROCESS, 0, spawn->nice);
    if (spawn->oom_score != 0) set_oom_score(spawn->oom_score);
    default_signals(!spawn->inherits);
    if (enter_group(spawn->entrance) && take_fds(spawn) &&
        (spawn->directory == NULL || chdir(spawn->directory) == 0) && set_file_limit(spawn->files)) {
        execvpe(spawn->file, spawn->argv, spawn->environment);
        c->found = true;
    }
    c->failure = errno;
    _exit(127);
}

bool gw_process_spawn(const gw_spawn *spawn, gw_process *process, gw_err *err) {
    sigset_t all, before;
    *process = (gw_process){.fd = -1};
    if (spawn->fd_count > FDS_MOST) return gw_fail(err, GW_E_LIMIT, "%u descriptors", spawn->fd_count);
    const size_t stack = strchr(spawn->file, '/') != NULL ? STACK_BYTES : SEARCH_STACK_BYTES;
    child *c = make_child(sizeof *c + stack);
    if (c == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to start a process");
    c->spawn = spawn;
    c->parent = getpid();
    c->failure = 0;
    c->found = false;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* no handler of this process runs in the child */
    /* posix_spawn cannot ask for the signal at the parent's death. */
    pid_t pid = clone(become, c->stack + stack, CLONE_FLAGS, c, &process->fd);
    int why = errno, failure = c->failure;
    bool may_not = c->found && (failure == EACCES || failure == ENOEXEC);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free_child(c, sizeof *c + stack);
    if (pid < 0) {
        process->fd = -1;
        gw_fail_errno(err, why, "cannot start a process");
        if (why == EAGAIN || why == EMFILE || why == ENFILE) err->code = GW_E_NOMEM;
        return false;
    }
    process->pid = pid;
    if (failure == 0) return true;
    waitpid(pid, NULL, 0);
    gw_process_close(process);
    if (failure == ENOENT) return gw_fail(err, GW_E_NOTFOUND, "there is no program '%s'", spawn->file);
    gw_fail_errno(err, failure, "cannot start '%s'", spawn->file);
    if (failure == E2BIG) err->code = GW_E_LIMIT;
    if (may_not) err->code = GW_E_DENIED;
    return false;
}

/* Reads the letter of a process's state and its parent (proc_pid_stat(5)). Returns false where they cannot
 * be found out. */
static bool read_state(pid_t pid, char *state, int *parent) {
    char path[40], text[400];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *behind = strrchr(text, ')'); /* the name before it may have any characters */
    return behind != NULL && sscanf(behind + 1, " %c %d", state, parent) == 2;
}

/* The parent of a process; 0 where it cannot be found out. */
static pid_t parent_of(pid_t pid) {
    char state;
    int parent;
    return read_state(pid, &state, &parent) ? parent : 0;
}

bool gw_process_is_stopped(pid_t pid) {
    char state;
    int parent;
    return read_state(pid, &state, &parent) && (state == 'T' || state == 't');
}

bool gw_process_hold(pid_t pid, gw_process *process) {
    *process = (gw_process){.pid = pid, .fd = pid > 0 ? open_pidfd(pid) : -1};
    return process->fd >= 0;
}

bool gw_process_open(pid_t pid, pid_t parent, gw_process *process, gw_err *err) {
    if (gw_process_hold(pid, process) && parent_of(pid) == parent) return true;
    gw_process_close(process);
    return gw_fail(err, GW_E_NOTFOUND, "process %d is no child of process %d", (int)pid, (int)parent);
}

void gw_process_signal(const gw_process *process, int number) {
    if (process->fd >= 0) syscall(SYS_pidfd_send_signal, process->fd, number, NULL, 0);
}

void gw_process_kill(const gw_process *process) {
    if (process->fd < 0) return;
    bool lives = syscall(SYS_pidfd_send_signal, process->fd, 0, NULL, 0) == 0;
    if (lives && getpgid(process->pid) == process->pid) kill(-process->pid, SIGKILL);
    gw_process_signal(process, SIGKILL);
}

/* Whether the process is a child that has ended and is not reaped yet. */
static bool is_zombie(pid_t pid) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Kills what is left of the group of a process that has ended, by whomever it is reaped, and whenever. An older
 * kernel knows the group by its number alone: that is still this one's unless a process that lives has the number,
 * as a number is not given away while a group has it. */
static void kill_rest(const gw_process *process) {
    char state;
    int parent;
    if (syscall(SYS_pidfd_send_signal, process->fd, SIGKILL, NULL, PIDFD_SIGNAL_PROCESS_GROUP) == 0) return;
    if (errno == EINVAL && (!read_state(process->pid, &state, &parent) || state == 'Z'))
        kill(-process->pid, SIGKILL);
}

bool gw_process_wait(const gw_process *process, uint64_t patience_ns, bool whole, int *status) {
    struct pollfd ended = {.fd = process->fd, .events = POLLIN};
    if (process->fd < 0) return false;
    int found = poll(&ended, 1, (int)(patience_ns / 1000000));
    if (found <= 0) return false;
    if (whole) kill_rest(process);
    (void)waitpid(process->pid, status, WNOHANG); /* fails where it is another's child */
    return true;
}

bool gw_process_reap(const gw_process *process, bool whole, int *status, struct rusage *usage) {
    if (whole && is_zombie(process->pid)) kill(-process->pid, SIGKILL);
    return wait4(process->pid, status, WNOHANG, usage) == process->pid;
}

void gw_process_signal_group(const gw_process *process, int number) {
    kill(-process->pid, number);
}

void gw_process_close(gw_process *process) {
    if (process->fd >= 0) close(process->fd);
    *process = (gw_process){.fd = -1};
}

const char *gw_process_end(int status, char text[GW_PROCESS_END_TEXT]) {
    if (WIFSIGNALED(status))
        snprintf(text, GW_PROCESS_END_TEXT, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, GW_PROCESS_END_TEXT, "exit status %d", WEXITSTATUS(status));
    return text;
}
