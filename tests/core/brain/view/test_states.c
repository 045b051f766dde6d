/* With float sums what was shown cannot be made again: the latest state that is left of it stays until
 * another one has taken its place. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 100000, LONG = 1000 };

/* The first. */
static void await_computing(flock *f) {
    bool computes = false;
    while (!computes) {
        cr_assert(f->now < UINT64_C(1000000000000) && !flock_run(f, NULL, 1));
        computes = strcmp(flock_status(f, 0).phase, "computing") == 0;
    }
}

static bool two_have_saved_8(const flock *f) {
    return f->peers[1].checkpoints >= 2 && f->peers[2].checkpoints >= 2;
}

/* Float sums: the first is cut off with its state, of a step that all have shown. The others go on, save in
 * their view, and all their processes end. As all are back, that checkpoint is what to go on from, but what
 * the others' disks have of it turns out to be damaged, or whoever has a part of it dies before all have
 * loaded it. The first one's state is still what all had come to. */
Test(peer_states, one_outlives_the_load_of_a_later_checkpoint_that_fails) {
    for (int dies = 0; dies < 2; dies++) {
        flock f;
        flock_open(&f, 3, 3, LONG, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 4;
        for (uint32_t i = 0; i < 3; i++) {
            f.peers[i].config.fast = true;
            f.peers[i].config.replicas = 1;
            f.peers[i].seal_ns = UINT64_C(1000000000);
        }
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        flock_run_for(&f, UINT64_C(100000000));
        flock_cut(&f, 0, 1, true);
        flock_cut(&f, 0, 2, true);
        cr_assert(flock_run(&f, two_have_saved_8, MOST_EVENTS));
        cr_assert(flock_status(&f, 0).has_state);
        uint64_t step = flock_status(&f, 0).step, shown = flock_status(&f, 0).committed_step;
        cr_assert_geq(step, 5);
        flock_kill(&f, 1);
        flock_kill(&f, 2);
        for (uint32_t i = 0; i < 3; i++) {
            f.peers[i].damaged = !dies;
            f.peers[i].manifests_unloadable = dies;
            f.peers[i].load_ns = dies ? UINT64_C(5000000000) : 0;
        }
        flock_mend(&f, 0, 1);
        flock_mend(&f, 0, 2);
        flock_start(&f, 1);
        flock_start(&f, 2);
        uint32_t before = f.peers[0].loads;
        while (f.peers[0].loads == before) cr_assert(!flock_run(&f, NULL, 1));
        if (dies) {
            flock_kill(&f, gw_set_count(&f.peers[1].saved_chunks) > 0 ? 1 : 2);
        }
        await_computing(&f);
        cr_assert_gt(shown, 0);
        cr_expect_geq(flock_status(&f, 0).step, step, "steps that were shown are made again");
        flock_close(&f);
    }
}

/* The reduction of the sixth step fails for all but the last, which has applied the sum as the others ask for
 * another view, and dies while they fetch its state. */
static void lose_the_donor(flock *f) {
    for (uint32_t i = 0; i < 3; i++) {
        f->peers[i].seal_ns = UINT64_C(1000000000);
        f->peers[i].load_ns = UINT64_C(5000000000);
    }
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    flock_run_for(f, UINT64_C(100000000));
    f->sum_for = 3;
    for (uint32_t i = 0; i < 3; i++) f->peers[i].loads = 0;
    f->peers[0].loads_to_fail = f->peers[1].loads_to_fail = 1; /* as the donor dies meanwhile */
    while (f->peers[0].loads == 0 || f->peers[1].loads == 0) cr_assert(!flock_run(f, NULL, 1));
    cr_assert_eq(f->peers[2].step, 6);
    flock_kill(f, 2);
}

/* Those who are left still hold the state before, which all had shown. */
Test(peer_states, one_outlives_the_donor_of_the_next) {
    for (int fast = 0; fast < 2; fast++) {
        flock f;
        flock_open(&f, 3, 3, LONG, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 100; /* the first is far away */
        for (uint32_t i = 0; i < 3; i++) f.peers[i].config.fast = fast;
        lose_the_donor(&f);
        await_computing(&f);
        cr_expect_geq(flock_status(&f, 0).step, 5, "fast %d: both held step 5, and go on from %lu", fast,
                      flock_status(&f, 0).step);
        flock_close(&f);
    }
}

/* The same of the job's last step: who has not got that state has not come to the job's end. */
Test(peer_states, who_cannot_fetch_the_last_state_makes_it_anew) {
    enum { STEPS = 6 };
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
    lose_the_donor(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(f.peers[i].finish, GW_FINISH_DONE);
        cr_assert_eq(f.peers[i].state, flock_state_after(STEPS), "it has ended at step %lu", f.peers[i].step);
    }
    flock_close(&f);
}

static bool two_at_step_8(const flock *f) {
    return flock_status(f, 1).step >= 8 && flock_status(f, 2).step >= 8;
}

/* Float sums: the first is cut off with its state, the others go on without it, and their processes end as it
 * comes back and hears of that. Its state is the latest that is left of what was shown. */
Test(peer_states, one_outlives_those_who_went_on_without_it) {
    for (int hears = 0; hears < 2; hears++) {
        flock f;
        flock_open(&f, 3, 3, LONG, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 100; /* the first is far away */
        for (uint32_t i = 0; i < 3; i++) {
            f.peers[i].config.fast = true;
            f.peers[i].seal_ns = UINT64_C(1000000000);
        }
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        flock_run_for(&f, UINT64_C(100000000));
        flock_cut(&f, 0, 1, true);
        flock_cut(&f, 0, 2, true);
        cr_assert(flock_run(&f, two_at_step_8, MOST_EVENTS));
        cr_assert(flock_status(&f, 0).has_state && flock_status(&f, 0).step == 5);
        if (!hears) {
            flock_kill(&f, 1);
            flock_kill(&f, 2);
        }
        flock_mend(&f, 0, 1);
        flock_mend(&f, 0, 2);
        if (hears) {
            while (flock_status(&f, 0).view != NULL) cr_assert(!flock_run(&f, NULL, 1));
            flock_kill(&f, 1);
            flock_kill(&f, 2);
        }
        flock_start(&f, 1);
        flock_start(&f, 2);
        await_computing(&f);
        cr_expect_geq(flock_status(&f, 0).step, 5, "hears %d: goes on from %lu", hears,
                      flock_status(&f, 0).step);
        flock_close(&f);
    }
}
