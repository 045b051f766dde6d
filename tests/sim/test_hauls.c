/* Virtual time: what counts of it. */
#include "tools/sim/run.h"

#include <criterion/criterion.h>

static const uint64_t second_ns = 1000000000;

/* Ten steps of a second or less, whoever is left to wait for others behind them. */
Test(hauls, time_behind_the_end_of_a_job_does_not_count) {
    for (uint64_t seed = 1; seed <= 50; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        gw_sim_undisturbed(&options);
        options.peers = 1 + (uint32_t)seed % 4;
        options.fault_ms = options.verify_permille = 0;
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        gw_sim_command(&options, command, sizeof command);
        cr_assert(!result.failed, "%s\n  %s", result.why, command);
        cr_assert_gt(result.virtual_ns, 0);
        cr_assert_lt(result.virtual_ns, 30 * second_ns, "%.3f s\n  %s", (double)result.virtual_ns / 1e9,
                     command);
        cr_assert_eq(result.fire_ns, 0);
    }
}

Test(hauls, time_under_fire_is_the_part_in_which_faults_happen) {
    for (uint64_t seed = 1; seed <= 50; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        options.peers = 3;
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert_leq(result.fire_ns, result.virtual_ns);
        cr_assert_leq(result.fire_ns, options.fault_ms * (second_ns / 1000));
        cr_assert(result.fire_ns > second_ns || result.poisoned, "%.3f s", (double)result.fire_ns / 1e9);
    }
}

/* Disks that hang for longer than a checkpoint is waited for: whoever leads then asks for none of its chunks
 * to be stored, and makes the root of what the others tell. */
Test(hauls, disks_hang_for_longer_than_a_checkpoint_takes) {
    gw_sim_result all = {0};
    for (uint64_t seed = 1; seed <= 40; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.hang_ms = 60000;
        options.fault_ms = 150000;
        options.bound_ms = 600000;
        options.peers = options.founders = 2;
        options.steps = 60;
        options.shards = 4;
        options.shard_us = 2000000;
        options.checkpoint_steps = 2;
        options.end_step = options.verify_permille = 0;
        options.fast = options.majority = seed % 2;
        gw_sim_undisturbed(&options);
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    cr_assert_gt(all.faults[GW_SIM_HANGING_DISK], 50);
    cr_assert_gt(all.checkpoints, 500);
}
