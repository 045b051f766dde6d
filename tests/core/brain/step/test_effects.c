/* The job's effects of committed steps (core/brain/commit.c): that they come of the right state is checked by
 * the flock itself, in every test. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>

enum { MOST_EVENTS = 200000, STEPS = 12 };

static void expect_each_step(const flock *f, uint32_t least) {
    for (int step = 0; step < STEPS; step++)
        cr_expect_geq(f->effects[step], least, "effects of step %d: %u times", step, f->effects[step]);
}

static void run_all(gw_quorum quorum) {
    flock f;
    flock_open(&f, 3, 3, STEPS, quorum);
    f.peers[1].apply_ns = 50000000;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    for (int step = 0; step < STEPS; step++)
        cr_expect_eq(f.effects[step], 3, "effects of step %d: %u times", step, f.effects[step]);
    flock_close(&f);
}

Test(effects, undisturbed_each_peer_has_those_of_every_step_once) {
    run_all(GW_QUORUM_ANY);
    run_all(GW_QUORUM_MAJORITY);
}

static bool anybody_at_step_9(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && f->peers[i].step >= 9) return true;
    return false;
}

/* Whoever held the state of step 9 may have died before its effects took place, and so may its next life
 * before it: those of the step before a checkpoint come again where it is resumed. */
Test(effects, after_a_crash_of_all_they_go_on_with_those_of_the_last_step_in_the_checkpoint) {
    flock f;
    flock_open(&f, 2, 2, STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    for (int i = 0; i < 2; i++) f.peers[i].seal_ns = 50000000; /* steps that checkpoints keep up with */
    flock_start_all(&f);
    cr_assert(flock_run(&f, anybody_at_step_9, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    uint32_t before = f.effects[7], earlier = f.effects[6];
    for (uint32_t i = 0; i < 2; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    cr_expect_eq(f.effects[6], earlier);
    cr_expect_eq(f.effects[7], before + 2);
    expect_each_step(&f, 2);
    flock_close(&f);
}

/* A newcomer gets the state from others; they may die right then. */
Test(effects, a_newcomer_has_those_of_the_step_it_joined_at) {
    flock f;
    flock_open(&f, 3, 2, STEPS, GW_QUORUM_ANY);
    for (int i = 0; i < 3; i++) f.peers[i].seal_ns = 100000000; /* it is there before the end */
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_start(&f, 2);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    int third = 0; /* the first step that three peers had */
    while (f.effects[third] < 3 && third < STEPS) third++;
    cr_expect_gt(third, 3);
    cr_expect_lt(third, STEPS);
    expect_each_step(&f, 2);
    flock_close(&f);
}

static bool two_fetch(const flock *f) {
    return f->peers[2].loads > 0 && f->peers[3].loads > 0;
}

/* Were they to wait until all members have theirs, its state might have changed in memory by then. */
Test(effects, whoever_has_fetched_a_state_has_those_of_its_step_at_once) {
    flock f;
    flock_open(&f, 4, 2, STEPS, GW_QUORUM_ANY);
    for (int i = 0; i < 2; i++) f.peers[i].seal_ns = 100000000;
    f.peers[3].load_ns = UINT64_C(5000000000);
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) f.peers[i].seal_ns = UINT64_C(60000000000); /* both join at this step */
    flock_start(&f, 2);
    flock_start(&f, 3);
    cr_assert(flock_run(&f, two_fetch, MOST_EVENTS));
    flock_run_for(&f, UINT64_C(1000000000));
    cr_assert_eq(f.peers[2].step, f.peers[0].step);
    cr_assert_str_eq(flock_status(&f, 0).phase, "waiting for newcomers");
    cr_expect_eq(f.effects[f.peers[2].step - 1], 3, "%u", f.effects[f.peers[2].step - 1]);
    flock_close(&f);
}

Test(effects, a_peer_that_cannot_have_them_ends_and_the_others_go_on) {
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
    f.peers[1].effects_fail_at = 6;
    f.reason = "no database";
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_expect_eq(f.peers[1].finish, GW_FINISH_FAILED);
    cr_expect_str_eq(f.peers[1].finish_text,
                     "a committed step's effects cannot take place here: no database");
    cr_expect_eq(flock_finished(&f, GW_FINISH_DONE), 2);
    expect_each_step(&f, 2);
    flock_close(&f);
}

/* Its state is found to have changed in memory at whatever moment: also before it hears from a checkpoint
 * that all held the one that it has applied. */
Test(effects, of_a_state_that_has_changed_in_memory_there_are_none) {
    uint32_t found = 0;
    for (uint64_t after = 1; after < 900; after += 3) {
        flock f;
        flock_open(&f, 3, 3, 12, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 2;
        flock_start_all(&f);
        if (!flock_run(&f, NULL, after)) {
            f.peers[1].damaged_state = true;
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
            found += f.peers[1].corruptions;
        }
        flock_close(&f);
    }
    cr_expect_gt(found, 50);
}
