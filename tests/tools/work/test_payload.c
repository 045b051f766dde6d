/* Shard payload: blocks are where the view places them, and travel when they are needed elsewhere. No death,
 * hang or fault on the way changes a byte that a shard reads. */
#include "tests/tools/work/payload_rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SANITIZED = true }; /* the memory of sanitizers counts against the limit of a process */
#else
enum { SANITIZED = false };
#endif

enum { ALL = 0xF };

static payload_rig rig; /* every test runs in a process of its own */

static gw_payload_counts counts(uint32_t peer) {
    return gw_payloads_count(rig.peers[peer].payloads);
}

static void start(uint32_t peers, uint32_t shards, uint64_t bytes, uint32_t copies) {
    payload_rig_open(&rig, peers, shards, bytes, copies);
    payload_rig_start(&rig);
}

/* Installs a view, and waits until every block that it places is held. */
static void settle(uint32_t members) {
    payload_rig_view(&rig, members);
    for (uint32_t i = 0; i < rig.count; i++)
        if (members >> i & 1) payload_rig_wait_held(&rig, i, members);
}

/* Where a shard finds its payload. */

Test(payload, who_holds_a_block_finds_it_in_place) {
    const uint64_t sizes[] = {1, 7, 64, 4096, 70000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        start(1, 10, sizes[i], 1);
        settle(1);
        for (uint32_t s = 0; s < 10; s++) {
            const void *block;
            gw_err err;
            cr_assert_eq(gw_payloads_take(rig.peers[0].payloads, s, &block, &err), GW_PAYLOAD_HERE);
            cr_assert(payload_rig_in_place(&rig, 0, block), "copied");
            gw_payloads_release(rig.peers[0].payloads, s, block);
            payload_rig_expect(&rig, 0, s);
        }
        cr_assert_eq(payload_rig_written(&rig, 0), 10);
        cr_assert_eq(counts(0).local_bytes, 20 * sizes[i]);
        cr_assert_eq(counts(0).read_bytes, 0);
        payload_rig_close(&rig);
    }
}

Test(payload, a_shard_beyond_the_plan_has_none) {
    const void *block = &rig;
    gw_err err;
    start(1, 10, 100, 1);
    settle(1);
    cr_assert_eq(gw_payloads_take(rig.peers[0].payloads, 10, &block, &err), GW_PAYLOAD_HERE);
    cr_assert_null(block);
    gw_payloads_release(rig.peers[0].payloads, 10, block);
    payload_rig_close(&rig);
}

/* Blocks of three and a half pieces. */
Test(payload, a_block_of_another_is_read_from_its_holder) {
    start(3, 6, 7 * GW_PAYLOAD_PIECE_BYTES / 2, 1);
    settle(7);
    uint32_t shard = payload_rig_shard_of(&rig, 2, 7);
    payload_rig_expect(&rig, 0, shard);
    cr_assert_eq(rig.peers[2].served, 4);
    cr_assert_eq(counts(0).read_bytes, rig.plan.bytes);
    cr_assert_eq(counts(0).reads_failed, 0);
    cr_assert_eq(rig.peers[0].written[shard], 0);
    payload_rig_close(&rig);
}

Test(payload, before_a_view_is_installed_nothing_is_waited_for) {
    const void *block;
    gw_err err;
    start(1, 10, 100, 1);
    cr_assert_eq(gw_payloads_take(rig.peers[0].payloads, 3, &block, &err), GW_PAYLOAD_GIVEN_UP);
    payload_rig_close(&rig);
}

/* Faults. */

Test(payload, without_its_holder_a_block_is_written_by_the_job) {
    start(2, 6, 1000, 1);
    settle(3);
    payload_rig_set(&rig, &rig.peers[1].dead, true);
    uint32_t shard = payload_rig_shard_of(&rig, 1, 3);
    payload_rig_expect(&rig, 0, shard);
    cr_assert_eq(rig.peers[0].written[shard], 1);
    cr_assert_eq(counts(0).reads_failed, 1);
    cr_assert_eq(counts(0).read_bytes, 0);
    payload_rig_close(&rig);
}

Test(payload, with_copies_the_other_holder_is_asked_before_the_job) {
    start(3, 6, 1000, 2);
    settle(7);
    uint32_t written = payload_rig_written(&rig, 0) + payload_rig_written(&rig, 2);
    payload_rig_set(&rig, &rig.peers[1].dead, true);
    for (uint32_t s = 0; s < 6; s++) {
        payload_rig_expect(&rig, 0, s);
        payload_rig_expect(&rig, 2, s);
    }
    cr_assert_eq(payload_rig_written(&rig, 0) + payload_rig_written(&rig, 2), written);
    cr_assert_geq(counts(0).read_bytes + counts(2).read_bytes, 4000, "two shards each that it does not hold");
    payload_rig_close(&rig);
}

Test(payload, damaged_bytes_are_noticed_and_not_used) {
    start(2, 6, 3 * GW_PAYLOAD_PIECE_BYTES, 1);
    settle(3);
    payload_rig_set(&rig, &rig.peers[1].corrupt, true);
    payload_rig_expect(&rig, 0, payload_rig_shard_of(&rig, 1, 3));
    cr_assert_eq(counts(0).reads_failed, 1);
    payload_rig_close(&rig);
}

Test(payload, a_silent_holder_is_abandoned) {
    payload_rig_open(&rig, 2, 6, 1000, 1);
    rig.patience_ns = 1000000;
    payload_rig_start(&rig);
    settle(3);
    uint32_t before = rig.peers[1].abandoned;
    payload_rig_set(&rig, &rig.peers[1].silent, true);
    payload_rig_expect(&rig, 0, payload_rig_shard_of(&rig, 1, 3));
    cr_assert_eq(rig.peers[1].abandoned, before + 1);
    cr_assert_eq(counts(0).reads_failed, 1);
    payload_rig_close(&rig);
}

Test(payload, what_nobody_has_and_the_job_cannot_write_is_lost) {
    const void *block;
    gw_err err;
    start(2, 6, 1000, 1);
    settle(3);
    payload_rig_set(&rig, &rig.peers[0].cannot_write, true);
    payload_rig_set(&rig, &rig.peers[1].dead, true);
    uint32_t shard = payload_rig_shard_of(&rig, 1, 3);
    cr_assert_eq(gw_payloads_take(rig.peers[0].payloads, shard, &block, &err), GW_PAYLOAD_LOST);
    cr_assert_not_null(strstr(err.text, "its disk is gone"), "%s", err.text);
    payload_rig_set(&rig, &rig.peers[1].dead, false);
    payload_rig_expect(&rig, 0, shard);
    payload_rig_close(&rig);
}

typedef struct taker {
    uint32_t shard;
    gw_payload_end end;
} taker;

static void *take_one(void *context) {
    taker *t = context;
    const void *block;
    gw_err err;
    t->end = gw_payloads_take(rig.peers[0].payloads, t->shard, &block, &err);
    if (t->end == GW_PAYLOAD_HERE) gw_payloads_release(rig.peers[0].payloads, t->shard, block);
    return NULL;
}

Test(payload, a_freeze_gives_up_what_is_being_read) {
    start(2, 6, 1000, 1);
    settle(3);
    payload_rig_set(&rig, &rig.peers[1].silent, true);
    taker t = {.shard = payload_rig_shard_of(&rig, 1, 3)};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, take_one, &t), 0);
    payload_rig_wait_waiting(&rig, 1);
    payload_rig_freeze(&rig, 0);
    pthread_join(thread, NULL);
    cr_assert_eq(t.end, GW_PAYLOAD_GIVEN_UP);
    cr_assert_eq(rig.peers[0].written[t.shard], 0, "nor is it written");
    cr_assert_eq(counts(0).reads_failed, 0, "that is nobody's failure");
    payload_rig_close(&rig);
}

/* The process has to end without closing it then (tests/cluster/test_hangs.c). */
Test(payload, the_end_does_not_wait_for_a_job_that_never_comes_back_with_a_block) {
    start(1, 6, 1000, 1);
    payload_rig_set(&rig, &rig.peers[0].write_hangs, true);
    payload_rig_view(&rig, 1);
    payload_rig_wait_hanging(&rig, 0);
    payload_rig_freeze(&rig, 0);
    cr_assert_not(gw_payloads_end(rig.peers[0].payloads, 1000000));
    payload_rig_set(&rig, &rig.peers[0].write_hangs, false);
    cr_assert(gw_payloads_end(rig.peers[0].payloads, UINT64_MAX));
    payload_rig_close(&rig);
}

/* Views. */

Test(payload, what_a_dead_peer_held_has_new_holders) {
    start(3, 30, 500, 1);
    settle(7);
    payload_rig_set(&rig, &rig.peers[1].dead, true);
    settle(5);
    for (uint32_t s = 0; s < 30; s++) cr_assert(rig.peers[0].index[s] != 0 || rig.peers[2].index[s] != 0);
    for (uint32_t s = 0; s < 30; s++) payload_rig_expect(&rig, s % 2 * 2, s);
    payload_rig_close(&rig);
}

/* With two copies nothing is lost when one peer leaves: the job writes no block again. */
Test(payload, copies_of_what_a_dead_peer_held_are_read_from_the_others) {
    start(4, 40, 500, 2);
    settle(ALL);
    uint32_t written = 0;
    for (uint32_t i = 0; i < 4; i++) written += payload_rig_written(&rig, i);
    payload_rig_set(&rig, &rig.peers[3].dead, true);
    settle(7);
    for (uint32_t i = 0; i < 4; i++) written -= payload_rig_written(&rig, i);
    cr_assert_eq(written, 0);
    payload_rig_close(&rig);
}

Test(payload, a_newcomer_reads_what_it_is_to_hold_from_who_held_it) {
    start(3, 30, 500, 1);
    settle(3);
    settle(7);
    cr_assert_eq(payload_rig_written(&rig, 2), 0);
    cr_assert_eq(counts(2).read_bytes, 10 * 500);
    payload_rig_close(&rig);
}

/* The former holder keeps a block for a while, so that the new one can read it, and then gives it up. */
Test(payload, what_is_not_held_any_more_is_given_up) {
    payload_rig_open(&rig, 2, 30, 5000, 1);
    rig.spare_ns = 0;
    payload_rig_start(&rig);
    settle(1);
    settle(3);
    uint32_t shard = payload_rig_shard_of(&rig, 1, 3);
    payload_rig_wait_index(&rig, 0, shard, false);
    payload_rig_expect(&rig, 0, shard);
    cr_assert_eq(rig.peers[0].index[shard], 0);
    /* Held again, in a slot that was used before, when the other peer has left. */
    payload_rig_set(&rig, &rig.peers[1].dead, true);
    settle(1);
    for (uint32_t s = 0; s < 30; s++) payload_rig_expect(&rig, 0, s);
    payload_rig_close(&rig);
}

/* Fetching ahead. */

/* A worker that has claimed a shard may be slow to take it, while others announce the next shards: its block
 * stays, and is not read again. */
Test(payload, a_claimed_block_stays_until_it_is_taken) {
    payload_rig_open(&rig, 2, 60, 1000, 1);
    rig.ahead = true;
    rig.workers = 2;
    payload_rig_start(&rig);
    settle(3);
    uint32_t others[60], count = 0;
    for (uint32_t s = 0; s < 60; s++)
        if (rig.peers[0].index[s] == 0) others[count++] = s;
    cr_assert_gt(count, 10);
    gw_payloads *payloads = rig.peers[0].payloads;
    enum { SLOW = 3, CLAIMS = 10 };
    const void *block;
    gw_err err;
    for (uint32_t k = 0; k < CLAIMS; k++) {
        gw_payloads_expect(payloads, others[k], &others[k + 1], 1);
        if (k != SLOW) {
            cr_assert_eq(gw_payloads_take(payloads, others[k], &block, &err), GW_PAYLOAD_HERE);
            gw_payloads_release(payloads, others[k], block);
        }
        payload_rig_wait_served(&rig, 1, k + 2);
    }
    cr_assert_eq(gw_payloads_take(payloads, others[SLOW], &block, &err), GW_PAYLOAD_HERE);
    gw_payloads_release(payloads, others[SLOW], block);
    cr_assert_eq(rig.peers[1].served, CLAIMS + 1);
    payload_rig_close(&rig);
}

/* Takes one block and releases it, announcing that `next` comes after it. */
static void take_before(uint32_t shard, uint32_t next) {
    const void *block;
    gw_err err;
    gw_payloads_expect(rig.peers[0].payloads, shard, &next, 1);
    cr_assert_eq(gw_payloads_take(rig.peers[0].payloads, shard, &block, &err), GW_PAYLOAD_HERE);
    gw_payloads_release(rig.peers[0].payloads, shard, block);
}

Test(payload, what_is_expected_is_fetched_before_it_is_taken) {
    payload_rig_open(&rig, 2, 6, 1000, 1);
    rig.ahead = true;
    payload_rig_start(&rig);
    settle(3);
    uint32_t shard = payload_rig_shard_of(&rig, 1, 3);
    take_before(payload_rig_shard_of(&rig, 0, 3), shard);
    payload_rig_wait_served(&rig, 1, 1);
    payload_rig_expect(&rig, 0, shard);
    payload_rig_expect(&rig, 0, shard);
    cr_assert_eq(rig.peers[1].served, 1, "it was read once, and stays until its buffer is needed");
    payload_rig_close(&rig);
}

Test(payload, nothing_is_fetched_ahead_when_not_asked_to) {
    start(2, 6, 1000, 1);
    settle(3);
    uint32_t shard = payload_rig_shard_of(&rig, 1, 3);
    take_before(payload_rig_shard_of(&rig, 0, 3), shard);
    payload_rig_expect(&rig, 0, payload_rig_shard_of(&rig, 0, 3));
    cr_assert_eq(rig.peers[1].served, 0);
    payload_rig_close(&rig);
}

/* However many blocks pass through, at most two a worker are here at a time, and each is read once. */
Test(payload, blocks_of_others_take_turns_in_few_buffers) {
    payload_rig_open(&rig, 2, 60, 1000, 1);
    rig.ahead = true;
    payload_rig_start(&rig);
    settle(3);
    const void *seen[3] = {NULL, NULL, NULL};
    uint32_t others[60], count = 0;
    for (uint32_t s = 0; s < 60; s++)
        if (rig.peers[0].index[s] == 0) others[count++] = s;
    for (uint32_t k = 0; k < count; k++) {
        const void *block;
        gw_err err;
        bool last = k + 1 == count;
        gw_payloads_expect(rig.peers[0].payloads, others[k], last ? NULL : &others[k + 1], !last);
        cr_assert_eq(gw_payloads_take(rig.peers[0].payloads, others[k], &block, &err), GW_PAYLOAD_HERE);
        if (!last) payload_rig_wait_served(&rig, 1, k + 2); /* while this block is in use */
        int i = 0;
        while (seen[i] != NULL && seen[i] != block) i++;
        seen[i] = block;
        gw_payloads_release(rig.peers[0].payloads, others[k], block);
        cr_assert_null(seen[2], "a third buffer");
    }
    cr_assert_eq(rig.peers[1].served, count);
    payload_rig_close(&rig);
}

/* Limits. */

static void expect_refused(gw_payload_plan plan, const char *why) {
    const gw_job_type type = {.name = "none"};
    gw_payloads_options options = {.type = &type, .plan = plan, .workers = 1};
    gw_err err;
    cr_assert_null(gw_payloads_open(&options, &err));
    cr_assert_not_null(strstr(err.text, why), "%s", err.text);
}

static bool never(void *job, uint32_t shard, void *bytes, gw_err *err) {
    (void)job, (void)shard, (void)bytes;
    return gw_fail(err, GW_E_IO, "never");
}

Test(payload, plans_that_cannot_be_are_refused) {
    expect_refused((gw_payload_plan){.shards = 1, .bytes = 1}, "no function that writes");
    const gw_payload_plan plans[] = {{.shards = GW_MAX_PAYLOADS + 1, .bytes = 1},
                                     {.shards = 1, .bytes = 0},
                                     {.shards = 1, .bytes = UINT64_MAX},
                                     {.shards = GW_MAX_PAYLOADS, .bytes = UINT64_C(1) << 40}};
    const char *const why[] = {"4096 is the most", "are no payload", "are no payload", "address space"};
    for (int i = 0; i < 4; i++) {
        const gw_job_type type = {.name = "some", .payload = never};
        gw_payloads_options options = {.type = &type, .plan = plans[i], .workers = 1};
        gw_err err;
        cr_assert_null(gw_payloads_open(&options, &err));
        cr_assert_not_null(strstr(err.text, why[i]), "%s", err.text);
    }
}

/* Without memory to hold them, blocks are read one by one. */
Test(payload, without_memory_to_hold_blocks_shards_are_computed_all_the_same, .disabled = SANITIZED) {
    start(1, 100, 1 << 20, 1);
    struct rlimit before, limit;
    cr_assert_eq(getrlimit(RLIMIT_DATA, &before), 0);
    limit = before;
    limit.rlim_cur = 80 << 20;
    cr_assert_eq(setrlimit(RLIMIT_DATA, &limit), 0);
    payload_rig_view(&rig, 1);
    for (uint32_t s = 0; s < 100; s += 9) payload_rig_expect(&rig, 0, s);
    cr_assert_eq(counts(0).local_bytes, 0);
    payload_rig_close(&rig);
    cr_assert_eq(setrlimit(RLIMIT_DATA, &before), 0); /* the runner of the test needs memory, too */
}
