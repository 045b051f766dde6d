/* Jobs whose shards worker processes compute: the state has the same bytes whatever becomes of workers and
 * peers. */
#include "core/os/clock.h"
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROGRAM  "program --program " GODWIT_WORKER
#define LOGISTIC "program --program " GODWIT_LOGISTIC

enum { ARGS = 1000 };

/* What is of level info, as all that a program prints, is an event; warnings and errors are on stderr, too. */
static bool says(const lab_peer *peer, const char *part) {
    for (size_t i = 0; i < json_array_size(peer->events); i++) {
        const json_t *event = json_array_get(peer->events, i);
        if (strcmp(lab_text(event, "event"), "log") == 0 && strstr(lab_text(event, "text"), part) != NULL)
            return true;
    }
    return peer->stderr_text != NULL && strstr(peer->stderr_text, part) != NULL;
}

/* The command of a job whose workers fail as `faults` says. */
static const char *with(const lab *l, const char *faults, const char *options) {
    static char args[ARGS];
    snprintf(args, sizeof args, PROGRAM " --args %s,%s %s", l->dir, faults, options);
    return args;
}

static void undisturbed(lab *l, char hash[65]) {
    strcpy(hash, lab_undisturbed(l, with(l, "none", "--workers 1")));
}

/* Runs a job on one peer with faults, and expects the state of one without, and these words in the log. */
static void survive(const char *faults, const char *options, const char *const *words) {
    lab *l = lab_open();
    char hash[65];
    undisturbed(l, hash);
    lab_peer *peer = lab_launch(l, "one", NULL, NULL, with(l, faults, options));
    cr_expect_str_eq(lab_state(l, peer, "done"), hash, "%s", peer->stderr_text);
    for (; *words != NULL; words++)
        cr_expect(says(peer, *words), "'%s' is not in:\n%s", *words, peer->stderr_text);
    lab_close(l);
}

/* One death in each state that a worker can be in. */
Test(program, a_worker_that_dies_costs_what_it_was_asked_for) {
    static const char *const words[] = {"signal 11",
                                        "exit status 3",
                                        "shard",
                                        "another worker computes it again",
                                        "of the update of step",
                                        "the end of step",
                                        "AFTER",
                                        "FINISH",
                                        "finished at counter",
                                        NULL};
    survive("arenas@0:crash,shard@1:exit,shard@3:crash,shard@6:kill,part@8:exit,part@9:crash,once@11:kill,"
            "once@12:exit,evaluated@6:kill,evaluated@12:exit,"
            "after@14:crash,finish@0:exit",
            "--workers 2", words);
}

/* ONCE ends the job, here behind the second evaluation: 12 updates of weight 15 and 2 evaluations of weight 3, four
 * times each. */
Test(program, an_evaluation_may_end_the_job) {
    lab *l = lab_open();
    lab_peer *peer = lab_launch(l, "one", NULL, NULL, with(l, "stops", "--workers 1"));
    lab_state(l, peer, "done");
    cr_expect(says(peer, "finished at counter 744"), "%s", peer->stderr_text);
    lab_close(l);
}

/* After the second loss at a shard the flock deals it again. Here it is dealt to the same peer, which goes
 * on. */
Test(program, a_shard_that_ends_two_workers_is_given_back) {
    static const char *const words[] = {"another worker computes it again", "this peer gives it back", NULL};
    survive("shard@6:crash,shard@6:exit", "--workers 1", words);
}

/* Nobody's shard is to blame for that. */
Test(program, workers_that_somebody_kills_are_replaced) {
    lab *l = lab_open();
    char hash[65];
    undisturbed(l, hash);
    lab_peer *peer =
        lab_launch(l, "one", NULL, NULL,
                   with(l, "shard@6:kill,shard@6:notice,shard@6:kill,shard@6:notice", "--workers 1"));
    cr_expect_str_eq(lab_state(l, peer, "done"), hash, "%s", peer->stderr_text);
    cr_expect(says(peer, "signal 9"), "%s", peer->stderr_text);
    cr_expect(says(peer, "signal 10"), "%s", peer->stderr_text);
    cr_expect(!says(peer, "given back"), "%s", peer->stderr_text);
    cr_expect(!says(peer, "gives it back"), "%s", peer->stderr_text);
    lab_close(l);
}

/* What breaks the protocol, is in the way, or cannot be done now. */
Test(program, a_worker_that_breaks_the_protocol_is_replaced) {
    static const char *const words[] = {"broke the protocol", "closed its connection", "MemoryError", NULL};
    survive("shard@1:rubbish,shard@2:long,shard@3:descriptor,shard@4:twice,shard@5:unable,part@7:rubbish,"
            "part@8:close,"
            "once@10:rubbish,shard@12:child,after@15:unable,part@17:unable",
            "--workers 2", words);
}

/* The state is read-only, and the arenas keep their size. */
Test(program, a_worker_cannot_touch_the_state) {
    static const char *const words[] = {"signal 11", "exit status 4", "exit status 5", NULL};
    survive("shard@1:write,shard@3:map,shard@5:cut", "--workers 1", words);
}

Test(program, what_a_worker_prints_is_logged_and_bounded) {
    static const char *const words[] = {"line 0 of much that is printed, with ? and ? in it", "were dropped",
                                        NULL};
    survive("shard@1:print,part@2:print,shard@20:print", "--workers 1", words);
}

Test(program, a_worker_that_hangs_is_ended_and_what_it_computed_is_computed_again) {
    static const char *const words[] = {
        "shard ",
        " has run for",
        "what comes after step 3 has made no progress",
        "the update of step 5 has made no progress",
        "and seems to hang (--hang-timeout)",
        "AFTER: worker",
        "the end of step 8: worker",
        "has been busy with it for too long (--hang-timeout); it is computed again",
        NULL};
    survive("after@4:hang,part@5:hang,shard@6:hang,once@7:hang", "--workers 2 --hang-timeout 1s", words);
}

/* Runs a peer until a fault has happened, and asks it to leave. */
static void leave_in_a_hang(lab *l, const char *faults, int number) {
    enum { LOOK_US = 20000, LEAVES_S = 30 };
    char path[LAB_PATH + 20];
    snprintf(path, sizeof path, "%s/fault-%d", l->dir, number);
    lab_peer *peer = lab_start(l, "one", NULL, with(l, faults, "--workers 2 --grace 2s"));
    for (int looks = 0; access(path, F_OK) != 0 && looks < 3000; looks++) usleep(LOOK_US);
    uint64_t began = gw_now_ns();
    lab_signal(peer, SIGTERM);
    cr_expect_eq(lab_end(l, peer), 0, "fault %d: %s", number, peer->stderr_text);
    cr_expect_lt(gw_now_ns() - began, LEAVES_S * UINT64_C(1000000000), "it waits for what hangs");
}

/* Without --grace it would wait for --hang-timeout, and its state would be lost. */
Test(program, a_peer_that_is_asked_to_leave_while_a_worker_hangs_leaves_within_its_grace) {
    lab *l = lab_open();
    char hash[65];
    undisturbed(l, hash);
    static const char faults[] = "shard@3:hang,part@5:hang,once@7:hang,after@9:hang";
    for (int i = 0; i < 4; i++) leave_in_a_hang(l, faults, i);
    lab_peer *peer = lab_launch(l, "one", NULL, NULL, with(l, faults, "--workers 2"));
    cr_expect_str_eq(lab_state(l, peer, "done"), hash);
    lab_close(l);
}

Test(program, forks_of_a_template_die_like_other_workers) {
    static const char *const words[] = {"signal 11", "exit status 3", "finished at counter", NULL};
    survive("forks,shard@1:exit,shard@3:crash,part@8:exit,once@11:crash,after@14:exit", "--workers 2", words);
}

/* They ask the template at the same time, which tells them in any order. */
Test(program, how_forks_have_ended_that_end_together_is_told_of_each) {
    lab *l = lab_open();
    char hash[65];
    undisturbed(l, hash);
    lab_peer *peer = lab_launch(
        l, "one", NULL, NULL,
        with(l, "forks,slow,shard@3/0:crash,shard@3/1:crash,shard@3/2:crash,shard@3/3:crash", "--workers 4"));
    cr_expect_str_eq(lab_state(l, peer, "done"), hash, "%s", peer->stderr_text);
    cr_expect(!says(peer, "with the process that it was forked from"), "%s", peer->stderr_text);
    lab_close(l);
}

Test(program, a_template_that_dies_is_replaced) {
    static const char *const words[] = {"signal 9 (Killed); it is started anew", "has ended: exit status 3",
                                        NULL};
    survive("forks,describe@0:kill,describe@0:kill,fork@0:exit,fork@0:kill,fork@0:kill,fork@0:kill,fork@0:"
            "kill,shard@3:crash",
            "--workers 1", words);
}

/* Refusals: no peer goes on, and the message says why. */

static void refused(const char *faults, const char *words) {
    lab *l = lab_open();
    lab_peer *peer = lab_launch(l, "one", NULL, NULL, with(l, faults, "--workers 2"));
    cr_expect_neq(lab_end(l, peer), 0);
    cr_expect(says(peer, words), "'%s' is not in:\n%s", words, peer->stderr_text);
    lab_close(l);
}

Test(program, a_program_that_describes_no_job_is_refused) {
    refused("HELLO@0:exit", "does not describe a job: worker 1");
    refused("DESCRIBE@0:crash", "signal 11");
    refused("DESCRIBE@0:rubbish", "broke the protocol");
    refused("INIT@0:exit", "exit status 3");
    refused("DESCRIBE@0:refuse", "worker.c:42: sparse gradients: use sparse=False");
}

Test(program, an_error_of_the_program_ends_the_job_with_its_place) {
    refused("SHARD@3:raise", "worker.c:42: ValueError: seven");
    refused("PART@3:raise", "part ");
    refused("ONCE@3:raise", "end of the step: worker.c:42: ValueError: seven");
    refused("AFTER@3:raise", "worker.c:42: ValueError: seven");
}

Test(program, what_kills_every_worker_is_given_up) {
    refused("SHARD@3/2:crash", "shard 2 of step 3 is poison: every peer that computes it dies");
    refused("SHARD@3/2:kill",
            "shard 2 of step 3 is poison: every peer that computes it dies"); /* not for ever */
    refused("SHARD@3:crash", "godwit: failed: shard "); /* poison, or more shards than a peer may lack */
    refused("ARENAS@0:exit", "a worker of ");
    refused("PART@3:crash", "part ");
}

Test(program, workers_with_many_threads_are_few) {
    lab *l = lab_open();
    lab_peer *peer = lab_launch(l, "one", NULL, NULL, with(l, "none", "--threads 1000"));
    (void)lab_state(l, peer, "done");
    cr_expect_eq(lab_number(lab_last(peer, "start"), "workers"), 1);
    peer = lab_launch(l, "two", NULL, NULL, with(l, "none", "--threads 0"));
    cr_expect_neq(lab_end(l, peer), 0);
    lab_close(l);
}

Test(program, parts_that_do_not_agree_are_refused_by_name) {
    refused("differ", "leaves 'numbers' otherwise than another part");
}

Test(program, a_program_that_begins_otherwise_each_time_is_refused) {
    refused("unlike", "begins with another 'fixed' each time it is started");
}

Test(program, a_process_that_is_no_child_of_the_template_is_not_touched) {
    refused("forks,stranger", "FORKED names another process");
}

Test(program, what_fails_behind_the_job_is_told_by_the_exit_code) {
    lab *l = lab_open();
    char hash[65];
    undisturbed(l, hash);
    lab_peer *peer = lab_launch(l, "one", NULL, NULL, with(l, "behind", "--workers 1"));
    cr_expect_eq(lab_end(l, peer), 1);
    cr_expect_str_eq(lab_text(lab_last(peer, "done"), "state"), hash);
    cr_expect(says(peer, "has failed behind it: exit status 5"), "%s", peer->stderr_text);
    lab_close(l);
}

/* What a program does behind the job may take any time, and may hang. */
Test(program, a_peer_whose_program_hangs_behind_the_job_ends_by_a_signal) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, with(l, "finish@0:hang", "--workers 1"));
    char path[LAB_PATH + 20];
    snprintf(path, sizeof path, "%s/fault-0", l->dir);
    for (int looks = 0; access(path, F_OK) != 0 && looks < 3000; looks++) usleep(20000);
    lab_signal(peer, SIGTERM);
    cr_expect_eq(lab_end(l, peer), 128 + SIGTERM);
    lab_close(l);
}

/* Flocks. */

enum { CHILDREN = 64 };

/* Lists the processes that a process has started. */
static int children_of(int pid, int *children) {
    char path[80];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *task = tasks != NULL ? readdir(tasks) : NULL; task != NULL;
         task = readdir(tasks)) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", pid, task->d_name);
        FILE *list = fopen(path, "re");
        while (list != NULL && count < CHILDREN && fscanf(list, "%d", &children[count]) == 1) count++;
        if (list != NULL) fclose(list);
    }
    if (tasks != NULL) closedir(tasks);
    return count;
}

/* Kills a worker of a peer, if there is one now. */
static void kill_worker(const lab_peer *peer) {
    int children[CHILDREN], count = children_of((int)peer->pid, children);
    if (count > 0) kill(children[rand() % count], SIGKILL);
}

/* Opens descriptors that become readable when the processes that a process has started end. Returns their
 * number. */
static int watch(int pid, int *pids, int *ends) {
    int count = children_of(pid, pids);
    for (int i = 0; i < count; i++) {
        ends[i] = (int)syscall(SYS_pidfd_open, pids[i], 0);
        cr_assert_geq(ends[i], 0);
    }
    return count;
}

static void expect_ends(const int *ends, int count) {
    enum { HANG_MS = 60000 };
    for (int i = 0; i < count; i++) {
        struct pollfd ended = {.fd = ends[i], .events = POLLIN};
        cr_expect_eq(poll(&ended, 1, HANG_MS), 1, "a worker outlives its peer");
        close(ends[i]);
    }
}

/* The template and its forks, of which one hangs in a shard. */
Test(program, workers_end_with_a_peer_that_is_killed) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, with(l, "forks,shard@4:hang", "--workers 1"));
    int children[CHILDREN], ends[CHILDREN], forks[CHILDREN], fork_ends[CHILDREN];
    lab_wait_step(l, peer, 4);
    cr_assert_eq(watch((int)peer->pid, children, ends), 1);
    int count = watch(children[0], forks, fork_ends);
    cr_assert_geq(count, 1);
    lab_kill(l, peer);
    expect_ends(ends, 1);
    expect_ends(fork_ends, count);
    lab_close(l);
}

/* Peers and workers are killed, a peer joins, all stop, and two go on. */
Test(program, a_flock_that_loses_peers_and_workers_ends_with_the_same_bytes) {
    lab *l = lab_open();
    lab_peer *peers[4];
    char hash[65];
    strcpy(hash, lab_undisturbed(l, LOGISTIC " --workers 1 --args 3000"));
    srand(48);
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, LOGISTIC " --workers 2 --peers 3 --args 3000");
    }
    for (uint64_t step = 5; step < 60; step += 5) {
        lab_wait_step(l, peers[0], step);
        kill_worker(peers[step / 5 % 2]);
        if (step == 20) lab_kill(l, peers[2]);
        if (step == 30) peers[3] = lab_start(l, "p3", peers[0], LOGISTIC " --workers 1 --args 3000");
    }
    char stop[LAB_PATH + 20];
    snprintf(stop, sizeof stop, "stop --dir %s", peers[0]->dir);
    bool stops = lab_command(stop) == 0; /* else it is too late, on a machine that stood still meanwhile */
    for (int i = 0; i < 4; i++)
        if (i != 2) (void)lab_end(l, peers[i]);
    if (!stops) cr_expect_str_eq(lab_state(l, peers[0], "done"), hash);
    peers[0] = lab_start(l, "p0", NULL, LOGISTIC " --workers 1 --peers 2 --args 3000");
    peers[1] = lab_start(l, "p1", peers[0], LOGISTIC " --workers 2 --peers 2 --args 3000");
    for (int i = 0; i < 2; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash, "%d", i);
    lab_close(l);
}

/* Waits until a fault has happened. Stores the process in which it has, and the one that started that. */
static void wait_fault(const lab *l, int number, int *pid, int *parent) {
    enum { LOOKS = 3000, LOOK_US = 20000 };
    char path[LAB_PATH + 20];
    int found = 0;
    snprintf(path, sizeof path, "%s/fault-%d", l->dir, number);
    for (int looks = 0; looks < LOOKS && found < 2; looks++) {
        FILE *file = fopen(path, "re");
        found = file != NULL ? fscanf(file, "%d %d", pid, parent) : 0;
        if (file != NULL) fclose(file);
        if (found < 2) usleep(LOOK_US);
    }
    cr_assert_eq(found, 2, "fault %d does not happen", number);
}

static bool is_warning_of(const json_t *event, const void *part) {
    return strcmp(lab_text(event, "event"), "warning") == 0 && strstr(lab_text(event, "text"), part) != NULL;
}

/* A worker hangs in a shard, its peer is stopped, and the others go on to a shard that hangs as well, in which they wait
 * until the peer asks to be admitted again. Only when its worker has ended the peer gets their state; --hang-timeout is too
 * long to be of help. */
Test(program, a_shard_that_nobody_wants_holds_its_peer_for_a_second) {
    lab *l = lab_open();
    lab_peer *peers[3], *stopped = NULL;
    char hash[65];
    int pid, parent;
    undisturbed(l, hash);
    lab_flock(l, 3, with(l, "shard@4:hang,shard@9:hang", "--workers 1 --hang-timeout 1000s"), peers);
    wait_fault(l, 0, &pid, &parent);
    for (int i = 0; i < 3; i++)
        if ((int)peers[i]->pid == parent) stopped = peers[i];
    cr_assert_not_null(stopped);
    lab_signal(stopped, SIGSTOP);
    for (int i = 0; i < 3; i++) /* both shards may have hung in one step, before the peer was stopped */
        if (peers[i] != stopped) (void)lab_wait_view(l, peers[i], 2);
    wait_fault(l, 1, &pid, &parent);
    lab_mark(l, stopped);
    lab_signal(stopped, SIGCONT);
    lab_wait(l, stopped, is_warning_of, "asking to be admitted again", "a warning");
    kill(pid, SIGKILL);
    (void)lab_wait_view(l, stopped, 3);
    for (int i = 0; i < 3; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash, "%d", i);
    lab_close(l);
}

/* Shards are computed by two peers and compared. */
Test(program, shards_are_verified_by_other_peers) {
    lab *l = lab_open();
    lab_peer *peers[2];
    char hash[65];
    strcpy(hash, lab_undisturbed(l, LOGISTIC " --workers 1 --args 3000"));
    lab_flock(l, 2, LOGISTIC " --workers 2 --args 3000 --verify 30%", peers);
    for (int i = 0; i < 2; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash, "%d", i);
    lab_close(l);
}

Test(program, peers_with_other_arguments_turn_each_other_away) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "p0", NULL, LOGISTIC " --workers 1 --peers 2 --args 3000");
    lab_peer *other = lab_start(l, "p1", first, LOGISTIC " --workers 1 --peers 2 --args 2999");
    lab_wait(l, other, is_warning_of, "theirs: args=3000, here: args=2999", "a warning");
    lab_close(l);
}
