/* Whoever leaves when nobody stays saves what it has computed at last. */
#include "flock.h"

#include "core/peer_state.h" /* save_again_ns */

#include <criterion/criterion.h>

#define SECOND UINT64_C(1000000000)

enum { STEPS = 20, MANY_STEPS = 4000, MOST_EVENTS = 400000 };

static bool step_5_is_saved(const flock *f) {
    return f->peers[0].saved_step >= 5;
}

/* They are told to in a step whose beginning is saved, or is not. */
static void leave_within_long_steps(uint32_t count, bool saved) {
    flock f;
    uint64_t step[3];
    flock_open(&f, count, count, STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = saved ? 1 : 0;
    for (uint32_t i = 0; i < count; i++) {
        f.peers[i].seal_ns = 15 * SECOND;
        f.peers[i].config.save_timeout_ns = 60 * SECOND;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, saved ? step_5_is_saved : flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < count; i++) {
        step[i] = f.peers[i].brain->step;
        flock_tell(&f, i, (gw_event){.kind = GW_EV_LEAVE});
    }
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(f.peers[i].finish, GW_FINISH_LEFT, "%s", f.peers[i].finish_text);
        cr_assert_gt(f.peers[i].saved_step, step[i], "%s", f.peers[i].finish_text);
        if (count == 1) cr_assert_eq(f.peers[i].saved_step, f.peers[i].brain->step);
    }
    flock_close(&f);
}

/* Nobody goes on with what they have computed: it is worth a step of 15 s. */
Test(peer_leave, the_last_peer_leaves_with_a_checkpoint_however_long_its_step) {
    leave_within_long_steps(1, false);
    leave_within_long_steps(1, true);
}

Test(peer_leave, who_all_leave_at_once_leave_with_a_checkpoint_however_long_the_step) {
    leave_within_long_steps(3, false);
    leave_within_long_steps(3, true);
}

/* Alone, in steps of so long, with saves of so long, at most 600 s of which it waits for. */
static void leave_alone(flock *f, uint64_t seal_s, uint64_t save_s, uint64_t checkpoint_steps) {
    flock_open(f, 1, 1, STEPS, GW_QUORUM_ANY);
    f->checkpoint_steps = checkpoint_steps;
    f->peers[0].seal_ns = seal_s * SECOND;
    f->peers[0].save_ns = save_s * SECOND;
    f->peers[0].config.save_timeout_ns = 600 * SECOND;
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    flock_tell(f, 0, (gw_event){.kind = GW_EV_LEAVE});
}

static bool first_has_finished(const flock *f) {
    return f->peers[0].finished;
}

static void expect_left_saved(flock *f, uint64_t most_s) {
    const uint64_t begun_ns = f->now;
    cr_assert(flock_run(f, first_has_finished, MOST_EVENTS));
    cr_expect_eq(f->peers[0].finish, GW_FINISH_LEFT, "%s", f->peers[0].finish_text);
    cr_expect_eq(f->peers[0].saved_step, f->peers[0].brain->step);
    cr_expect_leq(f->now, begun_ns + most_s * SECOND, "%.1f s", (double)(f->now - begun_ns) / SECOND);
}

/* It would be for nothing to abandon it, as one is that holds up the steps of others. */
Test(peer_leave, the_last_peer_waits_for_a_save_that_takes_long) {
    flock f;
    leave_alone(&f, 15, 90, 0);
    expect_left_saved(&f, 120);
    flock_close(&f);
}

Test(peer_leave, the_last_peer_saves_what_it_has_made_while_an_older_save_was_under_way) {
    flock f;
    leave_alone(&f, 15, 40, 1);
    expect_left_saved(&f, 90);
    flock_close(&f);
}

/* However long it has been full: it waits for nothing else now. */
Test(peer_leave, the_last_peer_saves_once_its_disk_has_room_again) {
    const uint64_t full_s[] = {1, 35, 130, 590};
    for (size_t k = 0; k < sizeof full_s / sizeof full_s[0]; k++) {
        flock f;
        leave_alone(&f, 1, 0, 0);
        f.peers[0].disk_full = true;
        flock_run_for(&f, full_s[k] * SECOND);
        f.peers[0].disk_full = false;
        expect_left_saved(&f, 6);
        flock_close(&f);
    }
}

Test(peer_leave, the_last_peer_asks_a_disk_at_once_that_was_full_for_long) {
    flock f;
    flock_open(&f, 1, 1, MANY_STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = 2;
    f.peers[0].seal_ns = SECOND;
    f.peers[0].config.save_timeout_ns = 30 * SECOND;
    flock_start(&f, 0);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[0].disk_full = true;
    flock_run_for(&f, 63 * SECOND);
    f.peers[0].disk_full = false;
    flock_run_for(&f, 2 * SECOND);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    expect_left_saved(&f, 3);
    flock_close(&f);
}

/* One comes while the last one saves what it leaves. */
static void come_to_leaver(flock *f, uint64_t load_s) {
    flock_open(f, 2, 1, MANY_STEPS, GW_QUORUM_ANY);
    f->checkpoint_steps = 0;
    f->peers[0].seal_ns = f->peers[1].seal_ns = SECOND;
    f->peers[0].save_ns = 20 * SECOND;
    f->peers[0].config.save_timeout_ns = 600 * SECOND;
    f->peers[1].load_ns = load_s * SECOND;
    flock_start(f, 0);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    flock_tell(f, 0, (gw_event){.kind = GW_EV_LEAVE});
    flock_run_for(f, 3 * SECOND);
    cr_assert_str_eq(flock_status(f, 0).phase, "leaving: writing a checkpoint");
    f->peers[1].config.seed_count = 1;
    f->peers[1].config.seeds[0] = f->peers[0].config.addrs[0];
    f->peers[1].config.joins = true;
    flock_start(f, 1);
}

Test(peer_leave, the_last_peer_waits_until_a_newcomer_has_the_state) {
    flock f;
    come_to_leaver(&f, 15);
    cr_assert(flock_run(&f, first_has_finished, MOST_EVENTS));
    cr_expect_eq(f.peers[0].finish, GW_FINISH_LEFT, "%s", f.peers[0].finish_text);
    cr_expect(f.peers[1].brain->has_state, "%s", flock_status(&f, 1).phase);
    cr_expect_geq(f.peers[1].brain->step, f.peers[0].brain->step);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_kill(&f, 0);
    flock_expect_done(&f, 1);
    flock_close(&f);
}

static bool are_two(const flock *f) {
    return flock_in_view_of(f, 0, 2);
}

static bool first_is_alone(const flock *f) {
    return flock_in_view_of(f, 0, 1);
}

static void come_and_go(flock *f) {
    if (f->peers[1].brain == NULL) flock_start(f, 1);
    cr_assert(flock_run(f, are_two, MOST_EVENTS));
    flock_kill(f, 1);
    cr_assert(flock_run(f, first_is_alone, MOST_EVENTS));
}

/* A step would keep it from saving, and may be long. */
Test(peer_leave, the_last_peer_computes_no_more_when_a_newcomer_has_come_and_gone) {
    flock f;
    come_to_leaver(&f, 15);
    f.peers[0].seal_ns = 2000 * SECOND;
    come_and_go(&f);
    expect_left_saved(&f, 40);
    flock_close(&f);
}

/* Nor does one that dies of every step keep it from saving. */
Test(peer_leave, the_last_peer_lets_nobody_in_who_has_come_and_gone_again_and_again) {
    flock f;
    come_to_leaver(&f, 15);
    for (int times = 0; times < 2; times++) come_and_go(&f);
    flock_start(&f, 1);
    expect_left_saved(&f, 40);
    cr_expect_neq(f.peers[0].brain->view.count, 2);
    flock_close(&f);
}

static bool first_has_saved(const flock *f) {
    return f->peers[0].brain->saved_step != UINT64_MAX;
}

/* What is saved in the midst of the step after it is not what it comes to. */
Test(peer_leave, who_leaves_and_is_the_last_one_at_once_saves_what_it_made_alone) {
    flock f;
    flock_open(&f, 2, 2, STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = 0;
    for (uint32_t i = 0; i < 2; i++) {
        f.peers[i].seal_ns = 4 * SECOND;
        f.peers[i].save_ns = SECOND;
        f.peers[i].config.save_timeout_ns = 600 * SECOND;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    cr_assert(!first_has_saved(&f));
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    cr_assert(flock_run(&f, first_has_saved, MOST_EVENTS));
    cr_assert(!f.peers[0].finished);
    flock_kill(&f, 1);
    const uint64_t step = f.peers[0].brain->step;
    expect_left_saved(&f, 120);
    cr_expect_eq(f.peers[0].brain->step, step + 1, "what it has computed of that one is worth completing it");
    flock_close(&f);
}
