/* Control groups on this machine, if it lets this user make any. */
#include "tools/godwit/limit/group.h"

#include "core/os/process.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

static gw_groups groups;

static void open_groups(void) {
    char name[60];
    gw_err err;
    snprintf(name, sizeof name, "godwit-test-group-%d", (int)getpid());
    if (!gw_groups_open(name, &groups, &err)) cr_skip_test("%s", err.text);
}

static void close_groups(void) {
    gw_groups_close(&groups);
    cr_expect_eq(access(groups.path, F_OK), -1);
}

TestSuite(group, .init = open_groups, .fini = close_groups);

static gw_process start(const char *group, const char *const *argv) {
    char entrance[GW_PATH_BYTES];
    char *environment[] = {NULL};
    gw_process process;
    gw_err err;
    cr_assert(gw_group_entrance(group, entrance, &err));
    gw_spawn spawn = {.file = argv[0],
                      .argv = (char *const *)(uintptr_t)argv,
                      .environment = environment,
                      .entrance = entrance};
    cr_assert(gw_process_spawn(&spawn, &process, &err), "%s", err.text);
    return process;
}

static void make(const char *name, const gw_group_limits *limits, char path[GW_PATH_BYTES]) {
    gw_err err;
    cr_assert(gw_group_make(&groups, name, limits, path, &err), "%s", err.text);
}

Test(group, its_processes_are_killed_and_it_can_be_removed_then) {
    const char *const argv[] = {"/bin/sleep", "1000", NULL};
    char path[GW_PATH_BYTES];
    bool own;
    int status = 0;
    make("one", &(gw_group_limits){0}, path);
    gw_process process = start(path, argv);
    cr_expect(gw_group_kill(path));
    cr_assert(gw_process_wait(&process, 30 * SECOND_NS, false, &status));
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cr_expect_eq(gw_group_killed(path, &own), 0);
    gw_process_close(&process);
    gw_group_remove(path);
    cr_expect_eq(access(path, F_OK), -1);
    cr_expect_not(gw_group_kill(path));
}

Test(group, what_an_earlier_job_has_left_in_it_is_ended) {
    const char *const argv[] = {"/bin/sleep", "1000", NULL};
    char path[GW_PATH_BYTES], again[GW_PATH_BYTES];
    make("one", &(gw_group_limits){0}, path);
    gw_process process = start(path, argv);
    gw_groups before = groups;
    gw_groups_close(&before); /* it is in use */
    cr_expect_eq(access(groups.path, F_OK), 0);
    make("one", &(gw_group_limits){0}, again);
    int status = 0;
    cr_assert(gw_process_wait(&process, 30 * SECOND_NS, false, &status));
    gw_process_close(&process);
    gw_group_remove(path);
}

Test(group, a_process_that_cannot_enter_is_not_started) {
    const char *const argv[] = {"/bin/true", NULL};
    char *environment[] = {NULL};
    gw_process process;
    gw_err err;
    gw_spawn spawn = {.file = argv[0],
                      .argv = (char *const *)(uintptr_t)argv,
                      .environment = environment,
                      .entrance = "/nonexistent/cgroup.procs"};
    cr_expect_not(gw_process_spawn(&spawn, &process, &err));
}

/* What follows needs limits, which the kernel of this machine may give to another hierarchy. */

static void need(unsigned kind, const char *why) {
    if ((groups.kinds & kind) != 0) return;
    close_groups(); /* a test that is skipped ends here */
    cr_skip_test("%s", why);
}

Test(group, more_memory_than_it_may_have_ends_a_process_and_is_told) {
    const char *const argv[] = {"/usr/bin/python3", "-c", "b = bytearray(64 << 20); b[::4096] = bytes(16384)",
                                NULL};
    char path[GW_PATH_BYTES];
    bool own = false;
    int status = 0;
    need(GW_GROUP_MEMORY, "memory is not limited by groups here");
    make("one", &(gw_group_limits){.memory_bytes = 32 << 20}, path);
    gw_process process = start(path, argv);
    cr_assert(gw_process_wait(&process, 60 * SECOND_NS, false, &status));
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cr_expect_eq(gw_group_killed(path, &own), 1);
    cr_expect(own);
    gw_process_close(&process);
    gw_group_remove(path);
}

Test(group, more_processes_than_it_may_have_are_not_made) {
    const char *const argv[] = {"/bin/sh", "-c", "sleep 1000 & sleep 1000 & exit 0", NULL};
    char path[GW_PATH_BYTES];
    int status = 0;
    need(GW_GROUP_PROCESSES, "processes are not limited by groups here");
    make("one", &(gw_group_limits){.processes = 2}, path);
    gw_process process = start(path, argv);
    cr_assert(gw_process_wait(&process, 60 * SECOND_NS, true, &status));
    cr_expect(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    gw_process_close(&process);
    gw_group_kill(path);
    gw_group_remove(path);
}

Test(group, its_processes_run_on_its_processors) {
    const char *const argv[] = {"/bin/sleep", "1000", NULL};
    char path[GW_PATH_BYTES];
    cpu_set_t own, one, found;
    gw_err err;
    int status;
    size_t processor = 0;
    need(GW_GROUP_CORES, "processors are not limited by groups here");
    cr_assert_eq(sched_getaffinity(0, sizeof own, &own), 0);
    while (!CPU_ISSET(processor, &own)) processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    make("one", &(gw_group_limits){0}, path);
    cr_assert(gw_group_set_cores(path, &one, &err), "%s", err.text);
    gw_process process = start(path, argv);
    cr_assert_eq(sched_getaffinity(process.pid, sizeof found, &found), 0);
    cr_expect(CPU_EQUAL(&found, &one));
    cr_assert(gw_group_set_cores(path, &own, &err), "%s", err.text);
    cr_assert_eq(sched_getaffinity(process.pid, sizeof found, &found), 0);
    cr_expect(CPU_EQUAL(&found, &own));
    gw_group_kill(path);
    gw_process_wait(&process, 30 * SECOND_NS, false, &status);
    gw_process_close(&process);
    gw_group_remove(path);
}
