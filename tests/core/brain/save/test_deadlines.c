/* A peer whose world hangs: it lives, is linked and gossips, and what it was asked to do never ends. */
#include "tests/core/brain/flock/inside.h"

#include "core/brain/state.h" /* disk_hangs */

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 400000 };

#define FOR_EVER UINT64_C(1000000000000000)

/* ---- fetching a state ---- */

static void join_with_load(flock *f, uint64_t load_ns, bool silent) {
    flock_open(f, 4, 3, 40, GW_QUORUM_ANY);
    f->peers[3].config.time_scale_percent = 150;
    for (uint32_t i = 0; i < 3; i++) f->peers[i].seal_ns = UINT64_C(1000000000);
    for (uint32_t i = 0; i < 3; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    f->peers[3].load_ns = load_ns;
    f->peers[3].silent = silent;
    flock_start(f, 3);
}

Test(peer_patience, a_newcomer_that_never_gets_the_state_is_dropped) {
    flock f;
    join_with_load(&f, FOR_EVER, true);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[3].finish, GW_FINISH_FAILED);
    cr_assert(strstr(f.peers[3].finish_text, "no progress for 45 s") != NULL, "%s", f.peers[3].finish_text);
    flock_kill(&f, 3);
    flock_expect_done(&f, 3);
    flock_close(&f);
}

Test(peer_patience, a_large_state_may_take_long) {
    flock f;
    join_with_load(&f, UINT64_C(300000000000), false);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 4);
    flock_close(&f);
}

/* A suspended process; nobody is to blame for that time. */
Test(peer_patience, who_stood_still_while_it_fetched_a_state_does_not_give_up) {
    flock f;
    join_with_load(&f, UINT64_C(80000000000), true);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(3000000000);
    while (f.peers[3].loads == 0) cr_assert(!flock_run(&f, NULL, 1));
    flock_stop(&f, 3);
    uint64_t since_ns = f.now;
    while (f.now < since_ns + UINT64_C(60000000000)) cr_assert(!flock_run(&f, NULL, 1));
    f.peers[3].load_ns = 0;
    flock_continue(&f, 3);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 4);
    flock_close(&f);
}

/* ---- checkpoints ---- */

static bool hang_is_known(const flock *f) {
    return f->peers[2].abandoned > 0;
}

static bool all_have_a_checkpoint(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].checkpoints == 0) return false;
    return true;
}

static void hang_disk(uint32_t peer, bool manifests, uint64_t checkpoint_steps) {
    flock f;
    flock_open(&f, 3, 3, 100, GW_QUORUM_ANY);
    f.checkpoint_steps = checkpoint_steps;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
    f.peers[peer].save_ns = manifests ? 0 : FOR_EVER;
    f.peers[peer].manifests_hang = manifests;
    f.peers[peer].silent = true;
    flock_start_all(&f);
    if (checkpoint_steps > 0)
        cr_assert(flock_run(&f, all_have_a_checkpoint, MOST_EVENTS), "peer %u: no checkpoint", peer);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS), "peer %u", peer);
    flock_expect_done(&f, 3);
    for (uint32_t i = 0; i < 3; i++) cr_assert_eq(f.peers[i].saved_step == 100, i != peer, "peer %u", i);
    cr_assert_gt(f.peers[peer].abandoned, 0);
    flock_close(&f);
}

Test(peer_patience, a_disk_that_hangs_costs_no_checkpoint) {
    for (uint32_t peer = 0; peer < 3; peer++) {
        hang_disk(peer, false, 5);
        hang_disk(peer, true, 5);
    }
}

/* Though what it was asked for when it hung is not done yet. */
Test(peer_patience, a_disk_that_moves_again_is_asked_again) {
    flock f;
    flock_open(&f, 3, 3, 100, GW_QUORUM_ANY);
    f.checkpoint_steps = 5;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
    f.peers[2].save_ns = FOR_EVER;
    f.peers[2].silent = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, hang_is_known, MOST_EVENTS));
    cr_assert(f.peers[2].brain->save.disk_hangs);
    flock_post(&f, 2, 0, (gw_event){.kind = GW_EV_PROGRESS, .token = f.peers[2].brain->save.disk_token});
    f.peers[2].save_ns = 0;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    for (uint32_t i = 0; i < 3; i++) cr_expect_eq(f.peers[i].saved_step, 100, "peer %u", i);
    flock_close(&f);
}

static bool all_at_6(const flock *f) {
    return f->peers[0].step >= 6 && f->peers[1].step >= 6 && f->peers[2].step >= 6;
}

static bool first_at_16(const flock *f) {
    return f->peers[0].step >= 16;
}

static bool all_past_16(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].step <= 16) return false;
    return true;
}

/* One of three slept from step 6 on, and its disk hangs since; the others come back with the checkpoint of
 * step 15, or with what is left of it. */
static void come_back_to_a_disk_that_hangs(flock *f, bool damaged) {
    flock_open(f, 3, 3, 40, GW_QUORUM_ANY);
    f->checkpoint_steps = 5;
    for (uint32_t i = 0; i < 3; i++) f->peers[i].seal_ns = UINT64_C(1000000000);
    flock_start_all(f);
    cr_assert(flock_run(f, all_at_6, MOST_EVENTS));
    flock_stop(f, 2);
    cr_assert(flock_run(f, first_at_16, MOST_EVENTS));
    flock_run(f, NULL, 100);
    flock_kill(f, 0);
    flock_kill(f, 1);
    f->peers[2].save_ns = FOR_EVER;
    f->peers[2].silent = f->peers[2].reads_hang = true;
    f->peers[2].seal_ns = UINT64_C(20000000000);
    flock_continue(f, 2);
    cr_assert(flock_run(f, hang_is_known, MOST_EVENTS));
    cr_assert_lt(f->peers[2].step, 15);
    f->peers[0].damaged = f->peers[1].damaged = damaged;
    f->peers[2].seal_ns = UINT64_C(1000000000);
    flock_start(f, 0);
    flock_start(f, 1);
}

Test(peer_patience, a_disk_that_is_known_to_hang_is_not_asked_for_a_checkpoint) {
    for (int damaged = 0; damaged < 2; damaged++) {
        flock f;
        come_back_to_a_disk_that_hangs(&f, damaged);
        cr_assert(flock_run(&f, all_past_16, MOST_EVENTS), "damaged %d: %s", damaged, f.peers[2].finish_text);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 3);
        flock_close(&f);
    }
}

Test(peer_patience, a_disk_that_hangs_does_not_hold_up_the_end) {
    for (uint32_t peer = 0; peer < 3; peer++) {
        hang_disk(peer, false, 0);
        hang_disk(peer, true, 0);
    }
}

/* All disks do nothing for so long from the job's end on. Returns when that is known. */
static uint64_t hang_all_disks_at_the_end(flock *f, uint64_t lasts_ns) {
    flock_open(f, 3, 3, 10, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) {
        f->peers[i].save_ns = lasts_ns;
        f->peers[i].silent = true;
    }
    flock_start_all(f);
    cr_assert(flock_run(f, hang_is_known, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) f->peers[i].save_ns = 0;
    return f->now;
}

Test(peer_patience, a_final_state_that_nobody_can_store_ends_the_run_naming_a_peer) {
    flock f;
    uint64_t since_ns = hang_all_disks_at_the_end(&f, FOR_EVER), lasts_ns = f.peers[0].config.save_timeout_ns;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(flock_finished(&f, GW_FINISH_FAILED), 3);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert(strstr(f.peers[i].finish_text, "failing disk: ") != NULL, "%s", f.peers[i].finish_text);
    cr_assert_geq(f.now, since_ns + lasts_ns);
    cr_assert_lt(f.now, since_ns + 2 * lasts_ns, "one after the other, each waited anew");
    flock_close(&f);
}

Test(peer_patience, disks_that_hang_for_a_while_at_the_end_cost_nothing) {
    flock f;
    hang_all_disks_at_the_end(&f, UINT64_C(40000000000));
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

Test(peer_patience, a_disk_that_answers_at_last_is_used_again) {
    flock f;
    flock_open(&f, 3, 3, 300, GW_QUORUM_ANY);
    f.checkpoint_steps = 20;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
    f.peers[1].save_ns = UINT64_C(50000000000);
    f.peers[1].silent = true;
    flock_start_all(&f);
    while (f.peers[1].abandoned == 0) cr_assert(!flock_run(&f, NULL, 10));
    f.peers[1].save_ns = 0;
    while (f.peers[1].brain->save.disk_hangs) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect_not(flock_status(&f, 1).disk_writable, "it has answered, and is not tried yet");
    while (!flock_status(&f, 1).disk_writable) cr_assert(!flock_run(&f, NULL, 10));
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_assert_eq(f.peers[1].saved_step, 300);
    flock_close(&f);
}

/* ---- votes ---- */

Test(peer_patience, who_cannot_make_its_votes_durable_does_not_hold_up_a_view) {
    flock f;
    flock_open(&f, 5, 5, 50, GW_QUORUM_MAJORITY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[2].persists_fail = true;
    flock_kill(&f, 4);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[2].finish, GW_FINISH_FAILED);
    cr_assert(strstr(f.peers[2].finish_text, "durable") != NULL, "%s", f.peers[2].finish_text);
    flock_kill(&f, 2);
    flock_expect_done(&f, 3);
    flock_close(&f);
}

static bool all_are_careful_but_one(const flock *f) {
    bool careful = true;
    for (uint32_t i = 0; i < 6; i++) careful &= f->peers[i].careful;
    return careful;
}

/* A shard has cost two lives, and it is at that one: were its leaving a third loss, this would be poison. */
Test(peer_patience, who_leaves_for_its_disk_makes_no_shard_poison) {
    enum { FAILED = FLOCK_SHARDS - 1 };
    flock f;
    flock_open(&f, 7, 7, 50, GW_QUORUM_MAJORITY);
    f.peers[6].fails_at_shard = FAILED;
    f.peers[2].seal_ns = UINT64_C(60000000000);
    flock_start_all(&f);
    cr_assert(flock_run(&f, all_are_careful_but_one, MOST_EVENTS));
    flock_tell(&f, 2, (gw_event){.kind = GW_EV_CLAIM, .claim.shard = FAILED});
    flock_tell(&f, 5, (gw_event){.kind = GW_EV_CLAIM, .claim.shard = FAILED});
    flock_run(&f, NULL, 30); /* until all have heard it */
    f.peers[2].persists_fail = true;
    flock_kill(&f, 5);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert(strstr(f.peers[2].finish_text, "durable") != NULL, "%s", f.peers[2].finish_text);
    for (uint32_t i = 0; i < 5; i++)
        if (i != 2) cr_assert_eq(f.peers[i].finish, GW_FINISH_DONE, "%s", f.peers[i].finish_text);
    flock_close(&f);
}

Test(peer_patience, where_any_quorum_will_do_a_record_that_cannot_be_written_costs_nothing) {
    flock f;
    flock_open(&f, 4, 4, 50, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[2].persists_fail = true;
    for (uint32_t i = 0; i < 4; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
    flock_kill(&f, 3);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}
