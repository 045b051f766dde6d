/* Whoever leaves when nobody stays saves what it has computed at last. */
#include "flock.h"

#include "core/peer_state.h" /* save_again_ns */

#include <criterion/criterion.h>

#define SECOND UINT64_C(1000000000)

enum { STEPS = 20, MOST_EVENTS = 400000 };

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

static void expect_left_saved(flock *f, uint64_t most_s) {
    const uint64_t begun_ns = f->now;
    cr_assert(flock_run(f, NULL, MOST_EVENTS));
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

static bool disk_is_known_to_be_full(const flock *f) {
    return f->peers[0].brain->save_again_ns != 0;
}

Test(peer_leave, the_last_peer_saves_once_its_disk_has_room_again) {
    flock f;
    leave_alone(&f, 1, 0, 0);
    f.peers[0].disk_full = true;
    cr_assert(flock_run(&f, disk_is_known_to_be_full, MOST_EVENTS));
    f.peers[0].disk_full = false;
    expect_left_saved(&f, 10);
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
    expect_left_saved(&f, 120);
    flock_close(&f);
}
