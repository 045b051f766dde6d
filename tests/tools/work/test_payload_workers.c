/* Workers whose shards have payload: each shard computes with its own, and a claim without payload is not
 * launched. */
#include "tests/tools/work/payload_rig.h"
#include "tests/tools/work/pool_rig.h"

#include <criterion/criterion.h>
#include <string.h>

enum { TAG = 9, SHARDS = 40, BYTES = 3000 };

static payload_rig blocks; /* every test runs in a process of its own */
static pool_rig rig;

/* A pool on the first of two peers, each of which holds one half of the blocks. */
static void open_pool(uint32_t workers, bool ahead, bool gated) {
    payload_rig_open(&blocks, 2, SHARDS, BYTES, 1);
    blocks.workers = workers;
    blocks.ahead = ahead;
    payload_rig_start(&blocks);
    payload_rig_view(&blocks, 3);
    payload_rig_wait_held(&blocks, 0, 3);
    payload_rig_wait_held(&blocks, 1, 3);
    rig.payloads = blocks.peers[0].payloads;
    rig_open(&rig, workers, gated);
}

static void close_pool(void) {
    rig_close(&rig);
    payload_rig_close(&blocks);
}

/* Deals all shards, or only those from `first` on: the last twenty are held by the other peer. */
static void deal(uint32_t first, uint32_t end) {
    const uint32_t cuts[] = {0, SHARDS, SHARDS};
    gw_workers_deal(rig.pool,
                    &(gw_action){.deal.tag = TAG, .deal.cuts = cuts, .deal.first = first, .deal.end = end});
}

static void expect_each_once(void) {
    rig_wait_report(&rig, RIG_DRY, 0);
    gw_workers_seal(rig.pool, 1);
    rig_wait_report(&rig, RIG_SEALED, 0);
    for (uint32_t s = 0; s < SHARDS; s++) cr_assert_eq(rig_began(&rig, s), 1, "shard %u", s);
    cr_assert_eq(gw_workers_done(rig.pool), SHARDS);
}

/* The device of the rig checks that a shard gets its own payload. */
Test(payload_workers, each_shard_is_computed_with_its_own_payload) {
    for (uint32_t workers = 1; workers <= 4; workers += 3) {
        for (int ahead = 0; ahead < 2; ahead++) {
            open_pool(workers, ahead, false);
            deal(0, SHARDS);
            expect_each_once();
            cr_assert_eq(gw_payloads_count(rig.payloads).local_bytes, SHARDS / 2 * BYTES);
            cr_assert_eq(gw_payloads_count(rig.payloads).read_bytes, SHARDS / 2 * BYTES);
            close_pool();
        }
    }
}

/* While one shard runs, the block of the next one is read. */
Test(payload_workers, the_next_payload_is_read_while_a_shard_is_computed) {
    open_pool(1, true, true);
    deal(30, 32);
    rig_wait_inside(&rig, 1);
    payload_rig_wait_served(&blocks, 1, 2);
    cr_assert_eq(rig_word(&rig).next, 31, "it is not claimed");
    close_pool();
}

Test(payload_workers, a_claim_without_its_payload_is_given_back) {
    open_pool(1, false, false);
    payload_rig_set(&blocks, &blocks.peers[1].dead, true);
    payload_rig_set(&blocks, &blocks.peers[0].cannot_write, true);
    deal(38, 40);
    rig_wait_report(&rig, RIG_DRY, 0);
    gw_workers_seal(rig.pool, 1);
    rig_wait_report(&rig, RIG_SEALED, 0);
    cr_assert_eq(rig_count(&rig, RIG_LOST), 2);
    cr_assert_eq(rig.reports[rig.report_count - 1].kind, RIG_SEALED, "after what it leaves out");
    rig_report lost = rig_wait_report(&rig, RIG_LOST, 0);
    cr_assert_not_null(strstr(lost.text, "its disk is gone"), "%s", lost.text);
    cr_assert_eq(rig_began(&rig, lost.shard), 0);
    gw_frozen frozen;
    gw_workers_freeze(rig.pool, &frozen);
    cr_assert_eq(gw_set_count(&frozen.held) + gw_set_count(&frozen.claimed), 0);
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
    close_pool();
}

Test(payload_workers, a_freeze_takes_back_a_claim_whose_payload_is_on_its_way) {
    open_pool(1, false, false);
    payload_rig_set(&blocks, &blocks.peers[1].silent, true);
    deal(39, 40);
    payload_rig_wait_waiting(&blocks, 1);
    gw_frozen frozen;
    gw_workers_freeze(rig.pool, &frozen);
    cr_assert_eq(gw_set_count(&frozen.claimed), 0);
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
    payload_rig_set(&blocks, &blocks.peers[1].silent, false);
    payload_rig_break(&blocks, 1); /* even if its payload arrives later */
    deal(0, SHARDS);
    expect_each_once();
    cr_assert_eq(rig_count(&rig, RIG_LOST), 0);
    close_pool();
}

Test(payload_workers, sealing_waits_for_a_claim_whose_payload_is_on_its_way) {
    open_pool(2, false, false);
    payload_rig_set(&blocks, &blocks.peers[1].silent, true);
    deal(39, 40);
    payload_rig_wait_waiting(&blocks, 1);
    rig_wait_report(&rig, RIG_DRY, 0);
    gw_workers_seal(rig.pool, 1);
    cr_assert_eq(rig_count(&rig, RIG_SEALED), 0);
    payload_rig_set(&blocks, &blocks.peers[1].silent, false);
    payload_rig_break(&blocks, 1);
    rig_wait_report(&rig, RIG_SEALED, 0);
    cr_assert_eq(gw_workers_done(rig.pool), 1);
    close_pool();
}

static uint64_t since_of_the_oldest(void) {
    gw_running oldest;
    cr_assert(gw_workers_oldest(rig.pool, &oldest));
    return oldest.started_ns;
}

/* Two reads make progress: of the entry in the holder's index, and of the bytes. Once the shard is computed,
 * reads of other workers are no progress of it. */
Test(payload_workers, a_shard_whose_payload_arrives_slowly_does_not_hang) {
    open_pool(1, false, true);
    payload_rig_set(&blocks, &blocks.peers[1].silent, true);
    deal(39, 40);
    payload_rig_wait_waiting(&blocks, 1);
    uint64_t began_ns = since_of_the_oldest();
    payload_rig_answer(&blocks);
    payload_rig_wait_waiting(&blocks, 1);
    uint64_t landed_ns = since_of_the_oldest();
    cr_expect_gt(landed_ns, began_ns);
    payload_rig_answer(&blocks);
    rig_wait_inside(&rig, 1);
    uint64_t runs_ns = since_of_the_oldest();
    cr_expect_gt(runs_ns, landed_ns);
    payload_rig_set(&blocks, &blocks.peers[1].silent, false);
    payload_rig_expect(&blocks, 0, payload_rig_shard_of(&blocks, 1, 3));
    cr_expect_eq(since_of_the_oldest(), runs_ns);
    close_pool();
}

/* The time that payload takes counts, whichever thread brings it: payload that never arrives is found like a
 * shard that hangs. Here a holder does not answer; in tests/cluster/test_hangs.c the job does not return. */
Test(payload_workers, a_shard_that_waits_for_its_payload_is_at_work) {
    open_pool(1, false, false);
    payload_rig_set(&blocks, &blocks.peers[1].silent, true);
    deal(39, 40);
    payload_rig_wait_waiting(&blocks, 1);
    gw_running oldest;
    cr_assert(gw_workers_oldest(rig.pool, &oldest));
    cr_assert(oldest.loads);
    cr_assert_not(gw_workers_end(rig.pool, 1000000));
    payload_rig_freeze(&blocks, 0);
    cr_assert(gw_workers_end(rig.pool, UINT64_MAX));
    close_pool();
}
