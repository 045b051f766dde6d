/* The keeper of a command: what it runs, and what it tells of the end. */
#include "tools/godwit/flock/keeper.h"

#include "core/os/clock.h"
#include "core/os/durable.h"
#include "core/os/process.h"
#include "tests/scratch.h"
#include "tools/godwit/limit/group.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 20, PATIENCE_MS = 120000 };

TestSuite(keeper, .init = scratch_open, .fini = scratch_close);

/* How many times faster the keeper's clock is than others. */
static uint64_t haste = 1;

/* After how many waits of the keeper a process that it kills ends; 0: at once. */
static int slowness;
static pid_t dying;

void __real_gw_process_signal(const gw_process *process, int number);
void __wrap_gw_process_signal(const gw_process *process, int number);
void __wrap_gw_process_signal(const gw_process *process, int number) {
    if (slowness > 0 && number == SIGKILL)
        dying = process->pid;
    else
        __real_gw_process_signal(process, number);
}

uint64_t __real_gw_now_ns(void);
uint64_t __wrap_gw_now_ns(void);
uint64_t __wrap_gw_now_ns(void) {
    return haste * __real_gw_now_ns();
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout) {
    if (dying > 0 && slowness-- == 0) kill(dying, SIGKILL);
    return __real_poll(fds, count, timeout > LOOK_MS ? LOOK_MS : timeout);
}

static const char *const environment[] = {"PATH=/usr/bin:/bin", "A=1", NULL};

/* The member's lock, which is held until the test ends. */
static const char *hold_lock(void) {
    const char *path = scratch_write_text("lock", "");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    return path;
}

static gw_keeper_task task_of(const char *const *argv) {
    return (gw_keeper_task){.round = 3,
                            .argv = argv,
                            .environment = environment,
                            .directory = scratch_folder(),
                            .member_lock = scratch_path("lock"),
                            .grace_s = 30,
                            .orphan_s = 3600};
}

static void write_task(const gw_keeper_task *task) {
    gw_err err;
    cr_assert(gw_keeper_write_task(scratch_folder(), task, &err), "%s", err.text);
}

/* Starts a keeper as a process of its own. */
static pid_t start(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(gw_keeper_main(scratch_folder()));
    cr_assert_gt(pid, 0);
    return pid;
}

static int end_of(pid_t pid) {
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static gw_keeper_end read_end(void) {
    gw_keeper_end end;
    gw_err err;
    cr_assert(gw_keeper_read_end(scratch_folder(), &end, &err), "%s", err.text);
    return end;
}

static gw_keeper_end run(const char *script) {
    const char *const argv[] = {"sh", "-c", script, NULL};
    gw_keeper_task task = task_of(argv);
    write_task(&task);
    cr_assert_eq(end_of(start()), 0);
    return read_end();
}

static char *text_of(const char *name) {
    void *bytes;
    size_t length;
    gw_err err;
    cr_assert(gw_durable_read(gw_io_system(), scratch_path(name), 1 << 20, &bytes, &length, &err), "%s",
              err.text);
    char *text = calloc(length + 1, 1);
    memcpy(text, bytes, length);
    free(bytes);
    return text;
}

static void expect_file(const char *name, const char *expected) {
    char *text = text_of(name);
    cr_expect_str_eq(text, expected);
    free(text);
}

static void await_file(const char *name) {
    for (int waited = 0; access(scratch_path(name), F_OK) != 0; waited++) {
        cr_assert_lt(waited, PATIENCE_MS);
        poll(NULL, 0, 1);
    }
}

Test(keeper, tells_how_a_command_ended_and_keeps_what_it_wrote) {
    hold_lock();
    gw_keeper_end end = run("echo out$A; echo err >&2; exit 7");
    cr_expect(end.started && !end.asked);
    cr_expect_eq(end.round, 3);
    cr_expect_eq(end.code, 7);
    cr_expect_eq(end.signal, 0);
    cr_expect(end.began > 0 && end.when >= end.began && end.when <= gw_wall_s());
    expect_file("out", "out1\n");
    expect_file("err", "err\n");
    end = run("kill -SEGV $$"); /* the next child in the folder */
    cr_expect(end.started);
    cr_expect_eq(end.signal, SIGSEGV);
    expect_file("out", "out1\n");
}

Test(keeper, words_are_bytes_whatever_they_are) {
    const char *const argv[] = {"printf", "%s|", "\xff\xfe", "", "\u00e4\n\"", "\x01", NULL};
    gw_keeper_task task = task_of(argv);
    hold_lock();
    write_task(&task);
    cr_assert_eq(end_of(start()), 0);
    expect_file("out", "\xff\xfe||\u00e4\n\"|\x01|");
}

Test(keeper, what_cannot_be_started_is_told_and_so_is_why) {
    const char *const absent[] = {"no-such-program", NULL}, *const there[] = {"true", NULL};
    gw_keeper_task task = task_of(absent);
    hold_lock();
    write_task(&task);
    cr_assert_eq(end_of(start()), 0);
    gw_keeper_end end = read_end();
    cr_expect_not(end.started);
    cr_expect_eq(end.code, 127);
    cr_expect_not_null(strstr(end.text, "no-such-program"), "%s", end.text);
    char *err_text = text_of("err");
    cr_expect_not_null(strstr(err_text, end.text), "%s", err_text);
    free(err_text);
    task = task_of(there);
    task.directory = "/nowhere/at/all";
    write_task(&task);
    cr_assert_eq(end_of(start()), 0);
    end = read_end();
    cr_expect_not(end.started);
    cr_expect_eq(end.code, 125);
    cr_expect_not_null(strstr(end.text, "/nowhere/at/all"), "%s", end.text);
    scratch_write_text("script", "echo no\n");
    const char *const not_executable[] = {scratch_path("script"), NULL};
    task = task_of(not_executable);
    write_task(&task);
    cr_assert_eq(end_of(start()), 0);
    end = read_end();
    cr_expect_not(end.started);
    cr_expect_eq(end.code, 126);
}

Test(keeper, a_command_that_is_asked_ends_and_one_that_does_not_is_killed) {
    const char *const heeds[] = {"sh", "-c",
                                 "trap 'echo bye; exit 4' TERM; : > up; while :; do sleep 0.02; done", NULL};
    const char *const does_not[] = {"sh", "-c", "trap '' TERM; : > up; while :; do sleep 0.02; done", NULL};
    gw_keeper_task task = task_of(heeds);
    hold_lock();
    write_task(&task);
    pid_t pid = start();
    await_file("up");
    kill(pid, SIGTERM);
    cr_assert_eq(end_of(pid), 0);
    gw_keeper_end end = read_end();
    cr_expect(end.asked && end.code == 4 && end.signal == 0);
    expect_file("out", "bye\n");
    unlink(scratch_path("up"));
    task = task_of(does_not);
    task.grace_s = 0;
    write_task(&task);
    pid = start();
    await_file("up");
    kill(pid, SIGTERM);
    cr_assert_eq(end_of(pid), 0);
    end = read_end();
    cr_expect(end.asked && end.signal == SIGKILL);
}

Test(keeper, a_command_gets_all_the_time_it_takes_or_is_to_hurry) {
    const char *const words[] = {
        "sh", "-c",
        "trap 'echo asked; : > asked' TERM; trap 'echo hurries; exit 5' HUP; : > up; "
        "while :; do sleep 0.02; done",
        NULL};
    gw_keeper_task task = task_of(words);
    task.grace_s = 0;
    hold_lock();
    write_task(&task);
    pid_t pid = start();
    await_file("up");
    kill(pid, SIGINT);
    await_file("asked");
    unlink(scratch_path("asked"));
    poll(NULL, 0, 50);
    cr_expect_eq(waitpid(pid, NULL, WNOHANG), 0, "it has no time that might be over");
    kill(pid, SIGTERM);
    cr_assert_eq(end_of(pid), 0);
    gw_keeper_end end = read_end();
    cr_expect(end.asked && end.signal == SIGKILL);
    unlink(scratch_path("up"));
    task.grace_s = 60;
    write_task(&task);
    pid = start();
    await_file("up");
    kill(pid, SIGTERM);
    await_file("asked");
    kill(pid, SIGHUP);
    cr_assert_eq(end_of(pid), 0);
    end = read_end();
    cr_expect(end.asked && end.code == 5 && end.signal == 0);
    expect_file("out", "asked\nasked\nhurries\n");
}

/* They are in sessions of their own, and their parents have ended. */
Test(keeper, what_a_command_leaves_behind_is_killed) {
    hold_lock();
    gw_keeper_end end = run("setsid sh -c 'trap \"\" TERM; echo $$ > pid; exec sleep 1000' & while [ ! -s "
                            "pid ]; do sleep 0.02; done");
    char *pid = text_of("pid");
    cr_expect_eq(end.code, 0);
    cr_expect_eq(kill((pid_t)atoi(pid), 0), -1);
    free(pid);
}

Test(keeper, a_command_without_a_member_is_asked_to_end) {
    const char *const argv[] = {"sleep", "1000", NULL};
    gw_keeper_task task = task_of(argv);
    task.orphan_s = 0;
    haste = 1000;
    scratch_write_text("lock", ""); /* nobody holds it */
    write_task(&task);
    cr_assert_eq(end_of(start()), 0);
    gw_keeper_end end = read_end();
    cr_expect(end.asked && end.signal == SIGTERM);
}

/* A shell whose child fills 64 MiB, with half of that allowed; the largest process is killed, and the shell goes on. */
#define FILL                                                                                                 \
    "python3 -c \"b = bytearray(64 << 20); b[::4096] = bytes(len(b[::4096])); import time; "                 \
    "time.sleep(100)\""

Test(keeper, a_process_that_takes_more_memory_than_was_asked_for_is_killed_and_that_is_told) {
    const char *const argv[] = {"sh", "-c", FILL "; echo $?; exit 5", NULL};
    gw_keeper_task task = task_of(argv);
    task.memory_mib = 32;
    hold_lock();
    write_task(&task);
    cr_assert_eq(end_of(start()), 0);
    gw_keeper_end end = read_end();
    cr_expect_eq(end.code, 5);
    cr_expect_eq(end.memory_kills, 1);
    cr_expect_eq(end.memory_mib, 32);
    cr_expect_not(end.machine_lacked_memory);
    expect_file("out", "137\n");
    end = run("exit 1"); /* nothing of it stays for the next child */
    cr_expect_eq(end.memory_kills, 0);
}

/* A process that was killed keeps its memory until it has ended, so that the keeper finds it to be the largest each time. */
Test(keeper, a_process_that_is_slow_to_end_is_killed_once) {
    const char *const argv[] = {"sh", "-c", FILL "; echo $?; exit 5", NULL};
    gw_keeper_task task = task_of(argv);
    task.memory_mib = 32;
    haste = 10; /* it looks at the memory after each wait */
    slowness = 20;
    hold_lock();
    write_task(&task);
    cr_assert_eq(end_of(start()), 0);
    cr_expect_eq(read_end().memory_kills, 1);
    expect_file("out", "137\n");
}

Test(keeper, a_command_that_keeps_to_its_memory_ends_as_it_does) {
    const char *const argv[] = {"sh", "-c", "sleep 0.5", NULL};
    gw_keeper_task task = task_of(argv);
    task.memory_mib = 32;
    hold_lock();
    write_task(&task);
    cr_assert_eq(end_of(start()), 0);
    cr_expect_eq(read_end().memory_kills, 0);
    cr_expect_eq(read_end().code, 0);
}

/* As root on most machines, or where systemd has delegated its group. */
Test(keeper, a_command_runs_in_its_control_group_and_the_group_goes_with_it) {
    const char *const argv[] = {"sh", "-c", "setsid sleep 1000 & cat /proc/self/cgroup", NULL};
    gw_group_limits limits = {.memory_bytes = 64 << 20, .processes = 100};
    gw_groups groups;
    char group[GW_PATH_BYTES], found[GW_KEEPER_FOLDER_TEXT];
    gw_err err;
    if (!gw_groups_open("godwit-test-keeper", &groups, &err)) cr_skip_test("%s", err.text);
    cr_assert(gw_group_make(&groups, "job", &limits, group, &err), "%s", err.text);
    gw_keeper_task task = task_of(argv);
    task.group = group;
    hold_lock();
    write_task(&task);
    uint32_t memory_mib;
    cr_expect(gw_keeper_group(scratch_folder(), found, &memory_mib) && strcmp(found, group) == 0);
    cr_assert_eq(end_of(start()), 0);
    char *out = text_of("out");
    cr_expect_not_null(strstr(out, "/godwit-test-keeper/job\n"), "%s", out);
    free(out);
    cr_expect_eq(access(group, F_OK), -1);
    gw_groups_close(&groups);
    cr_expect_eq(access(groups.path, F_OK), -1);
}

Test(keeper, a_folder_has_one) {
    const char *const argv[] = {"sh", "-c", ": > up; sleep 1000", NULL};
    gw_keeper_task task = task_of(argv);
    pid_t found;
    gw_keeper_end end;
    gw_err err;
    hold_lock();
    cr_expect_not(gw_keeper_lives(scratch_folder(), &found));
    write_task(&task);
    pid_t pid = start();
    await_file("up");
    cr_expect(gw_keeper_lives(scratch_folder(), &found) && found == pid);
    cr_expect_not(gw_keeper_read_end(scratch_folder(), &end, &err));
    cr_expect_eq(err.code, GW_E_NOTFOUND);
    cr_expect_eq(end_of(start()), 1);
    kill(pid, SIGTERM);
    cr_assert_eq(end_of(pid), 0);
    cr_expect_not(gw_keeper_lives(scratch_folder(), &found));
    write_task(&task); /* the end of an earlier child is none of this one */
    cr_expect_not(gw_keeper_read_end(scratch_folder(), &end, &err));
}

Test(keeper, files_that_are_not_as_they_were_written_are_refused) {
    static const char *const bad[] = {"", "{", "[]", "null", "{\"code\": 1"};
    gw_keeper_end end;
    gw_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scratch_write_text(GW_KEEPER_END, bad[i]);
        cr_expect_not(gw_keeper_read_end(scratch_folder(), &end, &err), "%s", bad[i]);
        cr_expect_eq(err.code, GW_E_INVALID);
        scratch_write_text(GW_KEEPER_TASK, bad[i]);
        cr_expect_eq(end_of(start()), 1, "%s", bad[i]);
    }
    /* An object with other things in it tells of no command that was started, and runs none. */
    scratch_write_text(GW_KEEPER_END, "{\"code\": \"x\", \"started\": 1, \"text\": []}");
    cr_assert(gw_keeper_read_end(scratch_folder(), &end, &err));
    cr_expect(!end.started && end.code == 0 && end.text[0] == '\0');
    scratch_write_text(GW_KEEPER_TASK, "{\"argv\": 7, \"environment\": {}, \"directory\": \"/\"}");
    unlink(scratch_path(GW_KEEPER_END));
    cr_expect_eq(end_of(start()), 0);
    end = read_end();
    cr_expect(!end.started && end.code == 125);
    cr_expect_not_null(strstr(end.text, "no command"), "%s", end.text);
}
