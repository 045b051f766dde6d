/* The worker pool by itself: which shards it claims, which it leaves to thieves, and how it stops. */
#include "tests/tools/work/pool_rig.h"

#include "core/base/log.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>

enum { TAG = 77 };

static pool_rig rig; /* too large for a stack; every test runs in a process of its own */

static void deal_with(uint32_t tag, const gw_set *list, uint32_t first, uint32_t end, bool careful) {
    gw_workers_deal(rig.pool, &(gw_action){.deal.tag = tag,
                                           .deal.list = list,
                                           .deal.first = first,
                                           .deal.end = end,
                                           .deal.careful = careful});
}

static void deal(uint32_t first, uint32_t end) {
    deal_with(TAG, NULL, first, end, false);
}

static uint64_t seal(gw_token token) {
    gw_workers_seal(rig.pool, token);
    return rig_wait_report(&rig, RIG_SEALED, 0).speed;
}

/* Claims. */

Test(workers, each_shard_of_a_deal_is_computed_once) {
    for (uint32_t workers = 1; workers <= 5; workers++) {
        rig.parts = workers % 2 == 0 ? workers / 2 : 1;
        rig_open(&rig, workers, false);
        deal(10, 1010);
        cr_assert_eq(rig_wait_report(&rig, RIG_DRY, 0).tag, TAG);
        cr_assert_gt(seal(5), 0);
        for (uint32_t s = 0; s < 1100; s++) {
            cr_assert_eq(rig_began(&rig, s), s >= 10 && s < 1010, "shard %u", s);
            cr_assert_eq(rig_held(&rig, s), s >= 10 && s < 1010, "shard %u", s);
        }
        cr_assert_eq(gw_workers_done(rig.pool), 1000);
        cr_assert_eq(gw_workers_lost(rig.pool), 0);
        rig_close(&rig);
    }
}

Test(workers, positions_index_the_list_of_the_deal) {
    rig_open(&rig, 2, false);
    gw_set list = gw_set_of(RIG_SHARDS);
    for (uint32_t s = 3; s < 300; s += 3) gw_set_add(&list, s);
    deal_with(TAG, &list, 2, 5, false); /* the third to fifth of the positions */
    gw_set_free(&list);
    rig_wait_report(&rig, RIG_DRY, 0);
    seal(1);
    for (uint32_t s = 0; s < 300; s++)
        cr_assert_eq(rig_began(&rig, s), s == 9 || s == 12 || s == 15, "shard %u", s);
    rig_close(&rig);
}

/* A claim is a launch: positions that no worker has begun stay in the word, where thieves can take them. */
Test(workers, no_shard_waits_behind_a_running_one) {
    rig_open(&rig, 2, true);
    deal(0, 10);
    rig_wait_inside(&rig, 2);
    gw_word word = rig_word(&rig);
    cr_assert_eq(word.tag, TAG);
    cr_assert_eq(word.next, 2);
    cr_assert_eq(word.end, 10);
    for (uint32_t shard = 0; shard < 6; shard++) {
        rig_open_gate(&rig, shard);
        rig_wait_ended(&rig, shard + 1);
        rig_wait_inside(&rig, 2);
        cr_assert_eq(rig_word(&rig).next, shard + 3);
    }
    rig_close(&rig);
    cr_assert_eq(rig.most_inside, 2);
}

/* Looking ahead is no claim: the positions stay in the word. */
Test(workers, the_next_shard_is_prefetched_and_not_claimed) {
    rig_open(&rig, 1, true);
    deal(0, 2);
    rig_wait_inside(&rig, 1);
    cr_assert_eq(rig.prefetched[1], 1);
    cr_assert_eq(rig.prefetched[0], 0);
    cr_assert_eq(rig_word(&rig).next, 1);
    cr_assert_eq(rig_began(&rig, 1), 0);
    rig_close(&rig);
}

Test(workers, being_dry_is_said_once_a_deal) {
    rig_open(&rig, 2, true);
    deal(0, 2);
    rig_wait_inside(&rig, 2);
    rig_open_gate(&rig, 0);
    rig_wait_report(&rig, RIG_DRY, 0);
    rig_open_gate(&rig, 1);
    gw_workers_wait_idle(rig.pool); /* the other worker has looked for another shard by then */
    cr_assert_eq(rig_count(&rig, RIG_DRY), 1);
    rig_close(&rig);
}

Test(workers, nothing_is_claimed_of_a_word_with_another_tag) {
    rig_open(&rig, 1, true);
    deal(0, 8);
    rig_wait_inside(&rig, 1);
    gw_word now = rig_word(&rig);
    cr_assert(rig_swap(&rig, &now, (gw_word){.tag = TAG + 1, .next = 1, .end = 8}));
    rig_open_gate(&rig, 0);
    rig_wait_report(&rig, RIG_DRY, 0);
    cr_assert_eq(rig_word(&rig).next, 1, "left as it is");
    rig_close(&rig);
    cr_assert_eq(rig.ended, 1);
}

/* A slow callback `running` delays its own worker and no other. */
static void hold_note(bool runs) {
    gw_running oldest;
    gw_frozen frozen;
    bool running;
    uint64_t usual_ns;
    rig_open(&rig, 1, false);
    rig_hold_notes(&rig, runs, true);
    deal(0, 1);
    rig_wait_noting(&rig, runs, 1);
    cr_assert(gw_workers_oldest(rig.pool, &oldest));
    cr_assert_eq(oldest.shard, 0);
    cr_assert_eq(gw_workers_moved(rig.pool, &running, &usual_ns), 0);
    cr_assert(running);
    gw_workers_freeze(rig.pool, &frozen);
    cr_assert(gw_set_has(runs ? &frozen.claimed : &frozen.held, 0));
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
    rig_hold_notes(&rig, runs, false);
    rig_close(&rig);
}

Test(workers, a_shard_that_is_noted_slowly_stops_nobody, .timeout = 20) {
    hold_note(true);
    hold_note(false);
}

/* Stealing. */

typedef struct thief {
    pthread_t thread;
    atomic_bool *over;
    uint32_t taken;
    uint32_t times[RIG_SHARDS];
} thief;

static void *steal(void *context) {
    thief *t = context;
    while (!atomic_load(t->over)) {
        gw_word word = rig_word(&rig), rest;
        uint32_t first, end;
        if (!gw_word_split(word, 1, 7, &rest, &first, &end)) {
            sched_yield();
            continue;
        }
        if (!rig_swap(&rig, &word, rest)) continue;
        for (uint32_t s = first; s < end; s++) t->times[s]++;
        t->taken += end - first;
    }
    return NULL;
}

/* Each position goes to the owner or to one thief, never to both or to none. */
Test(workers, thieves_and_the_owner_share_out_a_range) {
    static thief thieves[2];
    atomic_bool over = false;
    rig_open(&rig, 3, false);
    for (int i = 0; i < 2; i++) {
        thieves[i].over = &over;
        cr_assert_eq(pthread_create(&thieves[i].thread, NULL, steal, &thieves[i]), 0);
    }
    deal(0, RIG_SHARDS);
    rig_wait_report(&rig, RIG_DRY, 0);
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++) pthread_join(thieves[i].thread, NULL);
    seal(1);
    for (uint32_t s = 0; s < RIG_SHARDS; s++)
        cr_assert_eq(rig_began(&rig, s) + thieves[0].times[s] + thieves[1].times[s], 1, "shard %u", s);
    cr_assert_eq(gw_workers_lost(rig.pool), thieves[0].taken + thieves[1].taken);
    cr_assert_eq(gw_workers_done(rig.pool) + gw_workers_lost(rig.pool), RIG_SHARDS);
    rig_close(&rig);
}

Test(workers, a_stolen_range_is_taken_in_and_being_dry_said_again) {
    rig_open(&rig, 2, false);
    deal(0, 4);
    rig_wait_report(&rig, RIG_DRY, 0);
    gw_workers_take(rig.pool, 100, 110);
    rig_wait_report(&rig, RIG_DRY, 1);
    seal(1);
    cr_assert_eq(gw_workers_done(rig.pool), 14);
    cr_assert_eq(gw_workers_lost(rig.pool), 0);
    for (uint32_t s = 100; s < 110; s++) cr_assert_eq(rig_began(&rig, s), 1);
    rig_close(&rig);
}

/* Sealing. */

Test(workers, sealing_waits_for_what_runs_and_claims_nothing_more) {
    rig_open(&rig, 2, true);
    deal(0, 10);
    rig_wait_inside(&rig, 2);
    gw_workers_seal(rig.pool, 9);
    rig_open_gate(&rig, 1);
    rig_wait_ended(&rig, 1);
    cr_assert_eq(rig_count(&rig, RIG_SEALED), 0);
    rig_open_gate(&rig, 0);
    rig_report sealed = rig_wait_report(&rig, RIG_SEALED, 0);
    cr_assert_eq(sealed.token, 9);
    cr_assert_gt(sealed.speed, 0);
    cr_assert_eq(gw_workers_done(rig.pool), 2);
    rig_close(&rig);
    cr_assert_eq(rig.ended, 2);
}

Test(workers, who_did_nothing_is_sealed_at_once_and_has_no_speed) {
    rig_open(&rig, 2, true);
    deal(5, 5);
    rig_wait_report(&rig, RIG_DRY, 0);
    cr_assert_eq(seal(3), 0);
    rig_close(&rig);
}

Test(workers, a_freeze_takes_a_seal_back) {
    rig_open(&rig, 1, true);
    deal(0, 3);
    rig_wait_inside(&rig, 1);
    gw_workers_seal(rig.pool, 9);
    gw_frozen frozen;
    gw_workers_freeze(rig.pool, &frozen);
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
    rig_open_gate(&rig, 0);
    gw_workers_wait_idle(rig.pool);
    cr_assert_eq(rig_count(&rig, RIG_SEALED), 0);
    rig_close(&rig);
}

/* Freezing. */

Test(workers, a_freeze_tells_held_from_claimed_and_lets_what_runs_go_on) {
    rig_open(&rig, 2, true);
    rig.open[0] = true;
    deal(0, 10);
    rig_wait_ended(&rig, 1);
    rig_wait_inside(&rig, 2);
    gw_frozen frozen;
    gw_workers_freeze(rig.pool, &frozen);
    cr_assert_eq(frozen.step, 0);
    cr_assert_not(frozen.poisoned);
    cr_assert_eq(gw_set_count(&frozen.held), 1);
    cr_assert(gw_set_has(&frozen.held, 0));
    cr_assert_eq(gw_set_count(&frozen.claimed), 2);
    cr_assert(gw_set_has(&frozen.claimed, 1) && gw_set_has(&frozen.claimed, 2));
    cr_assert_eq(rig_word(&rig).tag, 0, "closed");
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
    rig_open_all(&rig);
    gw_workers_wait_idle(rig.pool);
    cr_assert(rig_held(&rig, 1) && rig_held(&rig, 2));
    cr_assert_eq(rig_began(&rig, 3), 0, "nothing more was claimed");
    deal_with(TAG + 1, NULL, 3, 10, false);
    rig_wait_report(&rig, RIG_DRY, 0);
    seal(1);
    for (uint32_t s = 0; s < 10; s++) cr_assert_eq(rig_began(&rig, s), 1, "shard %u", s);
    rig_close(&rig);
}

Test(workers, before_the_first_step_a_freeze_has_nothing_to_say) {
    gw_err err;
    cr_assert(rig_try_open(&rig, 1, 1, &err));
    gw_frozen frozen;
    gw_workers_freeze(rig.pool, &frozen);
    cr_assert_eq(frozen.held.size, 0);
    cr_assert_eq(frozen.claimed.size, 0);
    rig_close(&rig);
}

/* A new step drops the shards that run: they are neither held nor claimed, and their workers go on with the
 * new deal. */
Test(workers, a_new_step_drops_what_runs) {
    rig_open(&rig, 1, true);
    deal(0, 4);
    rig_wait_inside(&rig, 1);
    gw_workers_begin_step(rig.pool, 1);
    gw_frozen frozen;
    gw_workers_freeze(rig.pool, &frozen);
    cr_assert_eq(frozen.step, 1);
    cr_assert_eq(gw_set_count(&frozen.held) + gw_set_count(&frozen.claimed), 0);
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
    deal_with(TAG + 1, NULL, 0, 4, false);
    rig_open_all(&rig);
    rig_wait_report(&rig, RIG_DRY, 0);
    seal(1);
    cr_assert_eq(gw_workers_done(rig.pool), 4);
    rig_close(&rig);
    cr_assert_eq(rig.ended, 5);
}

/* Careful deals. */

Test(workers, a_careful_claim_waits_for_its_own_grant) {
    rig_open(&rig, 2, false);
    deal_with(TAG, NULL, 0, 2, true);
    rig_report claims[2] = {rig_wait_report(&rig, RIG_CLAIM, 0), rig_wait_report(&rig, RIG_CLAIM, 1)};
    cr_assert_neq(claims[0].worker, claims[1].worker);
    cr_assert_neq(claims[0].ticket, claims[1].ticket);
    cr_assert_eq(claims[0].shard + claims[1].shard, 1);
    gw_workers_grant(rig.pool, claims[1].ticket);
    rig_wait_ended(&rig, 1);
    cr_assert_eq(rig_began(&rig, claims[1].shard), 1);
    cr_assert_eq(rig_began(&rig, claims[0].shard), 0);
    gw_workers_grant(rig.pool, claims[0].ticket);
    rig_wait_ended(&rig, 2);
    seal(1);
    cr_assert_eq(gw_workers_done(rig.pool), 2);
    rig_close(&rig);
}

Test(workers, a_careful_claim_is_withdrawn_when_it_is_done_and_nothing_follows) {
    rig_open(&rig, 1, false);
    deal_with(TAG, NULL, 0, 2, true);
    for (uint32_t shard = 0; shard < 2; shard++) {
        rig_report claim = rig_wait_report(&rig, RIG_CLAIM, shard);
        cr_assert_eq(claim.shard, shard);
        cr_assert_eq(rig_count(&rig, RIG_WITHDRAWN), 0, "the next claim takes the place of the last");
        gw_workers_grant(rig.pool, claim.ticket);
    }
    (void)rig_wait_report(&rig, RIG_WITHDRAWN, 0);
    cr_assert_eq(gw_workers_done(rig.pool), 2);
    rig_close(&rig);
}

Test(workers, what_runs_when_a_careful_deal_comes_is_claimed_afterwards) {
    rig_open(&rig, 1, true);
    deal_with(TAG, NULL, 0, 1, false);
    rig_wait_inside(&rig, 1);
    gw_frozen frozen;
    gw_workers_freeze(rig.pool, &frozen);
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
    for (uint32_t i = 0; i < 2; i++) { /* reported again, for members that are new in the next view */
        deal_with(TAG + 1 + i, NULL, 1, 1, true);
        cr_assert_eq(rig_wait_report(&rig, RIG_CLAIM, i).shard, 0);
    }
    rig_open_gate(&rig, 0);
    (void)rig_wait_report(&rig, RIG_WITHDRAWN, 0);
    rig_close(&rig);
}

Test(workers, a_careful_claim_of_what_failed_stands) {
    rig_open(&rig, 1, false);
    rig.fails[0] = true;
    deal_with(TAG, NULL, 0, 1, true);
    gw_workers_grant(rig.pool, rig_wait_report(&rig, RIG_CLAIM, 0).ticket);
    (void)rig_wait_report(&rig, RIG_FAILED, 0);
    deal_with(TAG + 1, NULL, 1, 2, true);
    gw_workers_grant(rig.pool, rig_wait_report(&rig, RIG_CLAIM, 1).ticket);
    (void)rig_wait_report(&rig, RIG_WITHDRAWN, 0);
    cr_assert_eq(rig_count(&rig, RIG_WITHDRAWN), 1, "of the second alone");
    rig_close(&rig);
}

/* Every call that ends the deal revokes the claims: their workers are free again, and a grant that comes too
 * late starts nothing. */
static void revoke_by(void (*end)(void)) {
    for (int at_once = 0; at_once < 2; at_once++) {
        rig_open(&rig, 1, false);
        deal_with(TAG, NULL, 0, 4, true);
        uint64_t ticket = rig_wait_report(&rig, RIG_CLAIM, 0).ticket;
        end();
        if (at_once) gw_workers_grant(rig.pool, ticket);
        gw_workers_begin_step(rig.pool, 8);
        deal_with(TAG + 1, NULL, 50, 51, false);
        rig_wait_ended(&rig, 1);
        gw_workers_grant(rig.pool, ticket);
        cr_assert_eq(rig_began(&rig, 50), 1);
        rig_close(&rig);
        cr_assert_eq(rig.ended, 1);
    }
}

static void end_by_freeze(void) {
    gw_frozen frozen;
    gw_workers_freeze(rig.pool, &frozen);
    cr_assert_eq(gw_set_count(&frozen.claimed), 0, "nothing of it has happened");
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
}

static void end_by_seal(void) {
    seal(1);
}

static void end_by_step(void) {
    gw_workers_begin_step(rig.pool, 7);
}

Test(workers, a_freeze_revokes_claims) {
    revoke_by(end_by_freeze);
}

Test(workers, a_seal_revokes_claims) {
    revoke_by(end_by_seal);
}

Test(workers, a_new_step_revokes_claims) {
    revoke_by(end_by_step);
}

/* A grant and a freeze at the same time: exactly the shards that are reported as claimed will be added. */
Test(workers, a_freeze_right_after_a_grant_reports_what_comes_of_it) {
    rig_open(&rig, 1, false);
    bool reported = false;
    for (uint32_t shard = 0; shard < 300; shard++) {
        deal_with(TAG + shard, NULL, shard, shard + 1, true);
        uint64_t ticket = rig_wait_report(&rig, RIG_CLAIM, shard).ticket;
        if (shard > 0) cr_assert_eq(rig_held(&rig, shard - 1), reported, "shard %u", shard - 1);
        gw_workers_grant(rig.pool, ticket);
        gw_frozen frozen;
        gw_workers_freeze(rig.pool, &frozen);
        reported = gw_set_has(&frozen.held, shard) || gw_set_has(&frozen.claimed, shard);
        gw_set_free(&frozen.held);
        gw_set_free(&frozen.claimed);
    }
    rig_close(&rig);
}

/* A shard that was granted runs, even if its worker does not know it yet when the seal comes; `sealed` is
 * reported after it. */
Test(workers, a_seal_right_after_a_grant_waits_for_what_comes_of_it) {
    rig_open(&rig, 1, false);
    for (uint32_t shard = 0; shard < 300; shard++) {
        deal_with(TAG + shard, NULL, shard, shard + 1, true);
        gw_workers_grant(rig.pool, rig_wait_report(&rig, RIG_CLAIM, shard).ticket);
        gw_workers_seal(rig.pool, 1 + shard);
        cr_assert_eq(rig_wait_report(&rig, RIG_SEALED, shard).token, 1 + shard);
        cr_assert(rig_held(&rig, shard), "shard %u", shard);
    }
    rig_close(&rig);
}

/* Failures. */

Test(workers, a_shard_that_fails_is_reported_and_the_others_go_on) {
    rig_open(&rig, 2, false);
    rig.fails[3] = true;
    deal(0, 8);
    rig_report failed = rig_wait_report(&rig, RIG_FAILED, 0);
    cr_assert_eq(failed.shard, 3);
    cr_assert_str_eq(failed.text, "shard 3 has no data");
    rig_wait_report(&rig, RIG_DRY, 0);
    seal(1);
    cr_assert_eq(gw_workers_done(rig.pool), 7);
    cr_assert_eq(rig_count(&rig, RIG_FAILED), 1);
    rig_close(&rig);
}

/* The next claim takes the place of its claim, and the pool goes on. */
Test(workers, a_shard_that_is_given_back_fails_nobody) {
    rig_open(&rig, 1, false);
    rig.gives_back[0] = true;
    deal_with(TAG, NULL, 0, 2, true);
    gw_workers_grant(rig.pool, rig_wait_report(&rig, RIG_CLAIM, 0).ticket);
    gw_workers_grant(rig.pool, rig_wait_report(&rig, RIG_CLAIM, 1).ticket);
    (void)rig_wait_report(&rig, RIG_WITHDRAWN, 0);
    seal(1);
    cr_assert_eq(gw_workers_done(rig.pool), 1);
    cr_assert_eq(rig_count(&rig, RIG_FAILED), 0);
    rig_close(&rig);
}

Test(workers, the_failure_of_a_dropped_shard_is_nobodys_business) {
    rig_open(&rig, 1, true);
    rig.fails[0] = true;
    deal(0, 1);
    rig_wait_inside(&rig, 1);
    gw_workers_begin_step(rig.pool, 1);
    rig_open_all(&rig);
    gw_workers_wait_idle(rig.pool);
    cr_assert_eq(rig_count(&rig, RIG_FAILED), 0);
    rig_close(&rig);
}

Test(workers, a_lane_that_cannot_be_had_fails_the_opening) {
    gw_err err;
    cr_assert_not(rig_try_open(&rig, 4, 2, &err));
    cr_assert_str_eq(err.text, "no more lanes");
    cr_assert_eq(rig.lanes, 0, "those that were had are closed");
}

/* Other work. */

static void *apply_units(void *print) {
    gw_err err;
    cr_assert(gw_workers_units(rig.pool, GW_UNIT_APPLY, print, &err));
    return NULL;
}

/* The sum over all units of the device of the rig. */
static void expect_all(gw_state_print print) {
    cr_assert_eq(print.read, RIG_UNITS * (RIG_UNITS - 1) / 2);
    cr_assert_eq(print.rest, 3 * print.read);
}

/* Dropped shards go on running when their step is over: the state must not change under them. */
Test(workers, units_wait_for_shards_and_each_is_done_once) {
    rig_open(&rig, 3, true);
    for (uint32_t round = 1; round <= 50; round++) {
        gw_workers_begin_step(rig.pool, round);
        deal(2 * round, 2 * round + 2); /* one worker stays idle */
        rig_wait_inside(&rig, 2);
        gw_workers_seal(rig.pool, round);
        pthread_t caller;
        gw_state_print print = {0};
        cr_assert_eq(pthread_create(&caller, NULL, apply_units, &print), 0);
        for (uint32_t i = 0; i < round; i++) sched_yield();
        rig_open_gate(&rig, 2 * round);
        rig_open_gate(&rig, 2 * round + 1);
        pthread_join(caller, NULL);
        expect_all(print);
        for (uint32_t u = 0; u < RIG_UNITS; u++) cr_assert_eq(rig.units[u], round);
        cr_assert_eq(rig.inside_at_unit, 0);
    }
    rig_close(&rig);
}

/* A peer that is asked to leave in the middle of a long shard has its state looked at before that is
 * saved. */
Test(workers, a_look_at_the_state_does_not_wait_for_shards) {
    rig_open(&rig, 3, true);
    gw_state_print print = {0};
    gw_err err;
    gw_workers_begin_step(rig.pool, 1);
    deal(2, 4);
    rig_wait_inside(&rig, 2);
    cr_assert(gw_workers_units(rig.pool, GW_UNIT_HASH, &print, &err));
    expect_all(print);
    rig.failing_unit = 40;
    cr_assert_not(gw_workers_units(rig.pool, GW_UNIT_HASH, &print, &err));
    rig_open_gate(&rig, 2);
    rig_open_gate(&rig, 3);
    gw_workers_wait_idle(rig.pool);
    rig_close(&rig);
}

Test(workers, each_unit_is_looked_at_before_it_is_applied) {
    rig_open(&rig, 3, false);
    gw_state_print before = {0}, after = {0};
    gw_err err;
    cr_assert(gw_workers_check_and_apply(rig.pool, &before, &after, &err));
    expect_all(before);
    expect_all(after);
    for (uint32_t u = 0; u < RIG_UNITS; u++) cr_assert_eq(rig.units[u], 2);
    rig.failing_unit = 40;
    cr_assert_not(gw_workers_check_and_apply(rig.pool, &before, &after, &err));
    rig_close(&rig);
}

Test(workers, a_look_at_a_part_finds_that_part) {
    rig_open(&rig, 3, false);
    gw_state_print print;
    gw_err err;
    cr_assert(gw_workers_units(rig.pool, GW_UNIT_HASH_READ, &print, &err));
    cr_assert_eq(print.read, RIG_UNITS * (RIG_UNITS - 1) / 2);
    cr_assert_eq(print.rest, 0);
    rig_close(&rig);
}

Test(workers, a_unit_that_fails_fails_them_all) {
    rig_open(&rig, 3, false);
    rig.failing_unit = 40;
    gw_state_print print;
    gw_err err;
    cr_assert_not(gw_workers_units(rig.pool, GW_UNIT_APPLY, &print, &err));
    cr_assert_str_eq(err.text, "unit 40 tore");
    cr_assert_not(gw_workers_units(rig.pool, GW_UNIT_APPLY, &print, &err), "and leaves the pool usable");
    rig_close(&rig);
}

static void let_units_go(void *context, gw_level level, const char *room, const char *text) {
    (void)room;
    cr_expect_eq(level, GW_INFO);
    cr_expect_str_eq(text, "making the state, 0.0 of 2.0 GiB");
    pthread_mutex_lock(&rig.lock);
    ++*(uint32_t *)context;
    rig.holds_units = false;
    pthread_cond_broadcast(&rig.changed);
    pthread_mutex_unlock(&rig.lock);
}

/* No other line is printed before a peer has its state. */
Test(workers, a_state_that_takes_long_to_make_is_told_of, .timeout = 60) {
    uint32_t told = 0;
    gw_state_print print;
    gw_err err;
    rig_open(&rig, 2, false);
    rig.layout.image_bytes = UINT64_C(2) << 30;
    gw_log_set_sink(let_units_go, &told);
    rig.holds_units = true; /* until the line is printed */
    cr_assert(gw_workers_units(rig.pool, GW_UNIT_INIT, &print, &err));
    cr_assert_eq(told, 1);
    rig_close(&rig);
}

/* The shard that has run for longest. */

Test(workers, the_oldest_running_shard_is_found) {
    gw_running oldest;
    gw_err err;
    uint64_t fingerprint;
    rig_open(&rig, 2, true);
    cr_assert_not(gw_workers_oldest(rig.pool, &oldest));
    deal(0, 3);
    rig_wait_inside(&rig, 2);
    cr_assert(gw_workers_oldest(rig.pool, &oldest));
    cr_assert_lt(oldest.shard, 2);
    gw_running list[3];
    cr_assert_eq(gw_workers_running(rig.pool, list, 3), 2);
    cr_assert_eq(list[0].shard + list[1].shard, 1);
    cr_assert_eq(list[1].worker, 1);
    cr_assert_eq(gw_workers_running(rig.pool, list, 1), 1);
    cr_assert_eq(oldest.usual_ns, 0, "none has ended");
    uint32_t first = oldest.shard;
    rig_open_gate(&rig, first);
    rig_wait_ended(&rig, 1);
    rig_wait_inside(&rig, 2);
    cr_assert(gw_workers_oldest(rig.pool, &oldest));
    cr_assert_eq(oldest.shard, 1 - first, "the third began later");
    cr_assert_gt(oldest.usual_ns, 0);
    rig_open_all(&rig);
    gw_workers_wait_idle(rig.pool);
    cr_assert_not(gw_workers_oldest(rig.pool, &oldest));
    cr_assert(gw_workers_probe(rig.pool, 4, 2, NULL, &fingerprint, &err));
    cr_assert_eq(fingerprint, 4002);
    rig_close(&rig);
}

/* In whatever order the threads wake, no GPU has two shards while another has none. */
Test(workers, shards_are_spread_over_the_parts_of_the_device) {
    rig.parts = 4;
    rig_open(&rig, 12, true);
    for (uint64_t round = 1; round <= 100; round++) {
        uint32_t first = (uint32_t)round * 8, shards = round % 2 == 0 ? 4 : 8;
        gw_workers_begin_step(rig.pool, round);
        deal(first, first + shards);
        rig_wait_inside(&rig, shards);
        pthread_mutex_lock(&rig.lock);
        for (uint32_t part = 0; part < 4; part++) cr_assert_eq(rig.inside_part[part], shards / 4);
        pthread_mutex_unlock(&rig.lock);
        for (uint32_t s = 0; s < shards; s++) rig_open_gate(&rig, first + s);
        gw_workers_wait_idle(rig.pool);
    }
    rig_close(&rig);
}

Test(workers, every_part_of_the_device_computes_a_probe) {
    gw_err err;
    uint64_t fingerprint;
    rig.parts = 3;
    rig_open(&rig, 5, true);
    cr_assert(gw_workers_probe(rig.pool, 4, 2, NULL, &fingerprint, &err), "%s", err.text);
    cr_assert_eq(fingerprint, 4002);
    for (uint32_t part = 0; part < 3; part++) cr_assert_eq(rig.probes[part], 1, "part %u", part);
    rig.wrong = true;
    cr_assert_not(gw_workers_probe(rig.pool, 4, 2, NULL, &fingerprint, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert(strstr(err.text, "shard 2 of step 4") && strstr(err.text, "0fa3"), "%s", err.text);
    rig_close(&rig);
}

/* The probe is a whole shard, and is computed before any other. */
Test(workers, a_probe_counts_among_the_shards) {
    gw_running oldest;
    gw_err err;
    uint64_t fingerprint;
    rig_open(&rig, 1, true);
    cr_assert(gw_workers_probe(rig.pool, 0, 0, NULL, &fingerprint, &err));
    deal(0, 1);
    rig_wait_inside(&rig, 1);
    cr_assert(gw_workers_oldest(rig.pool, &oldest));
    cr_assert_gt(oldest.usual_ns, 0);
    rig_close(&rig);
}

/* The end. */

static void *close_pool(void *unused) {
    (void)unused;
    gw_workers_close(rig.pool);
    return NULL;
}

Test(workers, closing_waits_for_what_runs) {
    rig_open(&rig, 2, true);
    deal(0, 10);
    rig_wait_inside(&rig, 2);
    cr_assert_not(gw_workers_end(rig.pool, 0));
    pthread_t closer;
    cr_assert_eq(pthread_create(&closer, NULL, close_pool, NULL), 0);
    rig_open_all(&rig);
    pthread_join(closer, NULL);
    cr_assert_eq(rig.ended, 2);
    cr_assert_eq(rig.lanes, 0);
}

Test(workers, closing_ends_claims_that_wait) {
    rig_open(&rig, 2, false);
    deal_with(TAG, NULL, 0, 10, true);
    rig_wait_report(&rig, RIG_CLAIM, 1);
    rig_close(&rig);
    cr_assert_eq(rig.ended, 0);
}

Test(workers, a_shard_that_does_not_end_is_told_from_an_idle_pool) {
    rig_open(&rig, 2, true);
    deal(0, 10);
    rig_wait_inside(&rig, 2);
    cr_assert_not(gw_workers_end(rig.pool, 0));
    rig_open_all(&rig);
    cr_assert(gw_workers_end(rig.pool, UINT64_MAX));
    cr_assert_eq(rig_word(&rig).tag, 0);
    rig_close(&rig);
    cr_assert_eq(rig.ended, 2, "and the rest is not claimed any more");
}

/* Shards that are computed twice. */

static void deal_chosen(uint32_t tag, const gw_set *list, const uint32_t *chosen, uint32_t count) {
    static const uint32_t cuts[] = {0, 4, 8};
    gw_workers_deal(rig.pool, &(gw_action){.deal.tag = tag,
                                           .deal.list = list,
                                           .deal.cuts = cuts,
                                           .deal.members = 2,
                                           .deal.end = 4,
                                           .deal.chosen = chosen,
                                           .deal.chosen_count = count});
}

/* The result of a chosen shard, or 0. */
static uint64_t check_of(const rig_report *sealed, uint32_t shard, bool again) {
    for (uint32_t i = 0; i < sealed->check_count; i++)
        if (sealed->checks[i].shard == shard && sealed->checks[i].again == again)
            return sealed->checks[i].fingerprint;
    return 0;
}

Test(workers, chosen_shards_are_their_members_own_and_others_again) {
    static const uint32_t chosen[] = {1, 3, 6};
    for (uint32_t workers = 1; workers <= 3; workers++) {
        rig_open(&rig, workers, false);
        deal_chosen(TAG, NULL, chosen, 3);
        rig_wait_report(&rig, RIG_DRY, 0);
        gw_workers_take(rig.pool, 5, 8); /* stolen: shard 6 is not among the results */
        rig_wait_report(&rig, RIG_DRY, 1);
        gw_workers_seal(rig.pool, 1);
        rig_report sealed = rig_wait_report(&rig, RIG_SEALED, 0);
        for (uint32_t shard = 0; shard < 8; shard++)
            cr_expect_eq(rig_began(&rig, shard), shard != 4 && shard != 6, "shard %u", shard);
        cr_expect_eq(sealed.check_count, 3);
        cr_expect_eq(check_of(&sealed, 1, false), 7001);
        cr_expect_eq(check_of(&sealed, 3, false), 7003);
        cr_expect_eq(check_of(&sealed, 6, true), 6, "the probe's");
        cr_expect_eq(gw_workers_lost(rig.pool), 0);
        rig_close(&rig);
    }
}

/* Chosen shards come first, whatever is stolen meanwhile; shards that are computed again are claimed by
 * nobody. */
Test(workers, a_freeze_does_not_report_what_is_computed_again) {
    static const uint32_t chosen[] = {2};
    gw_frozen frozen;
    rig_open(&rig, 2, true);
    deal_chosen(TAG, NULL, chosen, 1);
    rig_wait_inside(&rig, 2);
    cr_expect_eq(rig_began(&rig, 2), 1);
    gw_workers_freeze(rig.pool, &frozen);
    cr_expect_eq(gw_set_count(&frozen.claimed), 2);
    cr_expect(gw_set_has(&frozen.claimed, 2));
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
    rig_close(&rig);
}

/* Fingerprints that were computed before a repair are reported after it. */
Test(workers, results_of_chosen_shards_outlive_a_repair) {
    static const uint32_t chosen[] = {1, 6, 7};
    gw_frozen frozen;
    rig_open(&rig, 1, false);
    deal_chosen(TAG, NULL, chosen, 3);
    rig_wait_report(&rig, RIG_DRY, 0);
    gw_workers_freeze(rig.pool, &frozen);
    gw_set_free(&frozen.held);
    gw_set_free(&frozen.claimed);
    gw_set missing = gw_set_of(8);
    gw_set_add(&missing, 5);
    gw_set_add(&missing, 6);
    static const uint32_t cuts[] = {0, 2, 2}; /* both belong to this peer now */
    gw_workers_deal(rig.pool, &(gw_action){.deal.tag = TAG + 1,
                                           .deal.list = &missing,
                                           .deal.cuts = cuts,
                                           .deal.members = 2,
                                           .deal.end = 2,
                                           .deal.chosen = chosen,
                                           .deal.chosen_count = 3});
    rig_wait_report(&rig, RIG_DRY, 1);
    gw_workers_seal(rig.pool, 1);
    rig_report sealed = rig_wait_report(&rig, RIG_SEALED, 0);
    cr_expect_eq(check_of(&sealed, 1, false), 7001);
    cr_expect_eq(check_of(&sealed, 7, true), 7);
    cr_expect_eq(check_of(&sealed, 6, false), 7006);
    cr_expect_eq(check_of(&sealed, 6, true), 6, "where it is both, gw_verify_find passes it over");
    gw_set_free(&missing);
    rig_close(&rig);
}
