/* The one idea: however many peers and workers, whoever dies, the state has the same bytes. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ENDLESS   "synthetic --shards 24 --shard-ms 2 --state-bytes 64k --workers 1"
#define SYNTHETIC ENDLESS " --steps 30"
#define DIGITS    "digits --epochs 1 --batch 512 --micro-batch 64"
/* A tiny model, trained on this program's own bytes. */
#define GPT                                                                                                  \
    "gpt --data " GODWIT_BINARY " --layers 2 --heads 2 --channels 32 --context 32 --batch-tokens 1536 "      \
    "--micro-batch 2 --dropout 0.1 --workers 1"

Test(same_bytes, workers) {
    lab *l = lab_open();
    const char *hash = lab_undisturbed(l, "synthetic --steps 10 --shard-ms 0 --state-bytes 1m --workers 1");
    const char *others[] = {"2", "7"};
    for (int i = 0; i < 2; i++) {
        char args[200];
        snprintf(args, sizeof args, "synthetic --steps 10 --shard-ms 0 --state-bytes 1m --fresh --workers %s",
                 others[i]);
        cr_expect_str_eq(lab_undisturbed(l, args), hash);
    }
    lab_close(l);
}

/* Four peers against one. */
static void four_equal_one(const char *args) {
    lab *l = lab_open();
    lab_peer *peers[4];
    lab_flock(l, 4, args, peers);
    const char *hash = lab_state(l, peers[0], "done");
    for (int i = 1; i < 4; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash);
    cr_expect_str_eq(lab_undisturbed(l, args), hash);
    lab_close(l);
}

Test(same_bytes, four_peers_synthetic) {
    four_equal_one(SYNTHETIC);
}

Test(same_bytes, four_peers_digits) {
    four_equal_one(DIGITS " --workers 1");
}

Test(same_bytes, four_peers_gpt) {
    four_equal_one(GPT " --updates 40");
}

Test(same_bytes, four_peers_over_tcp) {
    four_equal_one(SYNTHETIC " --transport tcp --lanes 3");
}

Test(same_bytes, four_peers_over_shared_memory) {
    four_equal_one(SYNTHETIC " --transport shm");
}

/* Some pairs over TCP, some by shared memory, and one peer is killed in the middle. */
Test(same_bytes, mixed_paths_and_a_kill) {
    lab *l = lab_open();
    static const char *const kinds[] = {"tcp", "auto", "auto", "auto"};
    lab_peer *peers[4];
    for (int i = 0; i < 4; i++) {
        char name[8], args[300];
        snprintf(name, sizeof name, "p%d", i);
        snprintf(args, sizeof args, ENDLESS " --peers 4 --transport %s", kinds[i]);
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, args);
    }
    lab_wait_step(l, peers[0], 5);
    lab_kill(l, peers[3]);
    lab_wait_view(l, peers[0], 3);
    lab_stop_alike(l, peers, 3, ENDLESS);
    lab_close(l);
}

/* One of three is killed and started again, and then all; the workers' number changes on the way. */
Test(same_bytes, gpt_killed_and_resumed) {
    lab *l = lab_open();
    lab_peer *peers[3];
    const char *args = GPT " --updates 100 --checkpoint-every 10";
    lab_flock(l, 3, args, peers);
    lab_wait_step(l, peers[0], 5);
    lab_kill(l, peers[1]);
    lab_wait_view(l, peers[0], 2);
    lab_wait_event(l, peers[0], "checkpoint");
    for (int i = 0; i < 3; i += 2) lab_signal(peers[i], SIGKILL);
    for (int i = 0; i < 3; i += 2) lab_end(l, peers[i]);
    lab_peer *first = lab_start(l, "p0", NULL, GPT " --updates 100 --checkpoint-every 10 --workers 3");
    lab_peer *second = lab_start(l, "p2", first, args);
    const char *hash = lab_state(l, first, "done");
    cr_expect_str_eq(lab_state(l, second, "done"), hash);
    cr_expect_str_eq(lab_undisturbed(l, GPT " --updates 100"), hash);
    lab_close(l);
}

/* As many tensors as a job may have, with long names: one of three peers is killed, and then the others. */
Test(same_bytes, most_tensors_killed_and_resumed) {
    lab *l = lab_open();
    lab_peer *peers[3];
    const char *args = GODWIT_MANY_JOB " --steps 40 --checkpoint-every 10 --workers 1";
    lab_flock(l, 3, args, peers);
    lab_wait_step(l, peers[0], 5);
    lab_kill(l, peers[1]);
    lab_wait_view(l, peers[0], 2);
    lab_wait_event(l, peers[0], "checkpoint");
    for (int i = 0; i < 3; i += 2) lab_signal(peers[i], SIGKILL);
    for (int i = 0; i < 3; i += 2) lab_end(l, peers[i]);
    lab_peer *first = lab_start(l, "p0", NULL, args), *second = lab_start(l, "p2", first, args);
    lab_wait_event(l, first, "resumed");
    const char *hash = lab_state(l, first, "done");
    cr_expect_str_eq(lab_state(l, second, "done"), hash);
    cr_expect_str_eq(lab_undisturbed(l, GODWIT_MANY_JOB " --steps 40"), hash);
    lab_close(l);
}

/* The last line on stdout is the one that people and scripts read. */
Test(same_bytes, last_line) {
    lab *l = lab_open();
    const char *hash = lab_undisturbed(l, DIGITS " --workers 2");
    const char *line = lab_text(lab_last(&l->peers[0], "done"), "line");
    char begin[200];
    snprintf(begin, sizeof begin, "godwit: done job=digits steps=%u state=%s loss=",
             (unsigned)lab_number(lab_last(&l->peers[0], "done"), "steps"), hash);
    cr_expect(strncmp(line, begin, strlen(begin)) == 0, "%s", line);
    cr_expect_not_null(strstr(line, " accuracy="));
    cr_expect_not_null(strstr(line, " peers=1 repaired=0 stolen=0"));
    lab_close(l);
}

/* Kills one of four, leader or not, in the middle of a step. */
static void kill_one(bool leader, const char *args) {
    lab *l = lab_open();
    lab_peer *peers[4];
    lab_flock(l, 4, args, peers);
    lab_wait_step(l, peers[0], 5);
    uint32_t victim = lab_leader(peers, 4);
    if (!leader) victim = (victim + 1) % 4;
    uint32_t witness = (victim + 1) % 4;
    lab_kill(l, peers[victim]);
    lab_wait_view(l, peers[witness], 3);
    peers[victim] = peers[3];
    lab_stop_alike(l, peers, 3, ENDLESS);
    lab_close(l);
}

Test(same_bytes, kill_leader) {
    kill_one(true, ENDLESS);
}
Test(same_bytes, kill_follower) {
    kill_one(false, ENDLESS);
}
Test(same_bytes, kill_leader_over_tcp) {
    kill_one(true, ENDLESS " --transport tcp");
}

/* Killed and started again in the same directory: a new life, admitted as a newcomer. */
Test(same_bytes, kill_and_restart) {
    lab *l = lab_open();
    lab_peer *peers[3];
    const char *args = "synthetic --shards 24 --shard-ms 5 --workers 1";
    lab_flock(l, 3, args, peers);
    lab_wait_step(l, peers[0], 3);
    lab_kill(l, peers[2]);
    lab_wait_view(l, peers[0], 2);
    lab_mark(l, peers[0]);
    lab_peer *again = lab_start(l, "p2", peers[0], args);
    lab_wait_view(l, peers[0], 3);
    cr_expect_eq(lab_number(lab_last(again, "start"), "boot"), 2);
    peers[2] = again;
    lab_stop_alike(l, peers, 3, args);
    lab_close(l);
}

Test(same_bytes, join_late) {
    lab *l = lab_open();
    const char *args = "synthetic --shards 24 --shard-ms 5 --workers 1 --state-bytes 9m";
    lab_peer *first = lab_start(l, "first", NULL, args);
    lab_wait_step(l, first, 3);
    lab_peer *late = lab_start(l, "late", first, args);
    lab_wait_view(l, late, 2);
    lab_wait_step(l, late, 1);
    while (lab_number(lab_last(late, "step"), "computed") == 0) lab_pump(l);
    lab_stop_alike(l, (lab_peer *[]){first, late}, 2, args);
    lab_close(l);
}

/* A peer that goes silent is expelled; when it wakes it is admitted again. */
Test(same_bytes, silent_peer) {
    lab *l = lab_open();
    lab_peer *peers[3];
    const char *args = "synthetic --shards 24 --shard-ms 2 --workers 1";
    lab_flock(l, 3, args, peers);
    lab_wait_step(l, peers[0], 3);
    lab_signal(peers[2], SIGSTOP);
    lab_wait_view(l, peers[0], 2);
    lab_mark(l, peers[0]);
    lab_signal(peers[2], SIGCONT);
    lab_wait_view(l, peers[0], 3);
    lab_stop_alike(l, peers, 3, args);
    lab_close(l);
}

/* All killed at once, three of four started again: they resume from what they hold together. */
Test(same_bytes, all_killed_three_restarted) {
    lab *l = lab_open();
    lab_peer *peers[4], *again[3];
    const char *args = "synthetic --shards 24 --shard-ms 2 --state-bytes 9m --workers 1 --checkpoint-every 8";
    lab_flock(l, 4, args, peers);
    lab_wait_event(l, peers[0], "checkpoint");
    lab_wait_step(l, peers[0], 12);
    for (int i = 0; i < 4; i++) lab_signal(peers[i], SIGKILL);
    for (int i = 0; i < 4; i++) lab_end(l, peers[i]);
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        again[i] = lab_start(l, name, i > 0 ? again[0] : NULL, args);
    }
    const json_t *resumed = lab_wait_event(l, again[0], "resumed");
    cr_expect_geq(lab_number(resumed, "step"), 8);
    for (int i = 0; i < 3; i++) lab_wait_view(l, again[i], 3);
    lab_stop_alike(l, again, 3, args);
    lab_close(l);
}
