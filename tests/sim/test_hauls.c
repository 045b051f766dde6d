/* Virtual time: which part of it counts, and runs of hours. */
#include "tools/sim/run.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const uint64_t second_ns = 1000000000;

/* Ten steps of a second or less; peers that are left waiting afterwards do not count. */
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

/* Disks that hang for longer than peers wait for a checkpoint: the leader then asks them to store no
 * chunk, and computes the root from what the others report. */
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

/* Faults that are minutes apart and last minutes, and checkpoints by time as well. */
Test(hauls, long_hauls_end_as_all_others_do) {
    gw_sim_result all = {0};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.haul = 30;
        options.fault_ms = 900000;
        options = gw_sim_prepare(&options, seed, false);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    cr_assert_eq(all.hauls, 12);
    cr_assert_eq(all.haul_ns, all.virtual_ns);
    cr_assert_eq(all.haul_fire_ns, all.fire_ns);
    cr_assert_gt(all.haul_fire_ns, 3600 * second_ns);
    cr_assert_gt(all.faults[GW_SIM_CRASH], 10);
}

/* Nothing else in a run depends on the clock. */
Test(hauls, checkpoints_are_made_by_time) {
    gw_sim_options options = gw_sim_unset(1);
    gw_sim_result result;
    gw_sim_undisturbed(&options);
    options.peers = options.founders = 2;
    options.steps = 60;
    options.shards = 4;
    options.shard_us = 4000000;
    options.checkpoint_steps = options.end_step = options.verify_permille = options.fault_ms = 0;
    options.checkpoint_ms = 30000;
    options.bound_ms = 1000000;
    gw_sim_draw(&options);
    gw_sim_run(&options, &result);
    cr_assert(!result.failed, "%s", result.why);
    uint64_t due = result.virtual_ns / (30 * second_ns);
    cr_assert(result.checkpoints > due / 3 && result.checkpoints <= 2 * due + 2, "%lu of %lu",
              (unsigned long)result.checkpoints, (unsigned long)due);
}

/* The peer begins again each time, and three lives take more time than the two that others are given. */
Test(hauls, one_that_is_alone_has_time_to_die_of_poison) {
    gw_sim_options options = gw_sim_unset(1);
    gw_sim_result result;
    gw_sim_undisturbed(&options);
    options.peers = options.founders = 1;
    options.haul = 10;
    options.steps = 100;
    options.poison_step = 95;
    options.shards = 4;
    options.shard_us = 4000000;
    options.end_step = options.checkpoint_steps = options.checkpoint_ms = 0;
    options.verify_permille = options.fault_ms = 0;
    gw_sim_draw(&options);
    gw_sim_run(&options, &result);
    cr_assert(!result.failed, "%s", result.why);
    cr_assert_eq(result.faults[GW_SIM_POISON_DEATH], 3);
    cr_assert_eq(result.poisoned, 1);
}

static void assert_same(const gw_sim_options *one, const gw_sim_options *other) {
    char text[2][GW_SIM_COMMAND];
    cr_assert_str_eq(gw_sim_command(one, text[0], sizeof text[0]),
                     gw_sim_command(other, text[1], sizeof text[1]));
}

/* One seed in eight is a long haul; all others are what they would be without long hauls, and options that
 * determine the length of a run exclude them. */
Test(hauls, seeds_are_long_hauls_by_a_lot_of_its_own) {
    gw_sim_options given = gw_sim_unset(0);
    uint64_t hauls = 0, few = 0, fire_ms = 0;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        gw_sim_options drawn = gw_sim_prepare(&given, seed, false), plain = gw_sim_unset(seed);
        gw_sim_draw(&plain);
        if (drawn.haul == 0) {
            assert_same(&drawn, &plain);
            continue;
        }
        hauls++;
        few += drawn.peers >= 2 && drawn.peers <= 6;
        fire_ms += drawn.fault_ms;
        cr_assert_eq(plain.haul, 0);
        cr_assert_eq(plain.checkpoint_ms, 0);
        gw_sim_options brief = given;
        brief.fault_ms = 3000;
        cr_assert_eq(gw_sim_prepare(&brief, seed, false).haul, 0);
        cr_assert_eq(gw_sim_prepare(&given, seed, true).haul, 0);
    }
    cr_assert(hauls > 400 && hauls < 600, "%lu", (unsigned long)hauls);
    cr_assert_gt(few, hauls * 8 / 10);
    cr_assert(fire_ms / hauls > 6000000 && fire_ms / hauls < 12000000, "%lu",
              (unsigned long)(fire_ms / hauls));
}

/* A line of the corpus without the option is a run without a long haul. */
Test(hauls, a_long_haul_is_read_back_and_is_none_where_it_is_not_named) {
    gw_sim_options given = gw_sim_unset(0), back;
    char text[GW_SIM_COMMAND];
    const char *wrong;
    given.haul = 30;
    const gw_sim_options haul = gw_sim_prepare(&given, 5, false);
    cr_assert(gw_sim_command_read(gw_sim_command(&haul, text, sizeof text), &back, &wrong), "%s", wrong);
    assert_same(&back, &haul);
    for (uint64_t seed = 1; seed <= 100; seed++) {
        snprintf(text, sizeof text, "godwit sim --seed %lu --peers 3", (unsigned long)seed);
        cr_assert(gw_sim_command_read(text, &back, &wrong), "%s", wrong);
        gw_sim_draw(&back);
        cr_assert_eq(back.haul, 0);
        cr_assert_eq(back.checkpoint_ms, 0);
    }
}
