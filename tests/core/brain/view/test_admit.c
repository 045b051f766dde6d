/* Newcomers in the middle of a step, whose end may be far away. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define SECOND UINT64_C(1000000000)

enum { MOST_EVENTS = 400000, HALF = FLOCK_SHARDS / 2 };

static bool half_is_done(const flock *f) {
    return f->peers[0].word != 0 && f->peers[1].computed == HALF;
}

static void rest_in_first_step(flock *f) {
    f->peers[0].rests = true;
    for (uint32_t i = 0; i < 2; i++) flock_start(f, i);
    cr_assert(flock_run(f, half_is_done, MOST_EVENTS));
    f->peers[1].rests = true;
}

/* Two of `count` peers begin, and stop in the middle of the first step; the others are not here yet. */
static void open_resting(flock *f, uint32_t count) {
    flock_open(f, count, 2, 20, GW_QUORUM_ANY);
    rest_in_first_step(f);
}

static void wake(flock *f, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (f->peers[i].brain != NULL) flock_wake(f, i);
}

static void finish(flock *f) {
    uint32_t here = 0;
    for (uint32_t i = 0; i < f->count; i++) here += f->peers[i].brain != NULL;
    wake(f, f->count);
    cr_assert(flock_run(f, NULL, MOST_EVENTS));
    flock_expect_done(f, here);
    flock_close(f);
}

static bool third_is_linked(const flock *f) {
    return f->peers[2].linked[0] && f->peers[2].linked[1];
}

static bool third_is_in(const flock *f) {
    return f->peers[2].word != 0;
}

static bool third_is_through(const flock *f) {
    return f->peers[2].computed >= HALF;
}

static void third_computes_the_step(uint32_t dies) {
    flock f;
    open_resting(&f, 3);
    flock_start(&f, 2);
    cr_assert(flock_run(&f, third_is_linked, MOST_EVENTS));
    if (dies < 2) flock_kill(&f, dies);
    cr_assert(flock_run(&f, third_is_through, MOST_EVENTS), "it is not admitted");
    cr_assert_eq(flock_status(&f, 2).step, 0);
    /* It is a repair only if somebody died. */
    for (uint32_t i = 0; i < 3; i++)
        if (i != dies) cr_assert_eq(flock_status(&f, i).steps_repaired, i < 2 && dies < 2, "peer %u", i);
    finish(&f);
}

Test(peer_admit, a_newcomer_computes_what_is_left_of_the_step) {
    third_computes_the_step(UINT32_MAX);
}

Test(peer_admit, a_newcomer_computes_what_a_death_left) {
    third_computes_the_step(0);
    third_computes_the_step(1);
}

static bool both_are_in(const flock *f) {
    return flock_in_view_of(f, 0, 4) && f->peers[2].word != 0 && f->peers[3].word != 0;
}

Test(peer_admit, who_comes_at_about_the_same_time_comes_in_together) {
    flock f;
    open_resting(&f, 4);
    uint64_t before = flock_status(&f, 0).views_installed;
    for (uint32_t i = 2; i < 4; i++) {
        f.peers[i].rests = true;
        flock_start(&f, i);
        flock_run_for(&f, SECOND / 40);
    }
    cr_assert(flock_run(&f, both_are_in, MOST_EVENTS));
    cr_assert_eq(flock_status(&f, 0).views_installed, before + 1);
    finish(&f);
}

/* ---- what it costs ---- */

/* The third, who takes a second to fetch the state, is in the view. */
static void admit_slow_third(flock *f) {
    open_resting(f, 4);
    f->peers[2].load_ns = SECOND;
    f->peers[2].rests = f->peers[3].rests = true;
    flock_start(f, 2);
    cr_assert(flock_run(f, third_is_in, MOST_EVENTS));
}

static bool all_are_in(const flock *f) {
    return flock_in_view_of(f, 0, 4) && f->peers[3].word != 0;
}

/* Whoever fetches a large state has the others wait: a tenth of the time at most goes to that. */
Test(peer_admit, the_next_waits_ten_times_as_long_as_the_others_waited) {
    flock f;
    admit_slow_third(&f);
    uint64_t admitted = f.now;
    flock_start(&f, 3);
    cr_assert(flock_run(&f, all_are_in, MOST_EVENTS));
    cr_assert_geq(f.now - admitted, 10 * SECOND);
    cr_assert_leq(f.now - admitted, 11 * SECOND, "%g s", (double)(f.now - admitted) * 1e-9);
    cr_assert_eq(flock_status(&f, 3).step, 0);
    finish(&f);
}

/* The wait ends with the step if that ends before. */
Test(peer_admit, the_next_comes_in_at_a_boundary_all_the_same) {
    flock f;
    admit_slow_third(&f);
    uint64_t admitted = f.now;
    flock_start(&f, 3);
    flock_run_for(&f, 2 * SECOND);
    wake(&f, 3);
    cr_assert(flock_run(&f, all_are_in, MOST_EVENTS));
    cr_assert_lt(f.now - admitted, 3 * SECOND);
    cr_assert_eq(flock_status(&f, 3).step, 1);
    finish(&f);
}

static bool leader_is_frozen(const flock *f) {
    return f->peers[0].word == 0;
}

static bool leader_computes(const flock *f) {
    return f->peers[0].word != 0;
}

/* It counts as well what those cost who are not admitted in the end. */
Test(peer_admit, who_falls_silent_while_it_is_admitted_does_not_do_so_at_once_again) {
    flock f;
    open_resting(&f, 3);
    flock_start(&f, 2);
    cr_assert(flock_run(&f, leader_is_frozen, MOST_EVENTS));
    uint64_t frozen = f.now;
    flock_stop(&f, 2);
    cr_assert(flock_run(&f, leader_computes, MOST_EVENTS));
    cr_assert(!flock_in_view_of(&f, 0, 3));
    uint64_t cost = f.now - frozen, since = f.now;
    cr_assert_gt(cost, SECOND / 10, "nobody waited for it");
    flock_continue(&f, 2);
    cr_assert(flock_run(&f, third_is_in, MOST_EVENTS));
    cr_assert_geq(f.now - since, 10 * cost);
    finish(&f);
}

/* ---- who is not admitted, and what others hold then ---- */

static bool third_asks(const flock *f) {
    return flock_said(f, 2, "to be admitted") > 0;
}

/* Links come up one by one. A newcomer without a link to a member is no reason to do without the member. */
static void newcomer_lacks_a_link(bool newcomer_says_so) {
    flock f;
    open_resting(&f, 3);
    if (newcomer_says_so) f.longer_ns[1][0] = SECOND / 20; /* the member says so later */
    flock_cut(&f, 2, 1, false);
    flock_start(&f, 2);
    cr_assert(flock_run(&f, third_asks, MOST_EVENTS));
    for (int i = 0; i < 20; i++) {
        flock_run_for(&f, SECOND / 50);
        const gw_view *view = flock_status(&f, 0).view;
        cr_assert_eq(view->count, 2);
        cr_assert_geq(gw_view_rank(view, &f.peers[1].config.id), 0);
    }
    flock_mend(&f, 2, 1);
    uint64_t mended = f.now;
    cr_assert(flock_run(&f, third_is_in, MOST_EVENTS));
    cr_assert_lt(f.now - mended, SECOND, "%g s", (double)(f.now - mended) * 1e-9);
    cr_assert(flock_run(&f, third_is_through, MOST_EVENTS));
    cr_assert_eq(f.peers[1].computed, HALF, "what it held is lost");
    finish(&f);
}

Test(peer_admit, nobody_is_left_out_for_a_newcomer) {
    newcomer_lacks_a_link(false);
    newcomer_lacks_a_link(true);
}

static bool all_ask(const flock *f) {
    for (uint32_t i = 1; i < f->count; i++)
        if (!f->peers[0].linked[i] || (i > 1 && flock_said(f, i, "to be admitted") == 0)) return false;
    return true;
}

static bool all_twelve_are_in(const flock *f) {
    return flock_in_view_of(f, 0, 12);
}

/* Each of them costs a proposal, and the others wait meanwhile. */
Test(peer_admit, many_without_a_link_to_a_member_do_not_stop_the_others) {
    flock f;
    open_resting(&f, 12);
    for (uint32_t i = 2; i < 12; i++) {
        flock_cut(&f, i, 1, false);
        flock_start(&f, i);
    }
    cr_assert(flock_run(&f, all_ask, MOST_EVENTS));
    uint32_t frozen = 0, refused = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        flock_run_for(&f, SECOND / 1000);
        frozen += f.peers[0].word == 0;
        refused += f.peers[0].word == 0 && flock_status(&f, 0).view->count == 2;
    }
    cr_assert_gt(refused, 0);
    cr_assert_lt(frozen, 1000, "for %u of 5000 ms", frozen);
    for (uint32_t i = 2; i < 12; i++) flock_mend(&f, i, 1);
    cr_assert(flock_run(&f, all_twelve_are_in, MOST_EVENTS));
    finish(&f);
}

static bool both_are_linked(const flock *f) {
    return f->peers[0].linked[2] && f->peers[0].linked[3];
}

static bool first_goes_on(const flock *f) {
    return f->peers[0].word != 0 && flock_in_view_of(f, 0, 3);
}

static bool one_flock(const flock *f) {
    for (uint32_t i = 0; i < 4; i++)
        if (!flock_in_view_of(f, i, 4)) return false;
    return true;
}

/* Two of five are no majority, and two who come back have no link to one of them: without that one they are.
 */
Test(peer_admit, a_member_is_left_out_where_a_majority_needs_the_newcomers) {
    flock f;
    flock_open(&f, 5, 5, 20, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 5; i++) f.peers[i].rests = true;
    flock_start_all(&f);
    flock_run_for(&f, 5 * SECOND);
    for (uint32_t i = 2; i < 5; i++) {
        flock_kill(&f, i);
        flock_cut(&f, i, 1, false);
    }
    flock_run_for(&f, 20 * SECOND);
    for (uint32_t i = 2; i < 4; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, both_are_linked, MOST_EVENTS));
    uint64_t linked = f.now;
    cr_assert(flock_run(&f, first_goes_on, MOST_EVENTS), "nobody goes on");
    cr_assert_lt(f.now - linked, 20 * SECOND, "%g s", (double)(f.now - linked) * 1e-9);
    for (uint32_t i = 2; i < 4; i++) flock_mend(&f, i, 1);
    cr_assert(flock_run(&f, one_flock, MOST_EVENTS));
    finish(&f);
}

static bool third_is_dead(const flock *f) {
    return f->peers[2].brain == NULL;
}

static bool fourth_is_in(const flock *f) {
    return f->peers[3].word != 0;
}

/* Else one machine that dies of whatever it computes would have a shard named that kills peers. */
Test(peer_admit, who_dies_twice_in_a_step_waits_for_the_next) {
    flock f;
    open_resting(&f, 4);
    for (int life = 0; life < 3; life++) {
        f.peers[2].dies_at_shard = 0; /* the founders have not begun it */
        flock_start(&f, 2);
        if (life == 2) break;
        cr_assert(flock_run(&f, third_is_dead, MOST_EVENTS), "life %d", life);
    }
    flock_run_for(&f, 20 * SECOND);
    cr_assert(!third_is_dead(&f) && flock_in_view_of(&f, 0, 2));
    f.peers[3].rests = true;
    flock_start(&f, 3); /* it does not come in with others either */
    cr_assert(flock_run(&f, fourth_is_in, MOST_EVENTS));
    cr_assert(flock_in_view_of(&f, 0, 3) && flock_status(&f, 2).view == NULL);
    f.peers[2].dies_at_shard = -1;
    wake(&f, 4);
    cr_assert(flock_run(&f, third_is_in, MOST_EVENTS));
    cr_assert_eq(flock_status(&f, 2).step, 1);
    finish(&f);
}

/* Both who answer for a chosen shard would compute it again. */
Test(peer_admit, where_most_shards_are_computed_twice_it_waits_for_the_boundary) {
    flock f;
    flock_open(&f, 3, 2, 20, GW_QUORUM_ANY);
    f.verify = 1000000;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].config.verify = f.verify;
    rest_in_first_step(&f);
    flock_start(&f, 2);
    flock_run_for(&f, 5 * SECOND);
    cr_assert(flock_in_view_of(&f, 0, 2));
    wake(&f, 2);
    cr_assert(flock_run(&f, third_is_in, MOST_EVENTS));
    cr_assert_eq(flock_status(&f, 2).step, 1);
    finish(&f);
}

/* It has each chosen shard that is held computed again. */
Test(peer_admit, where_shards_are_computed_twice_nobody_comes_after_a_death) {
    for (uint32_t dies = 0; dies < 2; dies++) {
        flock f;
        flock_open(&f, 3, 2, 20, GW_QUORUM_ANY);
        f.verify = 1; /* of a million: fewer are chosen than there are members */
        for (uint32_t i = 0; i < 3; i++) f.peers[i].config.verify = f.verify;
        rest_in_first_step(&f);
        if (dies) flock_kill(&f, 1);
        flock_start(&f, 2);
        flock_run_for(&f, 5 * SECOND);
        cr_assert_eq(f.peers[2].word != 0, !dies);
        wake(&f, 3);
        cr_assert(flock_run(&f, third_is_in, MOST_EVENTS));
        cr_assert_eq(flock_status(&f, 2).step, dies);
        finish(&f);
    }
}

static bool first_saves(const flock *f) {
    return flock_status(f, 0).step == 1 && f->peers[0].saves > 0 && f->peers[0].word != 0;
}

static bool has_a_checkpoint(const flock *f) {
    return f->peers[0].checkpoints > 0;
}

Test(peer_admit, a_checkpoint_under_way_is_not_ended_for_it) {
    flock f;
    flock_open(&f, 3, 2, 20, GW_QUORUM_ANY);
    f.checkpoint_steps = 1;
    for (uint32_t i = 0; i < 2; i++) f.peers[i].save_ns = 5 * SECOND;
    rest_in_first_step(&f);
    wake(&f, 2);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].rests = true;
    cr_assert(flock_run(&f, first_saves, MOST_EVENTS));
    flock_start(&f, 2);
    flock_run_for(&f, 3 * SECOND);
    cr_assert(flock_in_view_of(&f, 0, 2));
    cr_assert(flock_run(&f, third_is_in, MOST_EVENTS));
    cr_assert(has_a_checkpoint(&f));
    cr_assert_eq(flock_status(&f, 2).step, 1);
    finish(&f);
}

/* ---- what is to end, or to be one ---- */

Test(peer_admit, nobody_is_admitted_to_a_step_after_which_the_job_stops) {
    flock f;
    open_resting(&f, 3);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_STOP});
    flock_start(&f, 2);
    flock_run_for(&f, 5 * SECOND);
    cr_assert(flock_in_view_of(&f, 0, 2));
    wake(&f, 2);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_geq(flock_finished(&f, GW_FINISH_STOPPED), 2);
    flock_close(&f);
}

static bool two_flocks(const flock *f) {
    return flock_in_view_of(f, 0, 2) && flock_in_view_of(f, 1, 2) && flock_in_view_of(f, 2, 2) &&
           flock_in_view_of(f, 3, 2);
}

static bool one_is_offered(const flock *f) {
    for (uint32_t i = 0; i < 4; i++)
        if (f->peers[i].offers > 0) return true;
    return false;
}

/* Leads the view that a peer is in. */
static uint32_t leader_of(const flock *f, uint32_t i) {
    const gw_peer_id leader = flock_status(f, i).view->leader;
    for (uint32_t k = 0; k < f->count; k++)
        if (gw_peer_id_equal(&f->peers[k].config.id, &leader)) return k;
    return UINT32_MAX;
}

/* One of two flocks with long steps is taken in as a whole, though its links come up one by one. */
Test(peer_admit, a_view_that_is_offered_is_admitted_whole) {
    flock f;
    flock_open(&f, 4, 4, 20, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 4; i++) f.peers[i].rests = true;
    flock_start_all(&f);
    flock_run_for(&f, 5 * SECOND);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) flock_cut(&f, a, b, true);
    cr_assert(flock_run(&f, two_flocks, MOST_EVENTS));
    flock_run_for(&f, SECOND);
    const gw_view *one = flock_status(&f, 0).view, *other = flock_status(&f, 2).view;
    uint32_t goes = gw_view_name_compare(&one->name, &other->name) < 0 ? 0 : 2; /* one that offers its view */
    uint32_t leader = leader_of(&f, 2 - goes), last = 2 * goes + 1 - leader_of(&f, goes);
    uint64_t views = flock_status(&f, leader).views_installed;
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) flock_mend(&f, a, b);
    flock_cut(&f, leader, last, false);
    cr_assert(flock_run(&f, one_is_offered, MOST_EVENTS));
    flock_run_for(&f, SECOND / 2);
    flock_mend(&f, leader, last);
    cr_assert(flock_run(&f, one_flock, MOST_EVENTS));
    cr_assert_eq(flock_status(&f, leader).views_installed, views + 1);
    finish(&f);
}

/* It has lost the view that it leads, and this one alone still lives in it, who sees nothing wrong. */
Test(peer_admit, a_member_that_asks_is_reason_for_a_new_view_whoever_leads) {
    flock f;
    flock_open_at_step_5(&f, 3, 1000000, GW_QUORUM_MAJORITY);
    uint32_t leader = flock_leader(&f), to = (leader + 1) % 3;
    const gw_view *lived = flock_status(&f, to).view;
    uint64_t epoch = lived->epoch;
    const gw_peer_config *from = &f.peers[leader].config;
    gw_view alone = {.epoch = epoch + 1, .leader = from->id, .job = lived->job, .count = 1};
    alone.members[0] =
        (gw_member){.id = from->id, .boot = from->incarnation.boot, .nonce = from->incarnation.nonce};
    gw_view_seal(&alone);
    gw_message m = {.kind = GW_MSG_JOIN, .job = lived->job, .join.newcomers = &alone};
    uint8_t *bytes;
    size_t length = gw_message_encode(&m, &bytes);
    flock_tell(
        &f, to,
        (gw_event){
            .kind = GW_EV_MESSAGE, .peer = from->id, .message.bytes = bytes, .message.length = length});
    free(bytes);
    flock_run_for(&f, UINT64_C(2000000000));
    cr_expect_gt(flock_status(&f, to).view->epoch, epoch);
    flock_close(&f);
}
