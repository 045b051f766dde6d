/* Shard payload between real peers: whoever holds a block, reads it, or dies at it, the state has the same
 * bytes. A wrong or stale block would show: every byte goes into the state. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SANITIZED = true }; /* their own memory counts against a process's limit */
#else
enum { SANITIZED = false };
#endif

#define PAYLOAD "synthetic --shards 24 --shard-ms 4 --state-bytes 64k --workers 1 --payload-bytes 300k"

/* An odd size, two copies, two workers. */
#define COPIES                                                                                               \
    "synthetic --shards 30 --shard-ms 4 --state-bytes 64k --workers 2 --payload-bytes 70001 "                \
    "--payload-copies 2"

/* Large ones, in pieces, on their way most of the time. */
#define LARGE "synthetic --shards 16 --shard-ms 20 --state-bytes 64k --workers 1 --payload-bytes 5m"

static uint64_t done_number(const lab_peer *peer, const char *key) {
    return lab_number(lab_last(peer, "done"), key);
}

/* `count` peers, of which the first is `slow` (arguments of its own): what it holds others must read. */
static void start_skewed(lab *l, uint32_t count, const char *args, const char *slow, lab_peer **peers) {
    for (uint32_t i = 0; i < count; i++) {
        char text[512], name[8];
        snprintf(name, sizeof name, "p%u", i);
        snprintf(text, sizeof text, "%s --peers %u%s%s", args, count, i == 0 ? " " : "", i == 0 ? slow : "");
        peers[i] = lab_start(l, name, i > 0 ? peers[0] : NULL, text);
    }
}

static void four_equal_one(const char *args, const char *slow) {
    lab *l = lab_open();
    lab_peer *peers[4];
    start_skewed(l, 4, args, slow, peers);
    const char *hash = lab_undisturbed(l, args);
    uint64_t local = 0, read = 0;
    for (int i = 0; i < 4; i++) {
        cr_expect_str_eq(lab_state(l, peers[i], "done"), hash);
        local += done_number(peers[i], "payload_local");
        read += done_number(peers[i], "payload_read");
    }
    cr_expect_gt(local, 0);
    cr_expect_gt(read, 0);
    const char *line = lab_text(lab_last(peers[0], "done"), "line");
    cr_expect_not_null(strstr(line, " payload_local="), "%s", line);
    lab_close(l);
}

Test(payload, four_peers_one_of_them_slow) {
    four_equal_one(PAYLOAD " --steps 40", "--skew 8");
}
Test(payload, over_tcp_alone) {
    four_equal_one(PAYLOAD " --steps 40 --transport tcp", "--skew 8");
}
Test(payload, over_shared_memory_alone) {
    four_equal_one(PAYLOAD " --steps 40 --transport shm", "--skew 8");
}
Test(payload, two_copies) {
    four_equal_one(COPIES " --steps 40", "--skew 8");
}
Test(payload, large_ones_in_pieces) {
    four_equal_one(LARGE " --steps 12", "--skew 6");
}
Test(payload, without_prefetch) {
    four_equal_one(PAYLOAD " --steps 40 --no-prefetch", "--skew 8");
}

/* The slow holder is killed while the others compute what it holds, that is, read it. */
static void kill_holder(const char *args, const char *slow, bool leader_too) {
    lab *l = lab_open();
    lab_peer *peers[4];
    start_skewed(l, 4, args, slow, peers);
    lab_wait_step(l, peers[1], 4);
    lab_kill(l, peers[0]);
    lab_wait_view(l, peers[1], 3);
    uint32_t next = 1;
    if (leader_too) {
        lab_wait_step(l, peers[1], 8);
        lab_kill(l, peers[1]);
        lab_wait_view(l, peers[2], 2);
        next = 2;
    }
    lab_stop_alike(l, peers + next, 4 - next, args);
    lab_close(l);
}

Test(payload, a_holder_killed) {
    kill_holder(PAYLOAD, "--skew 8", false);
}
Test(payload, two_holders_killed) {
    kill_holder(PAYLOAD, "--skew 8", true);
}
Test(payload, a_holder_killed_with_copies) {
    kill_holder(COPIES, "--skew 8", true);
}
Test(payload, a_holder_killed_while_large_ones_are_read) {
    kill_holder(LARGE, "--skew 6", false);
}

/* Silent, not dead: its blocks are not waited for longer than the flock needs to go on without it. */
Test(payload, a_holder_that_falls_silent) {
    lab *l = lab_open();
    lab_peer *peers[3];
    const char *args =
        "synthetic --shards 24 --shard-ms 2 --state-bytes 64k --workers 1 --payload-bytes 300k";
    start_skewed(l, 3, args, "--skew 8", peers);
    lab_wait_step(l, peers[1], 3);
    lab_signal(peers[0], SIGSTOP);
    lab_wait_view(l, peers[1], 2);
    lab_mark(l, peers[1]);
    lab_signal(peers[0], SIGCONT);
    lab_wait_view(l, peers[1], 3);
    lab_stop_alike(l, peers, 3, args);
    lab_close(l);
}

/* A newcomer holds a share from then on, which it reads from who had it. */
Test(payload, one_that_joins_late) {
    lab *l = lab_open();
    lab_peer *first = lab_start(l, "first", NULL, PAYLOAD);
    lab_wait_step(l, first, 3);
    lab_peer *late = lab_start(l, "late", first, PAYLOAD);
    lab_wait_view(l, late, 2);
    lab_wait_step(l, late, lab_number(lab_wait_event(l, late, "step"), "step") + 5);
    lab_stop_alike(l, (lab_peer *[]){first, late}, 2, PAYLOAD);
    cr_expect_gt(done_number(late, "payload_local"), 0);
    cr_expect_gt(done_number(late, "payload_read"), 0);
    lab_close(l);
}

/* Resumed by other peers than those that held the blocks: nothing of them is in a checkpoint. */
Test(payload, all_killed_and_three_of_four_started_again) {
    lab *l = lab_open();
    lab_peer *peers[4], *again[3];
    const char *args = PAYLOAD " --checkpoint-every 8";
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
    lab_wait_event(l, again[0], "resumed");
    for (int i = 0; i < 3; i++) lab_wait_view(l, again[i], 3);
    lab_stop_alike(l, again, 3, args);
    lab_close(l);
}

/* Blocks that cannot be read. */

#define FAULTY GODWIT_FAULTY_JOB " --payload --workers 1"

/* A peer fails to write one of its own blocks, twice: its claims are given back and dealt again. */
Test(payload, a_block_that_is_late) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start_skewed(l, 3, FAULTY, "--lose-payloads 2", peers);
    const char *hash = lab_state(l, peers[0], "done");
    for (int i = 1; i < 3; i++) cr_expect_str_eq(lab_state(l, peers[i], "done"), hash);
    cr_expect_str_eq(lab_undisturbed(l, FAULTY), hash);
    lab_close(l);
}

/* One that never can ends, and says which shard; the others go on. */
Test(payload, a_peer_that_cannot_have_its_blocks) {
    lab *l = lab_open();
    lab_peer *peers[3];
    start_skewed(l, 3, FAULTY, "--lose-payloads 1000000", peers);
    cr_expect_eq(lab_end(l, peers[0]), 1);
    cr_expect_not_null(strstr(peers[0]->stderr_text, "payload of shard"), "%s", peers[0]->stderr_text);
    const char *hash = lab_state(l, peers[1], "done");
    cr_expect_str_eq(lab_state(l, peers[2], "done"), hash);
    cr_expect_str_eq(lab_undisturbed(l, FAULTY), hash);
    lab_close(l);
}

/* Bad input. */

static void expect_end(const char *args, int code, const char *why) {
    lab *l = lab_open();
    lab_peer *peer = lab_launch(l, "p", NULL, NULL, args);
    cr_expect_eq(lab_end(l, peer), code);
    cr_expect_not_null(strstr(peer->stderr_text, why), "%s", peer->stderr_text);
    lab_close(l);
}

Test(payload, sizes_that_cannot_be) {
    expect_end("synthetic --payload-bytes 2000g", 2, "--payload-bytes: '2000g' is not a number of bytes");
    expect_end("synthetic --payload-bytes 1k --payload-copies 0", 2, "--payload-copies");
    expect_end("synthetic --payload-bytes 1000g --shards 4000", 1, "address space for 4000 blocks");
    expect_end("synthetic --payload-bytes 1k --shards 5000", 1, "4096 is the most");
#if !defined(__SANITIZE_THREAD__) /* it takes most of the address space itself */
    expect_end("synthetic --payload-bytes 1000g --shards 2", 1, "payload of shard 0");
#endif
}

static bool says_no_memory(const json_t *event, const void *none) {
    (void)none;
    return strstr(lab_text(event, "text"), "no memory to hold the payload of 64 shards") != NULL;
}

/* There is less memory than a peer should hold: what it does not hold it brings one by one. */
Test(payload, less_memory_than_the_blocks_need, .disabled = SANITIZED) {
    lab *l = lab_open();
    const char *args = "synthetic --steps 4 --shards 64 --shard-ms 0 --state-bytes 64k --workers 1 "
                       "--payload-bytes 8m";
    struct rlimit before, limit;
    cr_assert_eq(getrlimit(RLIMIT_DATA, &before), 0);
    limit = before;
    limit.rlim_cur = 400 << 20;
    cr_assert_eq(setrlimit(RLIMIT_DATA, &limit), 0); /* it inherits it: 512 MiB of blocks are too much */
    lab_peer *peer = lab_start(l, "poor", NULL, args);
    cr_assert_eq(setrlimit(RLIMIT_DATA, &before), 0);
    lab_wait(l, peer, says_no_memory, NULL, "that it lacks memory");
    const char *hash = lab_state(l, peer, "done");
    cr_expect_str_eq(lab_undisturbed(l, args), hash);
    lab_close(l);
}
