/* Events that are rare for brains: sums that are not finite, shards that cannot be computed, seeds that
 * are names, disks that crawl, and an operator that forces a view. */
#include "tools/sim/run.h"

#include <criterion/criterion.h>

/* Runs the seeds, all of which must pass. `set` sets the options of a seed. */
static gw_sim_result run_all(uint64_t first, uint64_t last, void (*set)(gw_sim_options *options)) {
    gw_sim_result all = {0};
    for (uint64_t seed = first; seed <= last; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.peers = 2 + (uint32_t)seed % 5;
        options.haul = options.poison_step = 0;
        set(&options);
        gw_sim_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(&all, &result);
    }
    return all;
}

static void have_a_bad_sum(gw_sim_options *options) {
    options->majority = options->seed % 2 == 0;
    options->fast = options->seed % 4 == 0;
    options->end_step = options->skip = options->core = 0;
    options->bad_step = 5;
}

static void skip_it(gw_sim_options *options) {
    have_a_bad_sum(options);
    options->skip = 1;
}

Test(events, a_sum_that_is_not_finite_ends_the_job_or_is_skipped) {
    gw_sim_result ended = run_all(1, 60, have_a_bad_sum), skipped = run_all(1, 60, skip_it);
    cr_expect_geq(ended.bad, 55); /* now and then a shard is found to be poison first, by chance */
    cr_expect_leq(ended.bad + ended.poisoned, 60);
    cr_expect_eq(skipped.bad, 0);
    cr_expect_leq(skipped.poisoned, 10);
}

static void fail(gw_sim_options *options) {
    options->fail_permille = 10;
}

Test(events, who_cannot_compute_a_shard_ends_and_the_others_go_on) {
    gw_sim_result all = run_all(101, 180, fail);
    cr_expect_gt(all.faults[GW_SIM_FAILED_SHARD], 100);
    cr_expect_gt(all.excused[GW_SIM_GAVE_UP], 100);
    cr_expect_leq(all.poisoned, 20);
}

static void seek_by_name(gw_sim_options *options) {
    options->names_permille = 1000;
}

Test(events, seeds_that_are_names_are_found_late_and_where_they_are_not) {
    gw_sim_result all = run_all(201, 280, seek_by_name);
    cr_expect_gt(all.faults[GW_SIM_LATE_NAME], 500);
    cr_expect_gt(all.faults[GW_SIM_STALE_NAME], 100);
}

/* The disk crawls for longer than any timeout, which takes a long haul. */
static void crawl(gw_sim_options *options) {
    options->peers = 2 + (uint32_t)options->seed % 3;
    options->haul = 10;
    options->fault_ms = 1800000;
    options->restart_ms = 5000;
    options->steps = 200;
    options->shards = 6;
    options->shard_us = 2000000;
    options->crash_ms = 100000;
    options->crawl_ms = 60000;
    options->hang_ms = 0;
    options->bound_ms = 4000000;
}

Test(events, a_disk_that_goes_on_is_waited_for) {
    gw_sim_result all = run_all(301, 320, crawl);
    cr_expect_gt(all.faults[GW_SIM_CRAWLING_DISK], 300);
    cr_expect_gt(all.faults[GW_SIM_CRASH], 100);
}

static void lose_the_majority(gw_sim_options *options) {
    options->majority = options->force = options->core = 1;
    options->fast = options->seed % 3 == 0;
    options->peers = 3 + (uint32_t)options->seed % 5;
}

Test(events, an_operator_may_go_on_with_what_is_left_of_a_majority) {
    gw_sim_result all = run_all(401, 480, lose_the_majority);
    cr_expect_gt(all.forced, 40);
    cr_expect_gt(all.faults[GW_SIM_GONE], 150);
}

/* Each of these options is drawn for some seeds. */
Test(events, each_is_drawn) {
    uint32_t bad = 0, skip = 0, fails = 0, names = 0, crawls = 0, forced = 0, copies = 0, kept = 0, older = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_draw(&options);
        bad += options.bad_step != 0;
        skip += options.skip;
        fails += options.fail_permille != 0;
        names += options.names_permille != 0;
        crawls += options.crawl_ms != 0;
        forced += options.force;
        copies += options.replicas != 0;
        kept += options.keep != 0;
        older += options.older_permille != 0;
    }
    cr_expect(copies > 150 && copies < 600, "%u", copies);
    cr_expect(older > 150 && older < 400, "%u", older);
    cr_expect(kept > 150 && kept < 600, "%u", kept);
    cr_expect(bad > 40 && bad < 160, "%u", bad);
    cr_expect(skip > 25 && skip < bad, "%u", skip);
    cr_expect(fails > 75 && fails < 300, "%u", fails);
    cr_expect(names > 100 && names < 400, "%u", names);
    cr_expect(crawls > 50 && crawls < 200, "%u", crawls);
    cr_expect(forced > 15 && forced < 120, "%u", forced);
}
