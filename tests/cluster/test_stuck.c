/* Threads that get stuck elsewhere than in the job's code: the loop, a data thread, a reduction, a disk.
 * Each is noticed by its peer, which logs where it is, and the others go on. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLEEPING "synthetic --workers 1 --shards 12 --steps 100 --shard-ms"
#define WATCHED  GODWIT_FLIPPER_JOB " --workers 1 --hang-timeout 2s --transport "
#define JOB      WATCHED "tcp"

static void init(void) {
    LAB_PRELOADS;
}
TestSuite(stuck, .init = init);

/* It gets stuck (tests/jobs/stuck.c). */
static lab_peer *start_stuck(lab *l, const char *name, const lab_peer *seed, const char *args,
                             const char *stuck) {
    cr_assert(setenv("STUCK", stuck, 1) == 0 && setenv("LD_PRELOAD", GODWIT_STUCK, 1) == 0);
    lab_peer *peer = lab_start(l, name, seed, args);
    unsetenv("LD_PRELOAD");
    unsetenv("STUCK2");
    return peer;
}

/* Three peers, of which the last gets stuck. */
static void start(lab *l, lab_peer **peers, const char *args, const char *stuck) {
    peers[0] = lab_start(l, "p0", NULL, args);
    peers[1] = lab_start(l, "p1", peers[0], args);
    peers[2] = start_stuck(l, "p2", peers[0], args, stuck);
}

static bool says(const lab_peer *peer, const char *part) {
    return peer->stderr_text != NULL && strstr(peer->stderr_text, part) != NULL;
}

/* The log has that thread's stack: it hangs in `call`, which `caller` wanted. */
static void expect_stack(const lab_peer *peer, const char *thread, const char *call, const char *caller) {
    char head[64];
    snprintf(head, sizeof head, "(%s), state", thread);
    const char *text = peer->stderr_text == NULL ? NULL : strstr(peer->stderr_text, head);
    const char *hung = text == NULL ? NULL : strstr(text, call);
    cr_expect(hung != NULL && strstr(hung, caller) != NULL, "%s", peer->stderr_text);
}

static void expect_right(lab *l, lab_peer **peers, const char *args) {
    const char *hash = lab_undisturbed(l, args);
    for (int i = 0; i < 2; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash, "peer %d", i);
}

/* The last one, where the others could not begin with it. */
static void start_again(lab *l, lab_peer **peers, const char *args) {
    if (lab_last(peers[0], "view") == NULL) lab_start(l, "p2", peers[0], args);
}

Test(stuck, a_loop_that_does_not_turn_ends_its_process) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, JOB " --peers 3", "epoll_wait main 100");
    cr_expect_eq(lab_end(l, peers[2]), 1);
    cr_expect(says(peers[2], "the event loop has been stuck for"), "%s", peers[2]->stderr_text);
    expect_stack(peers[2], "godwit", "epoll_wait", "gw_loop_run");
    start_again(l, peers, JOB " --peers 3");
    expect_right(l, peers, JOB);
    lab_close(l);
}

static bool tells_of_leaving(const json_t *event, const void *context) {
    (void)context;
    return strcmp(lab_text(event, "event"), "peer") == 0 && strcmp(lab_text(event, "state"), "left") == 0;
}

/* Its thread hangs in `call`, which is noticed: `what`. The peer says good-bye, so that no shard that it had
 * claimed is held to have killed it. `among`: options that three run with, besides. */
static void ends_its_peer(const char *args, const char *among, const char *call, const char *thread, int n,
                          const char *caller, const char *what) {
    char stuck[64], all[512];
    snprintf(stuck, sizeof stuck, "%s %s %d", call, thread, n);
    snprintf(all, sizeof all, "%s --peers 3%s", args, among);
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, all, stuck);
    lab_wait(l, peers[0], tells_of_leaving, NULL, "that a peer left");
    cr_expect_eq(lab_end(l, peers[2]), 1);
    cr_expect(says(peers[2], what), "%s", peers[2]->stderr_text);
    expect_stack(peers[2], thread, call, caller);
    start_again(l, peers, all);
    expect_right(l, peers, args);
    lab_close(l);
}

static void data_thread(const char *args, const char *thread, int n, const char *caller) {
    ends_its_peer(args, "", "sendmsg", thread, n, caller, "a data thread hangs (--hang-timeout)");
}

/* In a reduction that all have entered the others see that nothing moves; before that they would wait for as
 * long as this peer lives. */
Test(stuck, a_data_thread_of_reductions_that_hangs_ends_its_peer) {
    data_thread(JOB, "gw-data-sums", 60, "rail_main");
}

Test(stuck, a_data_thread_of_steals_that_hangs_ends_its_peer) {
    data_thread(JOB, "gw-data-words", 2, "rail_main");
}

/* It makes the links' faster ways, here shared memory; of RDMA it is the one that connects. */
Test(stuck, the_data_thread_of_paths_that_hangs_ends_its_peer) {
    data_thread(WATCHED "auto", "gw-data-paths", 1, "control_main");
}

/* Where it takes the memory that it is to receive a sum in: all others wait for it there, and it for nobody.
 */
Test(stuck, a_reduction_that_hangs_ends_its_peer) {
    ends_its_peer(JOB, "", "mmap", "gw-compute", 1, "run_reduce",
                  "a reduction hangs here where it waits for nobody (--hang-timeout)");
}

static bool tells_of_disk(const json_t *event, const void *context) {
    (void)context;
    return strcmp(lab_text(event, "event"), "warning") == 0 &&
           strstr(lab_text(event, "text"), "the disk hangs") != NULL;
}

/* The run goes on, here too; the others keep its share of the checkpoints. */
Test(stuck, a_disk_that_hangs_is_told_and_stops_nobody) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start(l, peers, SLEEPING " 20 --transport tcp --hang-timeout 2s --peers 3 --checkpoint-every 5",
          "fdatasync gw-checkpoint 1");
    lab_wait(l, peers[2], tells_of_disk, NULL, "that the disk hangs");
    uint64_t step = lab_number(lab_last(peers[2], "step"), "step");
    lab_wait_step(l, peers[2], step + 10);
    expect_stack(peers[2], "gw-checkpoint", "fdatasync", "gw_durable_");
    lab_kill(l, peers[2]);
    expect_right(l, peers, SLEEPING " 0");
    lab_close(l);
}

#define SHORT " --hang-timeout 2s --time-scale 30"

/* What it had promised is not durable, so that it cannot vote; and its end waits for no disk. */
Test(stuck, a_record_that_a_disk_does_not_take_ends_its_peer) {
    ends_its_peer(JOB, " --quorum majority --time-scale 30", "fdatasync", "gw-disk", 1, "gw_durable_",
                  "the disk hangs: what this peer has promised is not recorded (--hang-timeout)");
}

/* The program's file, which has the names for the log, may be on that disk. */
Test(stuck, a_disk_that_the_program_is_on_as_well_ends_its_peer) {
    const char *args = JOB " --peers 3 --quorum majority --time-scale 30";
    lab *l = lab_open();
    lab_peer *peers[3];
    cr_assert(setenv("STUCK2", "mmap gw-symbols 1", 1) == 0);
    start(l, peers, args, "fdatasync gw-disk 1");
    cr_expect_eq(lab_end(l, peers[2]), 1);
    cr_expect(says(peers[2], "the disk hangs: what this peer has promised is not recorded"), "%s",
              peers[2]->stderr_text);
    expect_stack(peers[2], "gw-disk", " (stuck.so at 0x", " (godwit at 0x");
    start_again(l, peers, args);
    expect_right(l, peers, JOB);
    lab_close(l);
}

/* Nothing that is done before such an end can hold it up for good. */
Test(stuck, an_end_that_hangs_itself_is_the_kernels) {
    lab *l = lab_open();
    cr_assert(setenv("STUCK2", "opendir gw-loop-watch 1", 1) == 0);
    lab_peer *peer = start_stuck(l, "alone", NULL, JOB " --steps 1000000", "epoll_wait main 100");
    cr_expect_eq(lab_end(l, peer), 128 + SIGKILL);
    cr_expect(says(peer, "the event loop has been stuck for"), "%s", peer->stderr_text);
    lab_close(l);
}

Test(stuck, a_state_that_is_read_from_a_disk_that_hangs_ends_its_peer) {
    const char *args = "synthetic --workers 1 --shards 2 --steps 1000000 --checkpoint-every 2" SHORT;
    lab *l = lab_open();
    lab_peer *peer = lab_start(l, "alone", NULL, args);
    lab_wait_event(l, peer, "checkpoint");
    lab_kill(l, peer);
    peer = start_stuck(l, "alone", NULL, args, "read gw-compute 1");
    cr_expect_eq(lab_end(l, peer), 1);
    cr_expect(says(peer, "a state that is loaded makes no progress"), "%s", peer->stderr_text);
    cr_expect(says(peer, "has made no progress for 9 s"), "%s", peer->stderr_text);
    cr_expect(says(peer, "does not return: this process ends without it"), "%s", peer->stderr_text);
    expect_stack(peer, "gw-compute", "read", "gw_load_from_checkpoint");
    lab_close(l);
}

static bool tells_of_no_progress(const json_t *event, const void *context) {
    (void)context;
    return strcmp(lab_text(event, "event"), "warning") == 0 &&
           strstr(lab_text(event, "text"), "the disk has made no progress") != NULL;
}

/* More of a checkpoint than is kept in memory: the state must not change until the rest has been read, which
 * is when the disk gets on or is given up. That is no hang of what changes it, however long the one takes
 * (here 9 s) and however short the other is (2 s). */
Test(stuck, a_state_that_waits_for_a_disk_that_hangs_does_not_hang_itself) {
    lab *l = lab_open();
    lab_peer *peer =
        start_stuck(l, "alone", NULL,
                    "synthetic --workers 1 --shards 2 --state-bytes 320m --sum-elements 1024 --steps 1000 "
                    "--checkpoint-every 2" SHORT,
                    "fdatasync gw-checkpoint 1");
    lab_wait(l, peer, tells_of_no_progress, NULL, "that the disk hangs");
    lab_mark(l, peer);
    lab_wait_event(l, peer, "step");
    lab_kill(l, peer);
    lab_close(l);
}

static int remove_chunk(const char *path, const struct stat *status, int type, struct FTW *at) {
    (void)status, (void)at;
    return type == FTW_F && strstr(path, "/chunks/") != NULL ? unlink(path) : 0;
}

#define SERVING                                                                                              \
    "synthetic --workers 1 --shards 12 --shard-ms 2 --state-bytes 256k --transport tcp --checkpoint-every "  \
    "20"

/* A peer lost its part of a checkpoint, asks for it, and gets no answer: the disk of the other one holds
 * that. It gets the state all the same, from the other one's memory. */
Test(stuck, a_disk_that_hangs_for_others_does_not_keep_the_state_from_them) {
    lab *l = lab_open();
    lab_peer *peers[2];
    lab_flock(l, 2, SERVING SHORT, peers);
    lab_wait_event(l, peers[0], "checkpoint");
    lab_wait_event(l, peers[1], "checkpoint");
    for (int i = 0; i < 2; i++) lab_kill(l, peers[i]);
    cr_assert_eq(nftw(peers[1]->dir, remove_chunk, 16, FTW_PHYS), 0);
    peers[0] = start_stuck(l, "p0", NULL, SERVING SHORT " --peers 2", "read gw-data-files 1");
    peers[1] = lab_start(l, "p1", peers[0], SERVING SHORT " --peers 2");
    lab_wait_event(l, peers[1], "step");
    lab_wait(l, peers[0], tells_of_disk, NULL, "that the disk hangs");
    free(lab_wait_shown(l, peers[0], "--json", "\"disk_writable\":false"));
    lab_stop_alike(l, peers, 2, SERVING SHORT);
    cr_expect(says(peers[0], "the disk hangs: other peers get nothing of the checkpoints here"), "%s",
              peers[0]->stderr_text);
    expect_stack(peers[0], "gw-data-files", "read", "gw_store_find");
    cr_expect(says(peers[0], "does not return: this process ends without it"), "%s", peers[0]->stderr_text);
    lab_close(l);
}
