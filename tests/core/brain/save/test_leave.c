/* A peer that leaves when no other stays saves its last results. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/save/leave.h"
#include "core/brain/self.h"
#include "core/brain/state.h" /* gw_leave_until */

#include <criterion/criterion.h>
#include <string.h>

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
        step[i] = f.peers[i].brain->state.step;
        flock_tell(&f, i, (gw_event){.kind = GW_EV_LEAVE});
    }
    const uint64_t told_ns = f.now;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_lt(f.now, told_ns + 20 * SECOND, "no step is begun only to be left: %.1f s",
                 (double)(f.now - told_ns) / SECOND);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(f.peers[i].finish, GW_FINISH_LEFT, "%s", f.peers[i].finish_text);
        cr_assert_gt(f.peers[i].saved_step, step[i], "%s", f.peers[i].finish_text);
        if (count == 1) cr_assert_eq(f.peers[i].saved_step, f.peers[i].brain->state.step);
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
    cr_expect_eq(f->peers[0].saved_step, f->peers[0].brain->state.step);
    cr_expect_leq(f->now, begun_ns + most_s * SECOND, "%.1f s", (double)(f->now - begun_ns) / SECOND);
}

/* A flock of one, told to leave in the middle of a step: after step 5, or in its first step. */
static void leave_in_step(flock *f, bool first, uint64_t step_s, uint64_t grace_s,
                          uint64_t checkpoint_steps) {
    flock_open(f, 1, 1, STEPS, GW_QUORUM_ANY);
    f->checkpoint_steps = checkpoint_steps;
    f->peers[0].seal_ns = step_s * SECOND;
    f->peers[0].save_ns = SECOND / 2;
    f->peers[0].config.save_timeout_ns = 60 * SECOND;
    f->peers[0].config.grace_ns = grace_s * SECOND;
    flock_start_all(f);
    if (!first)
        cr_assert(flock_run(f, checkpoint_steps != 0 ? step_5_is_saved : flock_at_step_5, MOST_EVENTS));
    flock_run_for(f, SECOND);
    flock_tell(f, 0, (gw_event){.kind = GW_EV_LEAVE});
}

/* Whoever asks kills the process after its grace period, and a step that is not finished by then is lost
 * all the same. */
Test(peer_leave, the_last_peer_gives_up_a_step_that_takes_longer_than_its_grace) {
    for (uint64_t checkpoint_steps = 0; checkpoint_steps < 2; checkpoint_steps++) {
        flock f;
        leave_in_step(&f, false, 15, 10, checkpoint_steps);
        uint64_t step = f.peers[0].brain->state.step;
        expect_left_saved(&f, 1);
        cr_expect_eq(f.peers[0].saved_step, step, "the step goes, what was committed stays");
        flock_close(&f);
    }
}

Test(peer_leave, the_last_peer_finishes_a_step_that_ends_within_its_grace) {
    flock f;
    leave_in_step(&f, false, 6, 10, 0);
    uint64_t step = f.peers[0].brain->state.step;
    expect_left_saved(&f, 6);
    cr_expect_eq(f.peers[0].saved_step, step + 1);
    flock_close(&f);
}

/* It is not known how long a first step takes. */
Test(peer_leave, the_last_peer_waits_for_its_first_step_as_long_as_its_grace) {
    flock f;
    leave_in_step(&f, true, 15, 10, 0);
    expect_left_saved(&f, 11);
    cr_expect_eq(f.peers[0].saved_step, 0);
    flock_close(&f);
    leave_in_step(&f, true, 9, 10, 0);
    expect_left_saved(&f, 10);
    cr_expect_eq(f.peers[0].saved_step, 1);
    flock_close(&f);
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

/* No next step would show that. */
Test(peer_leave, what_the_last_peer_saves_is_looked_at) {
    flock f;
    leave_alone(&f, 1, 10, 0);
    f.peers[0].flip_save = f.peers[0].brain->state.step + 1;
    cr_assert(flock_run(&f, first_has_finished, MOST_EVENTS));
    cr_expect_eq(f.peers[0].finish, GW_FINISH_FAILED, "%s", f.peers[0].finish_text);
    cr_expect_not_null(strstr(f.peers[0].finish_text, "changed in this machine's memory"));
    cr_expect_neq(f.peers[0].brain->save.saved_step, f.peers[0].brain->state.step);
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

/* ---- somebody comes ---- */

static void begin_second(flock *f) {
    f->peers[1].config.seed_count = 1;
    f->peers[1].config.seeds[0] = f->peers[0].config.addrs[0];
    f->peers[1].config.joins = true;
    flock_start(f, 1);
}

/* The last one saves what it leaves, or cannot, since `wait_s`, when another one comes, which takes so long
 * to fetch that. */
static void come_to_leaver(flock *f, uint64_t wait_s, uint64_t load_s, uint64_t save_s, bool full) {
    flock_open(f, 2, 1, MANY_STEPS, GW_QUORUM_ANY);
    f->checkpoint_steps = 0;
    f->peers[0].seal_ns = f->peers[1].seal_ns = SECOND;
    f->peers[0].save_ns = save_s * SECOND;
    f->peers[0].disk_full = full;
    f->peers[0].config.save_timeout_ns = 60 * SECOND;
    f->peers[1].load_ns = load_s * SECOND;
    flock_start(f, 0);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    flock_tell(f, 0, (gw_event){.kind = GW_EV_LEAVE});
    flock_run_for(f, wait_s * SECOND);
    cr_assert_str_eq(flock_status(f, 0).phase, "leaving: writing a checkpoint");
    begin_second(f);
}

static void expect_handed_over(flock *f) {
    cr_assert(flock_run(f, first_has_finished, MOST_EVENTS));
    cr_expect_eq(f->peers[0].finish, GW_FINISH_LEFT, "%s", f->peers[0].finish_text);
    cr_expect(f->peers[1].brain->state.present, "%s", flock_status(f, 1).phase);
    cr_expect_geq(f->peers[1].brain->state.step + 1, f->peers[0].brain->state.step);
    cr_assert(flock_run(f, NULL, MOST_EVENTS));
    flock_kill(f, 0);
    flock_expect_done(f, 1);
}

/* Before its time would be up if others stayed, and after that; also where the fetch is not done at once. */
Test(peer_leave, the_last_peer_waits_until_a_newcomer_has_the_state) {
    for (uint64_t wait_s = 3; wait_s <= 13; wait_s += 10) {
        for (uint32_t failures = 0; failures < 2; failures++) {
            for (int full = 0; full < 2; full++) {
                flock f;
                come_to_leaver(&f, wait_s, 15, full ? 0 : 20, full);
                f.peers[1].loads_to_fail = failures;
                expect_handed_over(&f);
                flock_close(&f);
            }
        }
    }
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
    flock_run_for(f, SECOND);
    flock_kill(f, 1);
    cr_assert(flock_run(f, first_is_alone, MOST_EVENTS));
}

/* A step would keep it from saving, and may be long. */
Test(peer_leave, the_last_peer_computes_no_more_when_a_newcomer_has_come_and_gone) {
    for (uint64_t wait_s = 3; wait_s <= 13; wait_s += 10) {
        flock f;
        come_to_leaver(&f, wait_s, 15, 0, true);
        f.peers[0].seal_ns = 2000 * SECOND;
        come_and_go(&f);
        f.peers[0].disk_full = false;
        expect_left_saved(&f, 20);
        flock_close(&f);
    }
}

/* The next newcomer waits for the save as the first one did. */
Test(peer_leave, the_last_peer_saves_first_again_when_a_newcomer_has_come_and_gone) {
    flock f;
    come_to_leaver(&f, 3, 100, 3, true);
    come_and_go(&f);
    f.peers[0].disk_full = false;
    flock_start(&f, 1);
    expect_left_saved(&f, 60);
    flock_close(&f);
}

/* A newcomer that dies in every step does not keep the last peer from saving. */
Test(peer_leave, the_last_peer_lets_nobody_in_who_has_come_and_gone_again_and_again) {
    flock f;
    come_to_leaver(&f, 3, 15, 0, true);
    for (int times = 0; times < 2; times++) come_and_go(&f);
    const uint64_t views = f.peers[0].brain->view.views_installed;
    flock_start(&f, 1);
    flock_run_for(&f, 10 * SECOND);
    cr_expect_eq(f.peers[0].brain->view.views_installed, views);
    f.peers[0].disk_full = false;
    expect_left_saved(&f, 6);
    flock_close(&f);
}

static void run_on(flock *f, uint64_t time_ns) {
    const uint64_t until_ns = f->now + time_ns;
    while (f->now < until_ns && !f->peers[0].finished)
        cr_assert(!flock_run(f, NULL, 1) || f->peers[0].finished);
}

/* It may take as long as there is time, or be gone before. */
Test(peer_leave, no_newcomer_ends_the_last_ones_save) {
    flock f;
    come_to_leaver(&f, 13, 100, 20, false);
    expect_left_saved(&f, 60);
    cr_expect_eq(flock_said(&f, 0, "computed again"), 0);
    flock_close(&f);
    come_to_leaver(&f, 13, 100, 20, false);
    while (!f.peers[0].finished) {
        if (f.peers[1].brain == NULL) flock_start(&f, 1);
        run_on(&f, 2 * SECOND);
        flock_kill(&f, 1);
        run_on(&f, SECOND);
    }
    cr_expect_eq(f.peers[0].saved_step, f.peers[0].brain->state.step);
    flock_close(&f);
}

static void open_two(flock *f, gw_quorum quorum, uint32_t founding) {
    flock_open(f, 2, founding, MANY_STEPS, quorum);
    f->checkpoint_steps = 0;
    for (uint32_t i = 0; i < 2; i++) {
        f->peers[i].seal_ns = SECOND;
        f->peers[i].config.save_timeout_ns = 600 * SECOND;
    }
    for (uint32_t i = 0; i < founding; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
}

/* Whoever comes in the last one's last step, or while an older save is under way, finds nothing begun yet of
 * the save that matters: it waits for that all the same. */
static void come_in_last_step(uint64_t seal_s, uint64_t save_s, uint64_t checkpoint_steps, uint64_t wait_s) {
    flock f;
    flock_open(&f, 2, 1, MANY_STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = checkpoint_steps;
    f.peers[0].seal_ns = f.peers[1].seal_ns = SECOND;
    f.peers[0].save_ns = save_s * SECOND;
    f.peers[0].config.save_timeout_ns = 60 * SECOND;
    f.peers[1].load_ns = 100 * SECOND;
    flock_start(&f, 0);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[0].seal_ns = seal_s * SECOND;
    flock_run_for(&f, 2 * SECOND);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    flock_run_for(&f, wait_s * SECOND);
    begin_second(&f);
    expect_left_saved(&f, 60);
    cr_expect_eq(flock_said(&f, 0, "computed again"), 0);
    flock_close(&f);
}

Test(peer_leave, whoever_comes_in_the_last_ones_last_step_waits_for_its_save) {
    come_in_last_step(5, 3, 0, 2);
    come_in_last_step(20, 3, 0, 1);
}

/* A newcomer does not interrupt that step, even if some of its shards have not begun. */
Test(peer_leave, whoever_comes_waits_for_the_end_of_the_last_ones_step) {
    flock f;
    open_two(&f, GW_QUORUM_ANY, 1);
    f.peers[0].rests = true;
    const uint64_t step = f.peers[0].brain->state.step;
    f.peers[1].load_ns = 100 * SECOND;
    flock_run_for(&f, 3 * SECOND);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    begin_second(&f);
    flock_run_for(&f, 20 * SECOND);
    cr_expect_eq(f.peers[0].brain->phase, GW_AT_COMPUTING);
    cr_expect_eq(f.peers[0].brain->view.current.count, 1);
    flock_wake(&f, 0);
    expect_left_saved(&f, 600);
    cr_expect_gt(f.peers[0].saved_step, step);
    flock_close(&f);
}

Test(peer_leave, whoever_comes_while_an_older_save_is_under_way_waits_for_the_next) {
    come_in_last_step(4, 9, 1, 5);
}

/* Two that found a flock of their own, and whom the last one sees only when it has come to rest. */
Test(peer_leave, no_other_flock_ends_the_last_ones_save) {
    flock f;
    flock_open(&f, 3, 1, MANY_STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = 0;
    for (uint32_t i = 0; i < 3; i++) {
        f.peers[i].seal_ns = SECOND;
        f.peers[i].load_ns = 100 * SECOND;
        f.peers[i].config.save_timeout_ns = 60 * SECOND;
    }
    f.peers[2].config.seed_count = 1;
    f.peers[2].config.seeds[0] = f.peers[1].config.addrs[0];
    f.peers[0].save_ns = 20 * SECOND;
    for (uint32_t i = 1; i < 3; i++) flock_cut(&f, 0, i, true);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    flock_run_for(&f, 2 * SECOND);
    cr_assert_str_eq(flock_status(&f, 0).phase, "leaving: writing a checkpoint");
    for (uint32_t i = 1; i < 3; i++) flock_mend(&f, 0, i);
    expect_left_saved(&f, 40);
    cr_expect_eq(flock_said(&f, 0, "computed again"), 0);
    flock_close(&f);
}

/* It admits a newcomer even if little time is left, or if its state cannot be saved because writing and
 * hashing take long. */
Test(peer_leave, the_last_peer_hands_over_though_its_own_saves_last_too_long) {
    for (int full = 0; full < 2; full++) {
        flock f;
        come_to_leaver(&f, 4, 1, full ? 3 : 100, full);
        const uint64_t begun_ns = f.now;
        cr_assert(flock_run(&f, first_has_finished, MOST_EVENTS));
        cr_expect_leq(f.now, begun_ns + (full ? 15 : 40) * SECOND, "%.1f s",
                      (double)(f.now - begun_ns) / SECOND);
        expect_handed_over(&f);
        flock_close(&f);
    }
}

Test(peer_leave, the_last_peer_stops_the_job_with_the_save_that_it_waits_for) {
    flock f;
    leave_alone(&f, 1, 40, 0);
    flock_run_for(&f, 35 * SECOND);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_STOP});
    const uint64_t begun_ns = f.now;
    cr_assert(flock_run(&f, first_has_finished, MOST_EVENTS));
    cr_expect_eq(f.peers[0].finish, GW_FINISH_STOPPED, "%s", f.peers[0].finish_text);
    cr_expect_eq(f.peers[0].saved_step, f.peers[0].brain->state.step);
    cr_expect_leq(f.now, begun_ns + 10 * SECOND);
    flock_close(&f);
}

Test(peer_leave, who_comes_to_the_last_peer_hears_that_the_job_is_to_stop) {
    flock f;
    come_to_leaver(&f, 13, 1, 0, true);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_STOP});
    f.peers[0].disk_full = false;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_expect_eq(f.peers[1].finish, GW_FINISH_STOPPED, "%s", f.peers[1].finish_text);
    flock_close(&f);
}

static bool second_has_finished(const flock *f) {
    return f->peers[1].finished;
}

/* Whoever asked it to stop the job was answered that it will: by all orders of the two, and though it does
 * not come to the end of the step. */
Test(peer_leave, who_stays_hears_of_the_stop_that_one_who_left_was_asked_for) {
    for (int order = 0; order < 2; order++) {
        flock f;
        flock_open(&f, 2, 2, MANY_STEPS, GW_QUORUM_ANY);
        f.checkpoint_steps = 0;
        for (uint32_t i = 0; i < 2; i++) {
            f.peers[i].seal_ns = SECOND;
            f.peers[i].config.save_timeout_ns = 30 * SECOND;
        }
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        for (uint32_t i = 0; i < 2; i++) f.peers[i].seal_ns = 100 * SECOND;
        flock_run_for(&f, 3 * SECOND);
        uint32_t leader = gw_peer_is_leader(f.peers[0].brain) ? 0 : 1;
        cr_assert_eq(leader, 0);
        flock_tell(&f, 0, (gw_event){.kind = order == 0 ? GW_EV_STOP : GW_EV_LEAVE});
        flock_tell(&f, 0, (gw_event){.kind = order == 0 ? GW_EV_LEAVE : GW_EV_STOP});
        cr_assert(flock_run(&f, first_has_finished, MOST_EVENTS));
        cr_expect_eq(f.peers[0].finish, GW_FINISH_LEFT, "%s", f.peers[0].finish_text);
        cr_assert(flock_run(&f, second_has_finished, MOST_EVENTS));
        cr_expect_eq(f.peers[1].finish, GW_FINISH_STOPPED, "%s", f.peers[1].finish_text);
        flock_close(&f);
    }
}

/* The step in which they are told is the one that they go on from, not the one of before they knew. */
Test(peer_leave, who_are_told_as_they_resume_leave_with_the_step_that_they_make) {
    flock f;
    flock_open(&f, 2, 2, MANY_STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = 5;
    for (uint32_t i = 0; i < 2; i++) {
        f.peers[i].seal_ns = SECOND;
        f.peers[i].config.save_timeout_ns = 60 * SECOND;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, step_5_is_saved, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) {
        flock_kill(&f, i);
        f.peers[i].load_ns = 5 * SECOND;
    }
    f.checkpoint_steps = 0;
    flock_start_all(&f);
    flock_run_for(&f, 3 * SECOND);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_not(f.peers[i].brain->state.present);
        flock_tell(&f, i, (gw_event){.kind = GW_EV_LEAVE});
    }
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) {
        cr_expect_eq(f.peers[i].finish, GW_FINISH_LEFT, "%s", f.peers[i].finish_text);
        cr_expect_geq(f.peers[i].saved_step, 6, "%s", f.peers[i].finish_text);
    }
    flock_close(&f);
}

static bool are_three(const flock *f) {
    return flock_in_view_of(f, 0, 3);
}

/* They wait for its fetch in vain. */
Test(peer_leave, who_has_no_state_yet_leaves_at_once) {
    flock f;
    flock_open(&f, 3, 2, MANY_STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = 0;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = SECOND;
    f.peers[2].load_ns = 100 * SECOND;
    for (uint32_t i = 0; i < 2; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[2].config.seed_count = 1;
    f.peers[2].config.seeds[0] = f.peers[0].config.addrs[0];
    f.peers[2].config.joins = true;
    flock_start(&f, 2);
    cr_assert(flock_run(&f, are_three, MOST_EVENTS));
    flock_run_for(&f, SECOND / 2);
    cr_assert_not(f.peers[2].brain->state.present);
    flock_tell(&f, 2, (gw_event){.kind = GW_EV_LEAVE});
    flock_run_for(&f, SECOND / 10);
    cr_expect_eq(f.peers[2].finish, GW_FINISH_LEFT);
    cr_expect(f.peers[2].finished, "%s", flock_status(&f, 2).phase);
    flock_close(&f);
}

/* It has no state, nor does it know that it was leaving. */
Test(peer_leave, the_next_life_of_one_that_was_leaving_does_not_stay) {
    flock f;
    open_two(&f, GW_QUORUM_ANY, 2);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].seal_ns = 30 * SECOND;
    flock_run_for(&f, 2 * SECOND);
    for (uint32_t i = 0; i < 2; i++) flock_tell(&f, i, (gw_event){.kind = GW_EV_LEAVE});
    flock_run_for(&f, 12 * SECOND);
    flock_kill(&f, 1);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, first_has_finished, MOST_EVENTS));
    const gw_peer *second = f.peers[1].brain;
    bool saved = f.peers[0].saved_step == f.peers[0].brain->state.step;
    bool handed_over = second->state.present && second->state.step >= f.peers[0].brain->state.step;
    cr_expect(saved || handed_over, "%s", f.peers[0].finish_text);
    cr_expect_gt(f.peers[0].brain->state.step, 5);
    flock_close(&f);
}

/* It has the state, but cannot go on without the one of lower rank. */
Test(peer_leave, where_a_majority_rules_too_few_who_stay_are_nobody) {
    for (uint32_t founding = 1; founding <= 2; founding++) {
        flock f;
        open_two(&f, GW_QUORUM_MAJORITY, founding);
        f.peers[0].save_ns = f.peers[1].save_ns = 20 * SECOND;
        uint32_t lower = gw_peer_id_compare(&f.peers[0].config.id, &f.peers[1].config.id) < 0 ? 0 : 1;
        cr_assert_eq(lower, 0);
        flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
        flock_run_for(&f, 3 * SECOND);
        if (founding == 1) begin_second(&f);
        cr_assert(flock_run(&f, first_has_finished, MOST_EVENTS));
        cr_expect_geq(f.peers[0].saved_step, 5, "%s", f.peers[0].finish_text);
        flock_close(&f);
    }
}

/* Found out of order, and in a step that is longer than all there is time for. */
Test(peer_leave, where_a_majority_stays_nobody_waits_for_longer) {
    for (uint32_t count = 3; count <= 5; count += 2) {
        flock f;
        flock_open(&f, count, count, MANY_STEPS, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 0;
        for (uint32_t i = 0; i < count; i++) {
            f.peers[i].config.save_timeout_ns = 60 * SECOND;
            f.peers[i].seal_ns = SECOND;
        }
        flock_start(&f, 0);
        for (uint32_t i = count; i-- > 1;) {
            flock_start(&f, i);
            flock_run_for(&f, SECOND);
        }
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        for (uint32_t i = 0; i < count; i++) f.peers[i].seal_ns = 1000 * SECOND;
        flock_run_for(&f, 3 * SECOND);
        const uint64_t begun_ns = f.now;
        flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
        cr_assert(flock_run(&f, first_has_finished, MOST_EVENTS));
        cr_expect_leq(f.now, begun_ns + 11 * SECOND);
        cr_expect_eq(flock_said(&f, 0, "computed again"), 0);
        flock_close(&f);
    }
}

/* It asks for another view: nobody holds the state. */
Test(peer_leave, who_has_just_lost_the_state_does_not_stay) {
    flock f;
    open_two(&f, GW_QUORUM_ANY, 2);
    f.message_ns = SECOND / 100;
    f.peers[0].seal_ns = f.peers[1].seal_ns = 4 * SECOND;
    flock_run_for(&f, 2 * SECOND);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    f.peers[1].damaged_state = true;
    while (!f.peers[0].brain->agenda.view_change && f.peers[0].brain->phase != GW_AT_FROZEN)
        cr_assert(!flock_run(&f, NULL, 1));
    cr_expect_not(gw_leave_somebody_stays(f.peers[0].brain));
    cr_expect_gt(gw_leave_until(f.peers[0].brain), f.now + 100 * SECOND);
    flock_close(&f);
}

/* The other one dies while it does: it hears so before its time is up. */
Test(peer_leave, time_in_which_it_stood_still_does_not_count) {
    flock f;
    open_two(&f, GW_QUORUM_ANY, 2);
    f.peers[0].seal_ns = f.peers[1].seal_ns = 100 * SECOND;
    flock_run_for(&f, 3 * SECOND);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    flock_run_for(&f, SECOND / 10);
    flock_stop(&f, 0);
    flock_run_for(&f, SECOND);
    flock_kill(&f, 1);
    flock_run_for(&f, 20 * SECOND);
    flock_continue(&f, 0);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_TIMER});
    expect_left_saved(&f, 300);
    flock_close(&f);
}

/* The time that it stood still does not count as waiting. */
Test(peer_leave, standing_still_ends_no_save) {
    flock f;
    leave_alone(&f, 1, 80, 0);
    f.peers[0].brain->config.save_timeout_ns = 60 * SECOND;
    flock_run_for(&f, 3 * SECOND);
    f.now += 30 * SECOND;
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_TIMER});
    expect_left_saved(&f, 60);
    flock_close(&f);
}

/* ---- disks ---- */

/* There is no earlier checkpoint either, as none are made. */
Test(peer_leave, those_who_all_leave_ask_full_disks_again) {
    flock f;
    open_two(&f, GW_QUORUM_ANY, 2);
    for (uint32_t i = 0; i < 2; i++) {
        f.peers[i].config.save_timeout_ns = 60 * SECOND;
        f.peers[i].disk_full = true;
        flock_tell(&f, i, (gw_event){.kind = GW_EV_LEAVE});
    }
    flock_run_for(&f, 3 * SECOND);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].disk_full = false;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) cr_expect_gt(f.peers[i].saved_step, 5, "%s", f.peers[i].finish_text);
    flock_close(&f);
}

/* ---- what is saved is something else ---- */

static bool both_have_saved_8(const flock *f) {
    return f->peers[0].brain->save.saved_step == 8 && f->peers[1].brain->save.saved_step == 8;
}

static bool first_has_begun_anew(const flock *f) {
    const gw_peer *p = f->peers[0].brain;
    return p->view.current.count == 1 && p->state.present && p->state.step >= 3 &&
           p->phase == GW_AT_COMPUTING;
}

static bool first_has_lost_its_state(const flock *f) {
    return !f->peers[0].brain->state.present;
}

/* The first has begun the job anew, as of what it saved with the other one a part is lost. */
Test(peer_leave, with_float_sums_a_later_checkpoint_of_another_lineage_is_not_what_was_computed) {
    flock f;
    flock_open(&f, 2, 2, MANY_STEPS, GW_QUORUM_MAJORITY);
    f.checkpoint_steps = 8;
    for (uint32_t i = 0; i < 2; i++) {
        f.peers[i].config.fast = true;
        f.peers[i].config.replicas = 1;
        f.peers[i].config.effects = false;
        f.peers[i].config.save_timeout_ns = 60 * SECOND;
        f.peers[i].seal_ns = SECOND;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, both_have_saved_8, MOST_EVENTS));
    f.checkpoint_steps = 0;
    f.peers[0].damaged_state = true;
    cr_assert(flock_run(&f, first_has_lost_its_state, MOST_EVENTS));
    flock_kill(&f, 1);
    f.peers[0].shown_step = 0;
    cr_assert(flock_run(&f, first_has_begun_anew, MOST_EVENTS), "%s", f.peers[0].finish_text);
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    expect_left_saved(&f, 20);
    flock_close(&f);
}

/* ---- the last one of two ---- */

static bool first_has_saved(const flock *f) {
    return f->peers[0].brain->save.saved_step != UINT64_MAX;
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
    const uint64_t step = f.peers[0].brain->state.step;
    expect_left_saved(&f, 120);
    cr_expect_eq(f.peers[0].brain->state.step, step + 1,
                 "what it has computed of that one is worth completing it");
    flock_close(&f);
}
