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

/* With --deal energy. Steps may take twice as long, so that the first of two peers can compute all shards. */
static void open_with_costs(flock *f, uint64_t first, uint64_t second) {
    flock_open(f, 2, 2, 400, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 2; i++) {
        f->peers[i].speed = USUAL;
        f->peers[i].config.deal_energy = true;
        f->peers[i].config.deal_slack = 1000;
    }
    f->peers[0].joules = first;
    f->peers[1].joules = second;
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
}

static uint32_t computed_by(flock *f, uint32_t peer, uint64_t steps) {
    const uint64_t until = f->peers[0].step + steps;
    const uint32_t before = f->peers[peer].computed;
    while (f->peers[0].step < until) cr_assert(!flock_run(f, NULL, 1));
    return f->peers[peer].computed - before;
}

Test(peer_speed, the_dear_are_spared_and_steal_nothing_back) {
    flock f;
    open_with_costs(&f, 1000, 2000);
    cr_expect_leq(computed_by(&f, 1, 30), FLOCK_SHARDS * 3 / 2, "it is tried now and then");
    flock_close(&f);
    open_with_costs(&f, 1000, 1010);
    cr_expect_geq(computed_by(&f, 1, 8), 7 * FLOCK_SHARDS / 2,
                  "they cost the same, as well as that is measured");
    flock_close(&f);
    open_with_costs(&f, 0, 0);
    cr_expect_geq(computed_by(&f, 1, 8), 7 * FLOCK_SHARDS / 2, "nobody knows what they cost");
    flock_close(&f);
}

/* A cheap peer that stands still is late before long, and then the dear one computes its shards. It is to take
 * 12 ms, and one eighth more: after 1.5 ms it cannot be done in time. */
Test(peer_speed, the_dear_help_the_cheap_who_are_late) {
    flock f;
    open_with_costs(&f, 1000, 2000);
    const uint32_t before = f.peers[1].computed;
    const uint64_t step = f.peers[1].step + 1;
    f.peers[0].rests = true;
    while (f.peers[1].step < step) cr_assert(!flock_run(&f, NULL, 1));
    const uint64_t begun_ns = f.now;
    while (f.peers[1].computed == before) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect_gt(f.now - begun_ns, UINT64_C(1400000), "it was spared until then");
    cr_expect_lt(f.now - begun_ns, UINT64_C(13500000));
    cr_expect_eq(f.peers[1].computed - before, FLOCK_SHARDS / 2, "half of them, as the speeds are equal");
    flock_wake(&f, 0);
    while (f.peers[1].step == step) cr_assert(!flock_run(&f, NULL, 1));
    flock_close(&f);
}

/* After a while it is tried again what they cost. */
Test(peer_speed, the_spared_are_tried_again) {
    flock f;
    open_with_costs(&f, 1000, 2000);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].seal_ns = UINT64_C(10000000);
    f.peers[1].joules = 500; /* it has become the cheaper one */
    cr_expect_geq(computed_by(&f, 1, 100), 50 * FLOCK_SHARDS);
    flock_close(&f);
}
