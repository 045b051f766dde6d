/* Child processes: what they get, how they end, and that they do not outlive the thread that started them. */
#include "core/os/process.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define LONG_NS   (60 * SECOND_NS)

/* A shell that runs `script`, with the ends of a pipe as its input and output. */
static gw_spawn shell(const char *script, const int *fds) {
    static char name[] = "sh", option[] = "-c", given[] = "GIVEN=yes";
    static char *argv[4], *environment[] = {given, NULL};
    argv[0] = name;
    argv[1] = option;
    argv[2] = (char *)(uintptr_t)script;
    return (gw_spawn){.file = "/bin/sh",
                      .argv = argv,
                      .environment = environment,
                      .fds = fds,
                      .fd_count = 2,
                      .nice = 3,
                      .oom_score = 400};
}

/* Runs a script to its end and returns its status; `text` gets what it wrote. */
static int run(const char *script, char *text, size_t size) {
    int ends[2], status = -1;
    gw_process process;
    gw_err err = {0};
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    const int fds[] = {ends[0], ends[1]};
    gw_spawn spawn = shell(script, fds);
    cr_assert(gw_process_spawn(&spawn, &process, &err), "%s", err.text);
    cr_assert(gw_process_wait(&process, LONG_NS, false, &status));
    close(ends[1]);
    ssize_t count = read(ends[0], text, size - 1);
    text[count > 0 ? count : 0] = '\0';
    close(ends[0]);
    gw_process_close(&process);
    return status;
}

Test(process, it_gets_its_descriptors_environment_and_priority_and_nothing_else) {
    char text[400];
    int other = open("/dev/null", O_RDONLY); /* not close-on-exec */
    cr_assert_eq(run("echo $GIVEN $HOME; cut -d' ' -f19 /proc/$$/stat; cat /proc/$$/oom_score_adj; ls "
                     "/proc/$$/fd | tr '\\n' ' ' >&1; exit 3",
                     text, sizeof text),
                 3 << 8);
    cr_assert_not_null(strstr(text, "yes\n3\n400\n"), "%s", text);
    char inherited[8];
    snprintf(inherited, sizeof inherited, " %d ", other);
    cr_assert_null(strstr(text, inherited), "%s", text);
    close(other);
}

Test(process, signals_have_their_defaults_and_none_is_blocked) {
    char text[400];
    sigset_t all;
    signal(SIGPIPE, SIG_IGN);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    run("exec grep -E 'SigBlk|SigIgn' /proc/self/status", text, sizeof text);
    cr_assert_not_null(strstr(text, "SigBlk:\t0000000000000000"), "%s", text);
    cr_assert_not_null(strstr(text, "SigIgn:\t0000000000000000"), "%s", text);
}

/* What a task of `godwit map` asks for: the directory, the limit of descriptors, and what is inherited. */
Test(process, it_starts_elsewhere_and_inherits_what_it_is_asked_to) {
    int ends[2], status, other = open("/dev/null", O_RDONLY);
    char text[400];
    struct rusage usage;
    gw_process process;
    gw_err err;
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    const int fds[] = {ends[0], ends[1]};
    char script[200];
    snprintf(script, sizeof script,
             "pwd; ulimit -n; [ -e /proc/$$/fd/%d ] && echo inherited; trap 2>&1; "
             "grep SigIgn /proc/$$/status | cut -f2",
             other);
    gw_spawn spawn = shell(script, fds);
    spawn.directory = "/usr";
    spawn.files = 77;
    spawn.inherits = true;
    cr_assert(gw_process_spawn(&spawn, &process, &err), "%s", err.text);
    while (!gw_process_reap(&process, true, &status, &usage)) sched_yield();
    cr_assert_gt(usage.ru_maxrss, 0);
    gw_process_close(&process);
    ssize_t count = read(ends[0], text, sizeof text - 1);
    text[count > 0 ? count : 0] = '\0';
    cr_assert_str_eq(text, "/usr\n77\ninherited\n0000000000000001\n", "%s", text);
    spawn.directory = "/no/such/folder";
    cr_assert_not(gw_process_spawn(&spawn, &process, &err));
    close(ends[0]);
    close(ends[1]);
    close(other);
}

Test(process, a_command_line_that_is_too_long_is_told) {
    const int fds[] = {0, 1};
    char *script = malloc(1 << 20);
    gw_process process;
    gw_err err;
    memset(script, ' ', (1 << 20) - 1);
    script[(1 << 20) - 1] = '\0';
    gw_spawn spawn = shell(script, fds);
    cr_assert_not(gw_process_spawn(&spawn, &process, &err));
    cr_assert_eq(err.code, GW_E_LIMIT, "%s", err.text);
    free(script);
}

/* Signals that come to a child while it starts, as a member of its parent's group. */
static bool group_is_signalled;

pid_t __real_setsid(void);
pid_t __wrap_setsid(void);
pid_t __wrap_setsid(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && group_is_signalled; i++)
        kill(getpid(), numbers[i]);
    return __real_setsid();
}

Test(process, what_the_group_of_its_parent_is_told_while_it_starts_is_not_for_it) {
    char text[100];
    group_is_signalled = true;
    cr_assert_eq(run("echo started", text, sizeof text), 0);
    cr_assert_str_eq(text, "started\n");
}

Test(process, its_end_is_told) {
    char text[GW_PROCESS_END_TEXT], out[8];
    cr_assert_str_eq(gw_process_end(run("exit 7", out, sizeof out), text), "exit status 7");
    cr_assert_str_eq(gw_process_end(run("kill -SEGV $$", out, sizeof out), text),
                     "signal 11 (Segmentation fault)");
}

Test(process, a_file_that_is_not_there_or_no_program_is_an_error) {
    const int fds[] = {0, 1};
    gw_spawn spawn = shell("", fds);
    gw_process process;
    gw_err err = {0};
    spawn.file = "/bin/there-is-none";
    cr_assert_not(gw_process_spawn(&spawn, &process, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND, "%s", err.text);
    spawn.file = "/etc/passwd";
    cr_assert_not(gw_process_spawn(&spawn, &process, &err));
    cr_assert_eq(err.code, GW_E_DENIED, "%s", err.text);
}

/* Starts a shell that starts another process and says its number; both wait for ever. *from becomes the end of a pipe
 * whose other end all of them have. */
static pid_t start_both(const char *script, gw_process *process, int *from) {
    int ends[2];
    gw_err err = {0};
    char text[16] = "";
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    const int fds[] = {ends[0], ends[1]};
    gw_spawn spawn = shell(script, fds);
    cr_assert(gw_process_spawn(&spawn, process, &err), "%s", err.text);
    close(ends[1]);
    *from = ends[0];
    cr_assert_gt(read(ends[0], text, sizeof text - 1), 0);
    return (pid_t)strtol(text, NULL, 10);
}

static pid_t start_two(gw_process *process, int *from) {
    return start_both("sleep 1000 & echo $!; wait", process, from);
}

/* Waits until nobody has the other end of the pipe any more: all processes that had it have ended. */
static void wait_for_all(int from) {
    char byte;
    alarm(60);
    cr_assert_eq(read(from, &byte, 1), 0);
    close(from);
}

Test(process, what_it_has_started_is_killed_with_it) {
    gw_process process;
    int from, status;
    start_two(&process, &from);
    cr_assert_not(gw_process_wait(&process, 0, false, &status));
    gw_process_kill(&process);
    cr_assert(gw_process_wait(&process, LONG_NS, false, &status));
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    wait_for_all(from);
    gw_process_kill(&process); /* harmless */
    gw_process_close(&process);
}

/* Its number may be another's once it is reaped, so that its group ends before. */
Test(process, what_it_has_left_of_its_group_is_killed_when_it_has_ended) {
    gw_process process;
    int from, status = 0;
    start_two(&process, &from);
    gw_process_signal(&process, SIGTERM);
    cr_assert(gw_process_wait(&process, LONG_NS, true, &status));
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    wait_for_all(from);
    gw_process_signal(&process, SIGTERM); /* harmless */
    gw_process_close(&process);
}

/* A process that another one has started is reaped by whoever that was, before or after its group is killed. */
Test(process, what_is_left_of_the_group_of_a_process_of_another_one_is_killed) {
    gw_process process, child;
    gw_err err = {0};
    int from, status = -1;
    pid_t pid =
        start_both("setsid sh -c 'sleep 1000 & echo $$; wait' & wait; exec sleep 1000", &process, &from);
    cr_assert(gw_process_open(pid, process.pid, &child, &err), "%s", err.text);
    gw_process_signal(&child, SIGKILL);
    cr_assert(gw_process_wait(&child, LONG_NS, true, &status));
    cr_assert_eq(status, -1); /* it is the shell's to know */
    gw_process_close(&child);
    gw_process_signal(&process, SIGKILL); /* alone */
    cr_assert(gw_process_wait(&process, LONG_NS, false, &status));
    gw_process_close(&process);
    wait_for_all(from);
}

Test(process, only_a_child_of_that_parent_is_taken_hold_of) {
    gw_process process, child;
    gw_err err = {0};
    int from, status = -1;
    pid_t pid = start_two(&process, &from);
    cr_assert_not(gw_process_open(pid, getpid(), &child, &err));
    cr_assert_not(gw_process_open(1, process.pid, &child, &err));
    cr_assert_not(gw_process_open(0, process.pid, &child, &err));
    cr_assert(gw_process_open(pid, process.pid, &child, &err), "%s", err.text);
    gw_process_kill(&child);
    cr_assert(gw_process_wait(&child, LONG_NS, false, &status));
    cr_assert_eq(status, -1); /* it is the shell's to know */
    gw_process_close(&child);
    gw_process_kill(&process);
    wait_for_all(from);
    gw_process_close(&process);
}

static void *start_and_end(void *context) {
    gw_process *process = context;
    const int fds[] = {0, 1};
    gw_spawn spawn = shell("exec sleep 1000", fds);
    gw_err err = {0};
    cr_assert(gw_process_spawn(&spawn, process, &err), "%s", err.text);
    return NULL;
}

Test(process, whether_it_is_stopped_is_found_out) {
    siginfo_t info;
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0)
        for (;;) pause();
    cr_expect_not(gw_process_is_stopped(pid));
    cr_assert_eq(kill(pid, SIGSTOP), 0);
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
    cr_expect(gw_process_is_stopped(pid));
    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    cr_expect_not(gw_process_is_stopped(pid), "it is gone");
}

Test(process, it_does_not_outlive_the_thread_that_started_it) {
    gw_process process;
    pthread_t thread;
    int status;
    cr_assert_eq(pthread_create(&thread, NULL, start_and_end, &process), 0);
    pthread_join(thread, NULL);
    cr_assert(gw_process_wait(&process, LONG_NS, false, &status));
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    gw_process_close(&process);
}
