/* Who is dealt how much of a step, by what its workers measured last. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>

enum { MOST_EVENTS = 2000000, USUAL = 1000000, SLOW = 10000 }; /* thousandths of a shard a second */

/* Three peers, a step of which takes 10 ms; the shards of the third took a hundred times what the others'
 * do, in one step. */
static void open_after_a_slow_step(flock *f, uint64_t steps) {
    flock_open(f, 3, 3, steps, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) {
        f->peers[i].speed = USUAL;
        f->peers[i].seal_ns = UINT64_C(10000000);
    }
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    f->peers[2].speed = SLOW;
    const uint64_t step = f->peers[2].step;
    while (f->peers[2].step < step + 3) cr_assert(!flock_run(f, NULL, 1));
}

static uint32_t computed_in(flock *f, uint64_t steps) {
    const uint64_t until = f->peers[2].step + steps;
    const uint32_t before = f->peers[2].computed;
    while (f->peers[2].step < until) cr_assert(!flock_run(f, NULL, 1));
    return f->peers[2].computed - before;
}

/* 16 of its shards, of 100 ms, are 160 steps. */
Test(peer_speed, who_was_slow_in_one_step_is_tried_again) {
    flock f;
    open_after_a_slow_step(&f, 400);
    f.peers[2].speed = USUAL;
    cr_expect_eq(computed_in(&f, 100), 0, "it counts as slow for a while");
    computed_in(&f, 100);
    cr_expect_geq(computed_in(&f, 50), 50, "it takes part again");
    flock_close(&f);
}

Test(peer_speed, who_stays_slow_is_tried_less_and_less_often) {
    flock f;
    open_after_a_slow_step(&f, 3000);
    const uint32_t first = computed_in(&f, 1000), later = computed_in(&f, 1500);
    cr_expect_gt(first, 0);
    cr_expect_leq(first, 4 * FLOCK_SHARDS);
    cr_expect_leq(later, 1 * FLOCK_SHARDS);
    flock_close(&f);
}
