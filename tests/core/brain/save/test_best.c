/* The checkpoint of the best evaluated state: the step after it ends only when it is complete or given up,
 * whatever dies meanwhile; and the end of a job that has lost its patience. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>

enum { MOST_EVENTS = 100000, STEPS = 10, BEST = 4 };
#define SECOND_NS UINT64_C(1000000000)

/* The fourth step makes the best state. */
static const double values[STEPS] = {9, 9, 9, 1, 5, 5, 5, 5, 5, 5};

static void open_flock(flock *f, uint32_t count) {
    flock_open(f, count, count, STEPS, GW_QUORUM_ANY);
    f->values = values;
}

static bool somebody_is_beyond(const flock *f) {
    bool beyond = false;
    for (uint32_t i = 0; i < f->count; i++) beyond |= f->peers[i].brain != NULL && f->peers[i].step > BEST;
    return beyond;
}

static bool all_are_at_it(const flock *f) {
    bool at = true;
    for (uint32_t i = 0; i < f->count; i++) at &= f->peers[i].step == BEST && f->peers[i].saves > 1;
    return at;
}

static void expect_kept(const flock *f, uint32_t i) {
    const gw_best best = flock_status(f, i).best;
    cr_expect(best.any && best.value == 1 && best.step == BEST, "peer %u", i);
    cr_expect_eq(best.kept.step, BEST, "peer %u", i);
}

Test(peer_best, is_saved_before_the_next_step_ends) {
    flock f;
    open_flock(&f, 3);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].save_ns = 5 * SECOND_NS;
    flock_start_all(&f);
    cr_assert(flock_run(&f, somebody_is_beyond, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) expect_kept(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    for (uint32_t i = 0; i < 3; i++) cr_expect_eq(f.peers[i].saves, 3, "peer %u", i); /* steps 1, 4 and 10 */
    flock_close(&f);
}

/* The state is still in memory, and the next view saves it. */
Test(peer_best, is_saved_by_those_that_are_left) {
    for (uint32_t dies = 0; dies < 3; dies++) {
        flock f;
        open_flock(&f, 3);
        for (uint32_t i = 0; i < 3; i++) f.peers[i].save_ns = 5 * SECOND_NS;
        flock_start_all(&f);
        cr_assert(flock_run(&f, all_are_at_it, MOST_EVENTS));
        flock_kill(&f, dies);
        cr_assert(flock_run(&f, somebody_is_beyond, MOST_EVENTS));
        for (uint32_t i = 0; i < 3; i++)
            if (i != dies) expect_kept(&f, i);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 2);
        flock_close(&f);
    }
}

/* The leader goes on, and the member would wait for ever. */
Test(peer_best, a_member_that_missed_its_end_hears_it_again) {
    for (int full = 0; full < 2; full++) {
        flock f;
        open_flock(&f, 3);
        for (uint32_t i = 0; i < 3; i++) f.peers[i].disk_full = full;
        f.breaks = (flock_break){.kind = GW_MSG_COMPLETE, .from = -1, .to = -1, .times = 1};
        flock_start_all(&f);
        cr_assert(flock_run(&f, somebody_is_beyond, MOST_EVENTS), "full %d", full);
        cr_assert_eq(f.breaks.times, 0);
        for (uint32_t i = 0; i < 3; i++) cr_expect_eq(f.peers[i].finished, false);
        flock_close(&f);
    }
}

Test(peer_best, is_given_up_if_no_disk_takes_it) {
    flock f;
    open_flock(&f, 2);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].disk_full = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, somebody_is_beyond, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) {
        cr_expect_eq(flock_said(&f, i,
                                "the best state so far (value:min), of step 4, could not be saved: no other "
                                "one is"),
                     1, "peer %u: %s", i, f.peers[i].said);
        cr_expect_eq(flock_status(&f, i).best.kept.step, 0);
    }
    flock_close(&f);
}

/* A slow disk holds the run up for as long as any checkpoint may take. The next one may take twice as
 * long. */
Test(peer_best, is_given_up_if_it_takes_too_long) {
    flock f;
    open_flock(&f, 2);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].save_ns = 100 * SECOND_NS;
    flock_start_all(&f);
    cr_assert(flock_run(&f, somebody_is_beyond, MOST_EVENTS));
    uint32_t leader = flock_leader(&f);
    cr_expect_eq(flock_said(&f, leader, "the checkpoint of step 1 takes too long (a slow disk?)"), 1);
    for (uint32_t i = 0; i < 2; i++) {
        cr_expect_eq(flock_said(&f, i, "of step 1, could not be saved"), 1, "peer %u", i);
        expect_kept(&f, i);
    }
    flock_close(&f);
}

Test(peer_best, the_job_ends_when_it_has_lost_its_patience) {
    flock f;
    open_flock(&f, 3);
    f.patience = 3;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_expect_eq(flock_finished(&f, GW_FINISH_DONE), 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_eq(f.peers[i].step, BEST + 3, "peer %u", i);
        cr_expect_eq(flock_said(&f, i,
                                "the job ends with step 7: 3 evaluations in a row were no better (value:min) "
                                "than 1 of step 4"),
                     1, "%s", f.peers[i].said);
    }
    flock_close(&f);
}
