/* --deal energy in flocks in which nothing goes wrong. */
#include "tools/sim/run.h"

#include <criterion/criterion.h>

enum { SEEDS = 8 };

typedef struct course {
    double joules, seconds;
} course;

/* All seeds with this dealing, together. */
static course run_all(uint32_t peers, uint32_t shards, uint32_t frugal) {
    course all = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result = {.failed = false};
        options.peers = options.founders = peers;
        options.shards = shards;
        options.frugal = frugal;
        options.steps = 100;
        options.shard_us = 5000;
        options.majority = options.fast = options.checkpoint_steps = options.end_step = 0;
        gw_sim_undisturbed(&options);
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert_not(result.failed, "%s", result.why);
        all.joules += (double)result.microjoules * 1e-6;
        all.seconds += (double)result.done_ns * 1e-9;
    }
    return all;
}

/* A shard of the simulator takes half to one and a half times the mean, so that no member knows well what it can
 * do; and yet some of the waiting is used. */
Test(frugal, energy_is_saved_and_little_time_is_lost) {
    static const struct { uint32_t peers, shards; } cases[] = {{4, 12}, {5, 12}, {8, 20}, {3, 40}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t peers = cases[i].peers, shards = cases[i].shards;
        course speed = run_all(peers, shards, 0), energy = run_all(peers, shards, 1),
               slack = run_all(peers, shards, 101); /* steps may take 10 % longer */
        cr_expect_lt(energy.joules, 0.995 * speed.joules, "%u peers: %g J, %g J", peers, speed.joules,
                     energy.joules);
        cr_expect_lt(energy.seconds, 1.04 * speed.seconds, "%u peers: %g s, %g s", peers, speed.seconds,
                     energy.seconds);
        cr_expect_lt(slack.joules, 0.97 * speed.joules, "%u peers: %g J, %g J", peers, speed.joules,
                     slack.joules);
        cr_expect_lt(slack.seconds, 1.1 * speed.seconds, "%u peers: %g s, %g s", peers, speed.seconds,
                     slack.seconds);
    }
}
