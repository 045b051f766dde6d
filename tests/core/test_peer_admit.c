/* Newcomers in the middle of a step, whose end may be far away. */
#include "flock.h"

#include <criterion/criterion.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

enum { MOST_EVENTS = 400000 };

enum { HALF = FLOCK_SHARDS / 2 };

static bool half_is_done(const flock *f) {
    return flock_in_view_of(f, 0, 2) && f->peers[1].computed == HALF;
}

/* Of `count` peers two begin, and rest in the middle of the first step; the others are not here yet. */
static void open_resting(flock *f, uint32_t count) {
    flock_open(f, count, 2, 20, GW_QUORUM_ANY);
    f->peers[0].rests = true;
    for (uint32_t i = 0; i < 2; i++) flock_start(f, i);
    cr_assert(flock_run(f, half_is_done, MOST_EVENTS));
    f->peers[1].rests = true;
}

static void wake(flock *f) {
    for (uint32_t i = 0; i < 2; i++) flock_wake(f, i);
}

static bool third_is_linked(const flock *f) {
    return f->peers[2].linked[0] && f->peers[2].linked[1];
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
    for (uint32_t i = 0; i < 2; i++)
        if (i != dies) flock_wake(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, dies < 2 ? 2 : 3);
    flock_close(&f);
}

Test(peer_admit, a_newcomer_computes_what_is_left_of_the_step) {
    third_computes_the_step(UINT32_MAX);
}

Test(peer_admit, a_newcomer_computes_what_a_death_left) {
    third_computes_the_step(0);
    third_computes_the_step(1);
}

static bool third_is_in(const flock *f) {
    return flock_in_view_of(f, 2, 3) && f->peers[2].computed > 0;
}

static bool all_are_in(const flock *f) {
    return flock_in_view_of(f, 0, 4) && flock_in_view_of(f, 3, 4);
}

/* Whoever fetches a large state has the others wait: a tenth of the time at most goes to that. */
Test(peer_admit, the_next_waits_ten_times_as_long_as_the_others_waited) {
    flock f;
    open_resting(&f, 4);
    f.peers[2].load_ns = SECOND;
    f.peers[2].rests = f.peers[3].rests = true;
    flock_start(&f, 2);
    while (!flock_in_view_of(&f, 2, 3) || f.peers[2].word == 0) cr_assert(!flock_run(&f, NULL, 1));
    uint64_t admitted = f.now;
    flock_start(&f, 3);
    cr_assert(flock_run(&f, all_are_in, MOST_EVENTS));
    cr_assert_geq(f.now - admitted, 10 * SECOND);
    cr_assert_leq(f.now - admitted, 11 * SECOND, "%g s", (double)(f.now - admitted) * 1e-9);
    for (uint32_t i = 0; i < 4; i++) flock_wake(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 4);
    flock_close(&f);
}

/* But not where the step ends before that. */
Test(peer_admit, the_next_comes_in_at_a_boundary_all_the_same) {
    flock f;
    open_resting(&f, 4);
    f.peers[2].load_ns = SECOND;
    flock_start(&f, 2);
    cr_assert(flock_run(&f, third_is_in, MOST_EVENTS));
    uint64_t admitted = f.now;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = SECOND;
    flock_start(&f, 3);
    wake(&f);
    cr_assert(flock_run(&f, all_are_in, MOST_EVENTS));
    cr_assert_lt(f.now - admitted, 4 * SECOND);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 4);
    flock_close(&f);
}

static bool both_are_in(const flock *f) {
    return flock_in_view_of(f, 0, 4) && f->peers[2].word != 0 && f->peers[3].word != 0;
}

Test(peer_admit, who_comes_at_the_same_time_comes_in_together) {
    flock f;
    open_resting(&f, 4);
    uint64_t before = flock_status(&f, 0).views_installed;
    for (uint32_t i = 2; i < 4; i++) {
        f.peers[i].rests = true;
        flock_start(&f, i);
    }
    cr_assert(flock_run(&f, both_are_in, MOST_EVENTS));
    cr_assert_eq(flock_status(&f, 0).views_installed, before + 1);
    for (uint32_t i = 0; i < 4; i++) flock_wake(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 4);
    flock_close(&f);
}
