/* Whole flocks under hundreds of seeds: no fault makes a sum wrong or states differ, and the job ends. Hundreds more:
 * test_seeds_long.c. */
#include "tests/sim/many_seeds.h"

#include <criterion/criterion.h>
#include <inttypes.h>

Test(seeds, quorum_any) {
    gw_sim_result all;
    many_seeds(1, 100, false, false, &all);
    many_seeds_went_wrong(&all);
    many_seeds_end_soon(&all);
    many_seeds_few_end_early(&all, 10, 2);
}

Test(seeds, quorum_majority) {
    gw_sim_result all;
    many_seeds(1001, 1100, true, false, &all);
    many_seeds_went_wrong(&all);
    many_seeds_few_end_early(&all, 10, 2);
}

Test(seeds, reduce_fast) {
    gw_sim_result all;
    many_seeds(2001, 2100, true, true, &all);
    many_seeds_went_wrong(&all);
    many_seeds_few_end_early(&all, 10, 2);
}

/* Fetches from disks seldom fail because of others, because several conditions must coincide. */
static void lose_holders(gw_sim_options *options) {
    options->power_ms = 3000;
    options->crash_ms = 2000;
    options->pause_ms = 1000;
    options->unsynced_permille = 500;
    options->checkpoint_steps = 2;
}

/* Without these options, shards that are computed again and looks at states are too few for one to fail. */
static void look_again(gw_sim_options *options) {
    options->verify_permille = 1000;
    options->wrong_permille = 100;
    options->refuse_permille = 40;
    options->stop_ms = 1500;
}

/* Without these options, states are seldom fetched from a peer whose machine changes their bits. */
static void change_more(gw_sim_options *options) {
    options->change_ms = 500;
}

/* Every kind of fault occurs: none has silently stopped. */
Test(seeds, every_kind_of_fault_happens) {
    gw_sim_result all = {0};
    for (uint64_t seed = 6301; seed <= 6500; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.peers = 2 + (uint32_t)seed % 5;
        options.fault_ms = 6000;
        options.first_step = 0;     /* a short job leaves less time for them, too */
        options.frugal = 0;         /* a deal by energy leaves less to steal, and to give back */
        options.evaluate_every = 0; /* steps that wait for a checkpoint leave less time for faults */
        if (seed % 3 == 0) lose_holders(&options);
        if (seed % 5 == 1) look_again(&options);
        if (seed % 7 == 2) change_more(&options);
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    for (int fault = 0; fault < GW_SIM_FAULTS; fault++)
        cr_expect_gt(all.faults[fault], 0, "no %s", gw_sim_fault_name((gw_sim_fault)fault));
    many_seeds_few_end_early(&all, 20, 4);
}

/* The core is as small as a majority of every view allows that one of its members has installed or
 * promised. */
Test(seeds, what_is_left_of_a_majority_finishes_the_job) {
    gw_sim_result all = {0};
    for (uint64_t seed = 5001; seed <= 5100; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.majority = options.core = 1;
        options.peers = 3 + (uint32_t)seed % 5;
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    cr_assert_gt(all.faults[GW_SIM_GONE], 100);
    many_seeds_few_end_early(&all, 10, 2);
}

/* The best evaluated state is known alike, its checkpoint stays, and a job that loses patience ends at one
 * step, whatever dies. */
Test(seeds, the_best_state_is_agreed_on_and_kept) {
    gw_sim_result all = {0};
    for (uint64_t seed = 8801; seed <= 8860; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.evaluate_every = 1 + (uint32_t)seed % 4;
        options.patience = seed % 2 == 0 ? 3 + (uint32_t)seed % 5 : 0;
        options.peers = 2 + (uint32_t)seed % 5;
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    cr_assert_gt(all.best_kept, 20);
}

/* The excuses of the judges stay few. */
Test(seeds, as_many_checkpoints_are_kept_as_should_be) {
    gw_sim_result all;
    many_seeds(3001, 3100, false, false, &all);
    cr_assert_gt(all.checkpoints, 5000);
    cr_assert_leq(all.lost_with_lives + all.lost_unheard, 5);
    cr_assert_leq(all.spoilt + all.told_lost, 15);
    cr_assert_leq(all.told_late, 300);
    cr_assert_leq(all.untold, 1);
    cr_assert_leq(all.waiting, 30);
    many_seeds_few_end_early(&all, 10, 2);
}

/* The same holds on disks that lose their contents. */
Test(seeds, what_disks_have_lost_excuses_little) {
    gw_sim_result all = {0};
    for (uint64_t seed = 3201; seed <= 3300; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.peers = 2 + (uint32_t)seed % 5;
        options.majority = seed % 2 == 0;
        options.power_ms = 4000;
        options.wipe_permille = 100;
        options.damage_ms = 1500;
        options.unsynced_permille = 300;
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    cr_assert_gt(all.checkpoints, 4000);
    cr_assert_leq(all.spoilt, 120);
    cr_assert_leq(all.told_lost, 50);
    cr_assert_leq(all.told_late, 500);
    cr_assert_leq(all.untold, 1);
    cr_assert_leq(all.waiting, 20);
    many_seeds_few_end_early(&all, 10, 2);
}

/* Short steps and a network that is cut all the time: members end one reduction differently, and part. If
 * a step were shown when it is applied, one in ten of these seeds would reveal it. */
Test(seeds, what_is_shown_of_float_sums_is_shown_alike) {
    gw_sim_result all = {0};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.majority = options.fast = true;
        options.peers = 3;
        options.shards = 4;
        options.shard_us = 500;
        options.steps = 300;
        options.partition_ms = 600;
        options.break_ms = 100;
        options.crash_ms = 0;
        options.fault_ms = 10000;
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    cr_assert_gt(all.faults[GW_SIM_SPLIT_REDUCTION], 50);
    cr_assert_gt(all.steps_shown, 10000);
    many_seeds_few_end_early(&all, 10, 2);
}

/* The options that are drawn fit together, and every option is drawn. */
Test(seeds, bad_machines_are_drawn_where_they_can_be_found) {
    uint32_t wrong = 0, flips = 0, majority_flips = 0, fast_flips = 0, poison = 0, shares = 0, small = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_draw(&options);
        cr_assert(options.verify_permille != 0 || options.wrong_permille + options.flip_ms == 0);
        cr_assert_lt(options.poison_step, options.steps + 1);
        wrong += options.wrong_permille != 0;
        flips += options.flip_ms != 0;
        majority_flips += options.flip_ms != 0 && options.majority;
        fast_flips += options.flip_ms != 0 && options.fast;
        poison += options.poison_step != 0;
        shares += options.verify_permille != 0 && options.verify_permille < 1000;
        small += options.verify_permille != 0 && options.verify_permille <= 100;
    }
    cr_assert(wrong > 25 && wrong < 100, "%u", wrong);
    cr_assert(flips > 20 && flips < 100, "%u", flips);
    cr_assert(majority_flips > 10 && fast_flips > 5, "%u, %u", majority_flips, fast_flips);
    cr_assert(poison > 25 && poison < 100, "%u", poison);
    cr_assert(shares > 25 && shares < 100, "%u", shares);
    cr_assert(small > 10 && small < 50, "%u", small);
}

Test(seeds, bits_flip_in_states_whoever_rules) {
    uint64_t flips[3] = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        options.haul = 0;
        options.majority = seed % 3 > 0;
        options.fast = seed % 3 > 1;
        options.verify_permille = 100;
        options.flip_ms = 1500;
        many_seeds_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "seed %" PRIu64 ": %s", seed, result.why);
        flips[seed % 3] += result.faults[GW_SIM_FLIP];
    }
    for (uint32_t kind = 0; kind < 3; kind++)
        cr_expect_gt(flips[kind], 20, "%u: %" PRIu64, kind, flips[kind]);
}

/* With any quorum rule, and with all other faults, such machines fetch their states again and leave.
 * Another machine hardly ever leaves, because only one among several of them may. */
Test(seeds, machines_that_change_bits_of_what_travels_are_found) {
    gw_sim_result all = {0};
    for (uint64_t seed = 4601; seed <= 4750; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.peers = 2 + (uint32_t)seed % 5;
        options.majority = seed % 3 > 0;
        options.fast = seed % 3 > 1;
        options.change_ms = 3000;
        options.evaluate_every = 0; /* steps that wait for a checkpoint leave less time for faults */
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    cr_assert_gt(all.faults[GW_SIM_CHANGED_SUM], 300);
    cr_assert_gt(all.faults[GW_SIM_CHANGED_STATE], 30);
    cr_assert_gt(all.expelled, 10);
    cr_assert_leq(all.mistaken, 10);
    many_seeds_few_end_early(&all, 20, 4);
}

static gw_sim_options undisturbed(uint64_t seed) {
    gw_sim_options options = gw_sim_unset(seed);
    gw_sim_undisturbed(&options);
    options.majority = options.fast = options.end_step = options.verify_permille = 0;
    options.fault_ms = 0;
    return options;
}

Test(seeds, an_undisturbed_flock_repairs_nothing) {
    gw_sim_options options = undisturbed(1);
    gw_sim_result result;
    options.peers = options.founders = 5;
    gw_sim_draw(&options);
    gw_sim_run(&options, &result);
    cr_assert(!result.failed, "%s", result.why);
    cr_assert_eq(result.repairs, 0);
    cr_assert_eq(result.steps_applied, (uint64_t)options.steps * options.peers);
    cr_assert_eq(result.steps_shown, result.steps_applied);
}

Test(seeds, a_shard_that_kills_whoever_computes_it_is_named_after_three) {
    for (uint64_t seed = 1; seed <= 40; seed++) {
        gw_sim_options options = undisturbed(seed);
        gw_sim_result result;
        options.peers = options.founders = 5;
        options.majority = seed % 2 == 0;
        options.evaluate_every = options.first_step = 0; /* the job reaches the shard */
        options.poison_step = 4;
        options.restart_ms = 2000;
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s", result.why);
        cr_assert_eq(result.poisoned, 1);
        cr_assert_eq(result.faults[GW_SIM_POISON_DEATH], 3);
    }
}

/* In small flocks a peer that dies is soon back, and it may happen that no peer remembers. */
Test(seeds, in_small_flocks_it_is_named_when_they_are_started_again) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        gw_sim_options options = undisturbed(seed);
        gw_sim_result result;
        options.peers = options.founders = 1 + (uint32_t)seed % 3;
        options.majority = seed % 2 == 0;
        options.evaluate_every = options.first_step = 0; /* the job reaches the shard */
        options.poison_step = 4;
        options.restart_ms = 300;
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s", result.why);
        cr_assert_eq(result.poisoned, 1);
        cr_assert_geq(result.faults[GW_SIM_POISON_DEATH], 3);
        cr_assert_leq(result.faults[GW_SIM_POISON_DEATH], 5);
    }
}

/* Kills, steals, late completions and lost answers in every order leave no step that cannot be finished.
 * Twenty thousand such seeds: godwit sim --repairs --seeds 1..20000 */
Test(seeds, repairs_never_get_stuck) {
    gw_sim_result all = {0};
    for (uint64_t seed = 1; seed <= 500; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        gw_sim_repairs(&options);
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    cr_assert_gt(all.repairs, 1500);
    many_seeds_few_end_early(&all, 5, 0);
    cr_assert_gt(all.faults[GW_SIM_LOST_ANSWER], 100);
    cr_assert_gt(all.faults[GW_SIM_LOST_CLAIM], 100);
    cr_assert_gt(all.faults[GW_SIM_SPLIT_REDUCTION], 15);
}

Test(seeds, what_is_given_is_kept) {
    gw_sim_options options = gw_sim_unset(3);
    options.peers = 4;
    options.steps = 17;
    options.crash_ms = 1234;
    options.drop_permille = 0;
    gw_sim_draw(&options);
    cr_assert_eq(options.peers, 4);
    cr_assert_eq(options.steps, 17);
    cr_assert_eq(options.crash_ms, 1234);
    cr_assert_eq(options.drop_permille, 0);
    cr_assert_neq(options.fault_ms, GW_SIM_UNSET);
}

/* One machine that computes wrong now and then, or bits that flip in memory, with all shards computed
 * twice: every state is what it should be. The two faults do not occur together, and only faulty peers
 * die: a shard whose verifier died, or lost its state, is not verified. */
static void corrupt(uint64_t first, uint64_t last, uint32_t peers, bool majority, bool fast, bool wrong,
                    gw_sim_result *all) {
    *all = (gw_sim_result){0};
    for (uint64_t seed = first; seed <= last; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        gw_sim_undisturbed(&options);
        options.peers = options.founders = peers;
        options.shards = 24;
        options.majority = majority;
        options.fast = fast;
        options.lose_permille = 3;
        options.drop_permille = 50;
        options.verify_permille = 1000;
        options.wrong_permille = wrong ? 2 : 0;
        options.flip_ms = wrong ? 0 : 2000;
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(all, &result);
    }
    many_seeds_few_end_early(all, 0, 0);
}

Test(seeds, what_is_computed_wrong_is_found_before_it_is_applied) {
    gw_sim_result all;
    corrupt(4001, 4060, 5, false, false, true, &all);
    cr_assert_gt(all.faults[GW_SIM_WRONG], 100);
    cr_assert_gt(all.disputes, 100);
    cr_assert_gt(all.expelled, 10);
    corrupt(4101, 4160, 2, false, false, true, &all);
    cr_assert_gt(all.disputes, 20);
    corrupt(4201, 4230, 4, true, false, true, &all);
    cr_assert_gt(all.disputes, 20);
    corrupt(4231, 4260, 4, true, true, true, &all);
    cr_assert_gt(all.disputes, 20);
}

Test(seeds, bits_that_flip_in_a_state_spread_to_nobody) {
    gw_sim_result all;
    corrupt(4301, 4360, 5, false, false, false, &all);
    cr_assert_gt(all.faults[GW_SIM_FLIP], 50);
    corrupt(4401, 4430, 2, false, false, false, &all);
    cr_assert_gt(all.faults[GW_SIM_FLIP], 20);
}

/* Bits flip at any time, together with all other faults. */
Test(seeds, bits_that_flip_in_states_harm_no_flock_that_is_in_trouble) {
    gw_sim_result all = {0};
    for (uint64_t seed = 4501; seed <= 4560; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.majority = options.fast = 0;
        options.verify_permille = 1000;
        options.flip_ms = 300;
        many_seeds_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    cr_assert_gt(all.faults[GW_SIM_FLIP], 200);
    cr_assert_gt(all.expelled, 10);
    many_seeds_few_end_early(&all, 6, 10);
}
