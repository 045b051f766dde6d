/* How runs end: politely, by force, by the user's stop, and because the job cannot go on. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENDLESS   "synthetic --shards 24 --shard-ms 2 --state-bytes 64k --workers 1"
#define SYNTHETIC ENDLESS " --steps 40"
/* For a life that is to end in the midst of the job, however late its end comes. */
#define SLOW SYNTHETIC " --skew 10"

static void expect_stderr(const lab_peer *peer, const char *part) {
    cr_expect(peer->stderr_text && strstr(peer->stderr_text, part), "'%s' is not in: %s", part,
              peer->stderr_text ? peer->stderr_text : "");
}

Test(endings, sigterm_leaves) {
    lab *l = lab_open();
    lab_peer *peers[3];
    lab_flock(l, 3, ENDLESS, peers);
    lab_wait_step(l, peers[0], 5);
    lab_signal(peers[1], SIGTERM);
    cr_expect_eq(lab_end(l, peers[1]), 0);
    cr_expect_str_eq(lab_text(lab_last(peers[1], "done"), "outcome"), "left");
    lab_stop_alike(l, (lab_peer *[]){peers[0], peers[2]}, 2, ENDLESS);
    lab_close(l);
}

/* A peer whose machine refuses the memory of a view's words could neither be stolen from nor steal: it goes,
 * and the others are not kept waiting. */
Test(endings, without_memory_for_a_fence_a_peer_goes) {
    lab *l = lab_open();
    lab_peer *peers[3];
    const struct rlimit small = {.rlim_cur = 32 * 1024, .rlim_max = 32 * 1024};
    lab_flock(l, 3, ENDLESS " --checkpoint-every off", peers);
    lab_wait_step(l, peers[0], 3);
    cr_assert_eq(prlimit(peers[1]->pid, RLIMIT_FSIZE, &small, NULL), 0);
    lab_kill(l, peers[2]);
    cr_expect_eq(lab_end(l, peers[1]), 1);
    expect_stderr(peers[1], "the fence of a view: net/data: 65536 bytes of shared memory");
    lab_stop_alike(l, peers, 1, ENDLESS);
    lab_close(l);
}

/* The last one to leave takes a checkpoint with it, and a later start goes on from there. */
Test(endings, sigterm_alone_and_resume) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, SLOW);
    lab_wait_step(l, peer, 2);
    lab_signal(peer, SIGINT);
    cr_expect_eq(lab_end(l, peer), 0);
    uint64_t left_at = lab_number(lab_last(peer, "done"), "steps");
    lab_peer *again = lab_start(l, "one", NULL, SYNTHETIC);
    cr_expect_eq(lab_number(lab_wait_event(l, again, "resumed"), "step"), left_at);
    const char *hash = lab_state(l, again, "done");
    cr_expect_str_eq(lab_undisturbed(l, SYNTHETIC), hash);
    lab_close(l);
}

/* In the middle of a long shard: the state before it is looked at, saved and left with, and neither waits
 * for it. */
Test(endings, sigterm_in_a_long_shard_leaves_at_the_state_before_it) {
    lab *l = lab_open();
    lab_peer *peer =
        lab_start(l, "one", NULL, "synthetic --steps 5 --shards 1 --shard-ms 2500 --workers 1 --grace 100ms");
    lab_wait_step(l, peer, 1);
    lab_signal(peer, SIGTERM);
    cr_expect_eq(lab_end(l, peer), 0);
    cr_expect_eq(lab_number(lab_last(peer, "done"), "steps"), 1);
    cr_expect_eq(lab_number(lab_last(peer, "checkpoint"), "step"), 1);
    lab_close(l);
}

static bool says_that_it_leaves(const json_t *event, const void *unused) {
    (void)unused;
    const char *text = lab_text(event, "text");
    return text != NULL && strstr(text, ": this peer leaves") != NULL && strstr(text, "already") == NULL;
}

/* The first signal is obeyed at the end of the step, seconds away; another one, later, ends the process at
 * once. */
Test(endings, second_signal) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, "synthetic --shards 4 --shard-ms 2000 --workers 1", peers);
    lab_wait_step(l, peers[1], 1); /* before it has the state it leaves at the first signal */
    lab_signal(peers[1], SIGTERM);
    lab_wait(l, peers[1], says_that_it_leaves, NULL, "that it is asked to leave");
    cr_expect_eq(lab_insist(l, peers[1], SIGINT), 128 + SIGINT);
    cr_expect_null(lab_last(peers[1], "done"));
    cr_expect_not_null(lab_logged(peers[1], ": this process ends at once"));
    lab_kill(l, peers[0]);
    lab_close(l);
}

/* Peers have no controlling terminal from now on, or the one that is opened here. */
static void leave_terminal(void) {
    cr_assert(getsid(0) == getpid() || setsid() > 0);
}

static void open_terminal(void) {
    leave_terminal();
    int other_end = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert(other_end >= 0 && grantpt(other_end) == 0 && unlockpt(other_end) == 0);
    cr_assert_geq(open(ptsname(other_end), O_RDWR | O_CLOEXEC), 0); /* a session's first is its own */
}

/* As timeout(1) does: the process, and then its group. */
/* A client waits a second for a peer whose process is stopped, and says how it goes on. */
static void expect_stopped(const lab_peer *peer) {
    char line[2 * LAB_PATH], part[100];
    int code;
    snprintf(line, sizeof line, GODWIT_BINARY " status --dir %s 2>&1", peer->dir);
    snprintf(part, sizeof part, "the peer's process %d is stopped: 'kill -CONT %d'", peer->pid, peer->pid);
    char *text = lab_shell(line, &code);
    cr_expect(code == 1 && strstr(text, part) != NULL && strstr(text, "waiting for") == NULL, "%d: %s", code,
              text);
    free(text);
}

Test(endings, two_signals_at_once_are_one) {
    static const int pairs[][2] = {{SIGTERM, SIGINT}, {SIGHUP, SIGTERM}};
    open_terminal();
    for (int i = 0; i < 2; i++) {
        lab *l = lab_open();
        lab_peer *peer = lab_start(l, "one", NULL, "synthetic --shards 8 --shard-ms 2 --workers 1");
        lab_wait_step(l, peer, 2);
        lab_signal(peer, SIGSTOP);
        if (i == 0) expect_stopped(peer);
        lab_signal(peer, pairs[i][0]);
        lab_signal(peer, pairs[i][1]);
        lab_signal(peer, SIGCONT);
        lab_state(l, peer, "left");
        lab_close(l);
    }
}

/* A closed terminal, a lost connection: it leaves, with a checkpoint. Under nohup it goes on. */
Test(endings, sighup_leaves_unless_it_was_ignored) {
    lab *l = lab_open();
    open_terminal();
    lab_peer *peer = lab_start(l, "one", NULL, SLOW);
    lab_wait_step(l, peer, 2);
    lab_signal(peer, SIGHUP);
    cr_expect_eq(lab_end(l, peer), 0);
    uint64_t left_at = lab_number(lab_last(peer, "done"), "steps");
    cr_expect_eq(lab_number(lab_last(peer, "checkpoint"), "step"), left_at);
    signal(SIGHUP, SIG_IGN); /* what it starts inherits that */
    peer = lab_start(l, "one", NULL, SYNTHETIC);
    lab_wait_event(l, peer, "resumed");
    lab_wait_step(l, peer, left_at + 1);
    lab_signal(peer, SIGHUP);
    lab_state(l, peer, "done");
    lab_close(l);
}

static bool says_that_it_leaves_already(const json_t *event, const void *unused) {
    (void)unused;
    const char *text = lab_text(event, "text");
    return text != NULL && strstr(text, "leaves already") != NULL;
}

/* What schedulers send before the end of a time limit. SIGTERM behind it, at the limit, is no second signal. */
Test(endings, sigusr1_and_sigusr2_leave_with_a_checkpoint_and_do_not_hurry_what_leaves) {
    static const int signals[] = {SIGUSR1, SIGUSR2};
    for (int i = 0; i < 2; i++) {
        lab *l = lab_open();
        lab_peer *peer = lab_start(l, "one", NULL, SLOW);
        lab_wait_step(l, peer, 2);
        lab_signal(peer, SIGSTOP); /* none of them comes when it has ended */
        lab_signal(peer, signals[i]);
        lab_signal(peer, SIGTERM);
        lab_signal(peer, SIGCONT);
        lab_state(l, peer, "left");
        cr_expect_eq(lab_number(lab_last(peer, "checkpoint"), "step"),
                     lab_number(lab_last(peer, "done"), "steps"));
        lab_close(l);
    }
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, "synthetic --shards 1 --shard-ms 3000 --workers 1");
    lab_wait_event(l, peer, "view");
    lab_signal(peer, SIGUSR1);
    lab_wait(l, peer, says_that_it_leaves, NULL, "that it leaves");
    lab_signal(peer, SIGUSR2);
    lab_wait(l, peer, says_that_it_leaves_already, NULL, "that it leaves already");
    lab_state(l, peer, "left");
    lab_close(l);
}

static bool says_that_it_goes_on(const json_t *event, const void *unused) {
    (void)unused;
    const char *text = lab_text(event, "text");
    return text != NULL && strstr(text, "no terminal was closed") != NULL;
}

/* As logrotate does it to a service. */
Test(endings, sighup_without_a_terminal_ends_nothing) {
    lab *l = lab_open();
    leave_terminal();
    lab_peer *peer = lab_start(l, "one", NULL, ENDLESS);
    lab_wait_step(l, peer, 2);
    lab_signal(peer, SIGHUP);
    lab_wait(l, peer, says_that_it_goes_on, NULL, "that it goes on");
    lab_stop_alike(l, &peer, 1, ENDLESS);
    lab_close(l);
}

/* Ctrl-\ on a terminal, with the core that it is for. */
Test(endings, sigquit_ends_at_once_and_says_so) {
    const struct rlimit no_core = {0};
    cr_assert_eq(setrlimit(RLIMIT_CORE, &no_core), 0);
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, ENDLESS);
    lab_wait_step(l, peer, 2);
    lab_signal(peer, SIGQUIT);
    cr_expect_eq(lab_end(l, peer), 128 + SIGQUIT);
    cr_expect(WIFSIGNALED(peer->status));
    cr_expect_not_null(lab_logged(peer, ": this process ends at once"));
    lab_close(l);
}

/* As a script's `godwit run ... &` does. */
Test(endings, sigint_and_sigterm_that_were_ignored_are_not_obeyed) {
    static const int signals[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        lab *l = lab_open();
        signal(signals[i], SIG_IGN); /* what it starts inherits that */
        lab_peer *peer = lab_start(l, "one", NULL, ENDLESS);
        lab_wait_step(l, peer, 2);
        lab_signal(peer, signals[i]);
        lab_stop_alike(l, &peer, 1, ENDLESS);
        lab_close(l);
    }
}

/* Closing has an alarm; one from outside is not that, and nothing is thrown away. */
Test(endings, sigalrm_leaves) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, ENDLESS);
    lab_wait_step(l, peer, 2);
    lab_signal(peer, SIGALRM);
    lab_state(l, peer, "left");
    cr_expect_eq(lab_number(lab_last(peer, "checkpoint"), "step"),
                 lab_number(lab_last(peer, "done"), "steps"));
    lab_close(l);
}

/* Before it takes part in anything. Either it ends as it is, or it had just begun to take part, and leaves.
 */
Test(endings, a_signal_while_opening_is_not_lost) {
    for (int i = 0; i < 5; i++) {
        lab *l = lab_open();
        lab_peer *peer = lab_launch(l, "one", NULL, NULL,
                                    "synthetic --shards 8 --shard-ms 20 --join 127.0.0.1:1 --workers 1");
        lab_wait_event(l, peer, "start");
        lab_signal(peer, SIGINT);
        int code = lab_end(l, peer);
        cr_expect(code == 128 + SIGINT || code == 0, "%d", code);
        lab_close(l);
    }
}

/* While it makes its state and computes a first shard, which others' memory may not leave it the time for. */
Test(endings, who_is_killed_while_opening_has_said_what_it_takes) {
    lab *l = lab_open();
    lab_peer *peer = lab_launch(l, "one", NULL, NULL,
                                "synthetic --shards 8 --shard-ms 100000 --state-bytes 8m --workers 1");
    const json_t *opening = lab_wait_event(l, peer, "opening");
    cr_expect_geq(lab_number(opening, "memory_bytes"), 8 << 20);
    cr_expect_null(lab_last(peer, "start"));
    lab_kill(l, peer);
    lab_close(l);
}

Test(endings, stop_and_resume) {
    lab *l = lab_open();
    lab_peer *peers[3], *again[3];
    lab_flock(l, 3, SLOW, peers);
    lab_wait_step(l, peers[0], 2);
    char command[600];
    snprintf(command, sizeof command, "stop --dir %s", peers[2]->dir);
    cr_assert_eq(lab_command(command), 0);
    const char *hash = lab_state(l, peers[0], "stopped");
    uint64_t step = lab_number(lab_last(peers[0], "done"), "steps");
    cr_expect_str_eq(lab_state(l, peers[1], "stopped"), hash);
    cr_expect_str_eq(lab_state(l, peers[2], "stopped"), hash);
    lab_flock(l, 3, SYNTHETIC, again);
    cr_expect_eq(lab_number(lab_wait_event(l, again[0], "resumed"), "step"), step);
    hash = lab_state(l, again[0], "done");
    cr_expect_str_eq(lab_undisturbed(l, SYNTHETIC), hash);
    lab_close(l);
}

/* A mistyped option must not train from step 0 beside a checkpoint of weeks. */
static void expect_another_job(const char *before, const char *now, const char *why) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, before);
    lab_state(l, peer, "done");
    peer = lab_start(l, "one", NULL, now);
    cr_expect_eq(lab_end(l, peer), 2);
    char text[400];
    snprintf(text, sizeof text, "/one holds step 6 of another job (%s", why);
    expect_stderr(peer, text);
    expect_stderr(peer, "by --fresh");
    /* --continue takes no state of a job of another type. */
    bool alike = strncmp(before, now, strcspn(before, " ") + 1) == 0;
    cr_expect_eq(strstr(peer->stderr_text, "--continue") != NULL, alike, "%s", peer->stderr_text);
    snprintf(text, sizeof text, "%s --fresh", now);
    peer = lab_start(l, "one", NULL, text);
    lab_state(l, peer, "done");
    cr_expect_null(lab_last(peer, "resumed"));
    peer = lab_start(l, "one", NULL,
                     now); /* it was begun here before: a supervisor starts it again without --fresh */
    lab_state(l, peer, "done");
    cr_expect_not_null(lab_last(peer, "resumed"));
    peer = lab_start(l, "one", NULL, before); /* what was there has stayed */
    lab_state(l, peer, "done");
    cr_expect_not_null(lab_last(peer, "resumed"));
    cr_expect_null(lab_last(peer, "warning"));
    lab_close(l);
}

Test(endings, options_that_make_another_job_are_named) {
    expect_another_job("synthetic --shard-ms 1 --state-bytes 64k --steps 6",
                       "synthetic --shard-ms 1 --state-bytes 128k --steps 6",
                       "state-bytes=65536, here 131072)");
    expect_another_job("synthetic --shard-ms 1 --steps 6", "synthetic --shard-ms 1 --steps 7",
                       "steps=6, here 7)");
    expect_another_job("synthetic --shard-ms 1 --steps 6",
                       "synthetic --shard-ms 1 --steps 6 --quorum majority --peers 1 --reduce fast",
                       "reduce=exact, here fast");
    expect_another_job("synthetic --shard-ms 1 --steps 6", "digits --epochs 1 --steps 6",
                       "synthetic, here digits)");
}

static bool names_new_place(const json_t *event, const void *place) {
    return strcmp(lab_text(event, "event"), "warning") == 0 && strstr(lab_text(event, "text"), place) != NULL;
}

/* Waits for the end of the peer, so that its directory is free when the command returns. Before that the
 * directory is renamed, which the peer tells and which costs nothing. */
Test(endings, stop_returns_when_the_peer_has_ended) {
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "one", NULL, ENDLESS);
    lab_wait_step(l, peer, 1);
    char command[LAB_PATH + 30], moved[LAB_PATH + 10];
    snprintf(moved, sizeof moved, "%s-moved", peer->dir);
    cr_assert_eq(rename(peer->dir, moved), 0);
    lab_wait(l, peer, names_new_place, moved, "warning");
    snprintf(command, sizeof command, "stop --dir %s", moved);
    cr_assert_eq(lab_command(command), 0);
    siginfo_t ended = {0};
    cr_assert_eq(waitid(P_PID, (id_t)peer->pid, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    cr_expect_eq(ended.si_pid, peer->pid, "it has ended");
    lab_state(l, peer, "stopped");
    lab_close(l);
}

Test(endings, fresh_ignores_checkpoints) {
    lab *l = lab_open();
    const char *hash = lab_undisturbed(l, SYNTHETIC);
    cr_expect_str_eq(lab_undisturbed(l, SYNTHETIC " --fresh"), hash);
    cr_expect_null(lab_last(&l->peers[1], "resumed"));
    cr_expect_eq(lab_number(lab_last(&l->peers[1], "step"), "step"), 40);
    const json_t *identity = json_object_get(lab_last(&l->peers[1], "start"), "identity");
    cr_expect_str_eq(lab_text(identity, "steps"), "40", "with the defaults filled in");
    cr_expect_str_eq(lab_undisturbed(l, SYNTHETIC), hash);
    cr_expect_not_null(
        strstr(lab_text(lab_last(&l->peers[2], "log"), "text"), "had come to its end before, at step 40"));
    lab_close(l);
}

/* Every peer stops alike, naming step, shard and tensor. */
Test(endings, bad_element) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, SYNTHETIC " --bad-shard 3:17", peers);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(lab_end(l, peers[i]), 1);
        cr_expect_str_eq(lab_text(lab_last(peers[i], "done"), "outcome"), "failed");
        expect_stderr(peers[i], "step 3");
        expect_stderr(peers[i], "shard 17");
        expect_stderr(peers[i], "tensor push");
    }
    lab_close(l);
}

Test(endings, bad_element_skipped) {
    lab *l = lab_open();
    lab_peer *peers[2];
    const char *args = SYNTHETIC " --bad-shard 3:17 --on-bad skip";
    lab_flock(l, 2, args, peers);
    const char *hash = lab_state(l, peers[0], "done");
    cr_expect_str_eq(lab_state(l, peers[1], "done"), hash);
    cr_expect_str_eq(lab_undisturbed(l, args), hash);
    lab_close(l);
}

static bool is_skip_of_17(const json_t *event, const void *context) {
    (void)context;
    const char *text = lab_text(event, "text");
    return strstr(text, "update is skipped") && strstr(text, "shard 17, tensor push");
}

/* Whoever is there: many, one of whom dies and is replaced, or all of them in a later life. In the first one
 * shards take fifty times as long: it ends in the midst of the job, however long a machine that has much to
 * do takes to start a peer. All hold the checkpoint, or the later life might wait for who does. */
Test(endings, bad_element_skipped_by_any_number) {
    lab *l = lab_open();
    lab_peer *peers[4];
    const char *args = SYNTHETIC " --bad-shard 3:17 --on-bad skip --checkpoint-every 2 --replicas 4";
    const char *slow =
        SYNTHETIC " --bad-shard 3:17 --on-bad skip --checkpoint-every 2 --replicas 4 --skew 50";
    lab_flock(l, 4, slow, peers);
    for (int i = 0; i < 4; i++) lab_wait(l, peers[i], is_skip_of_17, NULL, "a warning");
    lab_kill(l, peers[3]);
    peers[3] = lab_start(l, "late", peers[0], slow);
    lab_wait_view(l, peers[3], 4);
    lab_wait_event(l, peers[0], "checkpoint");
    for (int i = 0; i < 4; i++) lab_kill(l, peers[i]);
    lab_peer *again = lab_start(l, "p0", NULL, args);
    lab_peer *other = lab_start(l, "p1", again, args);
    const char *hash = lab_state(l, again, "done");
    cr_expect_str_eq(lab_state(l, other, "done"), hash);
    cr_expect_str_eq(lab_undisturbed(l, args), hash);
    lab_peer *whole = lab_launch(l, "whole", NULL, NULL, SYNTHETIC);
    cr_expect_str_neq(lab_state(l, whole, "done"), hash, "something is skipped");
    lab_close(l);
}

/* Weeks may be behind it. Nothing that was saved holds what is skipped, so that the bytes are those of a run
 * that skips from the start. */
Test(endings, a_job_that_stopped_at_a_bad_element_goes_on_without_it) {
    const char *args = SLOW " --bad-shard 3:17 --checkpoint-every 1"; /* so that one is saved */
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, args, peers);
    for (int i = 0; i < 2; i++) cr_expect_eq(lab_end(l, peers[i]), 1);
    peers[0] = lab_start(l, "p0", NULL, SYNTHETIC " --bad-shard 3:17 --checkpoint-every 1 --on-bad skip");
    peers[1] = lab_start(l, "p1", peers[0], SYNTHETIC " --bad-shard 3:17 --checkpoint-every 1 --on-bad skip");
    const char *hash = lab_state(l, peers[0], "done");
    cr_expect_str_eq(lab_state(l, peers[1], "done"), hash);
    cr_expect_geq(lab_number(lab_last(peers[0], "resumed"), "step"), 1);
    cr_expect_str_eq(lab_undisturbed(l, SYNTHETIC " --bad-shard 3:17 --on-bad skip"), hash);
    lab_close(l);
}

Test(endings, diverging_training) {
    lab *l = lab_open();
    lab_peer *peer = lab_launch(l, "one", NULL, NULL, "digits --epochs 1 --lr 1e6 --optimizer sgd");
    cr_expect_eq(lab_end(l, peer), 1);
    expect_stderr(peer, "shard");
    expect_stderr(peer, "tensor");
    lab_close(l);
}

/* A shard that kills whoever computes it stops the job after three, not the flock one after another. */
Test(endings, poison_shard) {
    lab *l = lab_open();
    lab_peer *peers[5];
    lab_flock(l, 5, SYNTHETIC " --crash-shard 3:17", peers);
    int killed = 0, named = 0;
    for (int i = 0; i < 5; i++) {
        int code = lab_end(l, peers[i]);
        killed += code == 128 + SIGSEGV;
        if (code != 1) continue;
        named++;
        expect_stderr(peers[i], "shard 17");
        expect_stderr(peers[i], "step 3");
    }
    cr_expect_eq(killed, 3);
    cr_expect_eq(named, 2);
    lab_close(l);
}

/* A pager that waits, a terminal after Ctrl-S: the peer goes on, and nobody takes it for dead. */
Test(endings, a_peer_whose_output_is_not_read_goes_on) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, "synthetic --steps 2000 --shards 8 --shard-ms 0 --state-bytes 4k --workers 1", peers);
    lab_wait_step(l, peers[1], 1);
    int unread = peers[1]->out;
    peers[1]->out = -1;
    const char *hash = lab_state(l, peers[0], "done");
    cr_expect_eq(json_array_size(json_object_get(lab_last(peers[0], "view"), "members")), 2);
    peers[1]->out = unread;
    cr_expect_str_eq(lab_state(l, peers[1], "done"), hash);
    cr_expect_eq(lab_number(lab_last(peers[1], "step"), "step"), 2000);
    lab_close(l);
}

/* A job is somebody else's code: what is wrong with it is said as such, and where. */
Test(endings, an_authors_mistake_is_no_bug_of_ours) {
    static const struct {
        const char *option, *said;
    } cases[] = {
        {"--mistake tensor",
         "job faulty: probe of step 0, shard 0: the job emitted elements 0 to 1 of tensor 0"},
        {"--mistake piece",
         "job faulty: probe of step 0, shard 0: the job emitted elements 0 to 2 of tensor 1"},
        {"--mistake mode", "job faulty: probe of step 0, shard 0: it changed the floating-point mode"},
        {"--no-shards 0", "job faulty: step 0 has 0 shards"},
        {"--many-shards 0", "job faulty: step 0 has 1048576 shards"},
        {"--no-shards 3", "job faulty: step 3 has 0 shards"},
        {"--many-shards 3", "job faulty: step 3 has 1048576 shards"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char args[LAB_PATH];
        lab *l = lab_open();
        snprintf(args, sizeof args, GODWIT_FAULTY_JOB " --workers 1 %s", cases[i].option);
        lab_peer *peer = lab_launch(l, "one", NULL, NULL, args);
        cr_expect_eq(lab_end(l, peer), 1, "%s", cases[i].option);
        expect_stderr(peer, cases[i].said);
        cr_expect_null(strstr(peer->stderr_text, "This is a bug"), "%s", peer->stderr_text);
        lab_close(l);
    }
}

/* Behind the end of a job there is no step, whatever it says of that. */
Test(endings, a_job_that_is_done_has_no_shards_of_a_step_more) {
    lab *l = lab_open();
    const char *args = GODWIT_FAULTY_JOB " --workers 1 --no-shards 20";
    char hash[65];
    strcpy(hash, lab_state(l, lab_start(l, "one", NULL, args), "done"));
    cr_expect_str_eq(lab_state(l, lab_start(l, "one", NULL, args), "done"), hash);
    lab_close(l);
}

static void mount_disk(const char *disk, const char *size) {
    if (mount("godwit-test", disk, "tmpfs", 0, size) != 0) cr_skip_test("no file system can be mounted here");
}

/* Who has no room for two checkpoints learns it at the start, and not at the first checkpoint of a run of
 * weeks. */
Test(endings, a_disk_without_room_for_two_checkpoints_is_refused) {
    lab *l = lab_open();
    char disk[LAB_PATH + 8];
    snprintf(disk, sizeof disk, "%s/one", l->dir);
    cr_assert_eq(mkdir(disk, 0700), 0);
    mount_disk(disk, "size=3m");
    lab_peer *peer = lab_start(l, "one", NULL, "synthetic --shard-ms 1 --steps 6 --state-bytes 2m");
    cr_expect_eq(lab_end(l, peer), 1);
    expect_stderr(peer, "of room left, and this peer's part of two checkpoints takes 4.2 MB");
    peer =
        lab_start(l, "one", NULL, "synthetic --shard-ms 1 --steps 6 --state-bytes 2m --checkpoint-every off");
    lab_state(l, peer, "done");
    umount2(disk, MNT_DETACH);

    /* A last state takes the room of an older checkpoint, so that counts; at the end nothing is left to
     * write. */
    mount_disk(disk, "size=5m");
    const char *long_job = "synthetic --shard-ms 1 --steps 100000 --state-bytes 2m --checkpoint-every 1";
    peer = lab_start(l, "one", NULL, long_job);
    for (int i = 0; i < 2; i++) lab_wait_event(l, peer, "checkpoint");
    lab_kill(l, peer);
    peer = lab_start(l, "one", NULL, long_job);
    lab_wait_event(l, peer, "resumed");
    lab_signal(peer, SIGTERM);
    cr_expect_eq(lab_end(l, peer), 0, "%s", peer->stderr_text);
    umount2(disk, MNT_DETACH);
    mount_disk(disk, "size=5m");
    const char *job = "synthetic --shard-ms 1 --steps 6 --state-bytes 2m --checkpoint-every 2 --keep 1";
    lab_state(l, lab_start(l, "one", NULL, job), "done");
    char *fill = NULL;
    cr_assert(asprintf(&fill, "dd if=/dev/zero of=%s/fill bs=64k count=28 2>/dev/null", disk) > 0);
    cr_assert_eq(system(fill), 0);
    free(fill);
    lab_state(l, lab_start(l, "one", NULL, job), "done");
    umount2(disk, MNT_DETACH);
    lab_close(l);
}
