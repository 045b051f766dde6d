#include "tests/sim/many_seeds.h"

#include <criterion/criterion.h>

enum { MOST_PEERS = 12 };

void many_seeds_draw(gw_sim_options *options) {
    const gw_sim_options given = *options;
    gw_sim_draw(options);
    if (options->peers <= MOST_PEERS) return;
    *options = given;
    options->peers = MOST_PEERS;
    gw_sim_draw(options);
}

void many_seeds(uint64_t first, uint64_t last, bool majority, bool fast, gw_sim_result *all) {
    *all = (gw_sim_result){0};
    for (uint64_t seed = first; seed <= last; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_result result;
        char command[GW_SIM_COMMAND];
        options.majority = majority;
        options.fast = fast;
        many_seeds_draw(&options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(&options, command, sizeof command));
        gw_sim_result_add(all, &result);
    }
}

void many_seeds_went_wrong(const gw_sim_result *all) {
    cr_assert_gt(all->faults[GW_SIM_CRASH], 50);
    cr_assert_gt(all->faults[GW_SIM_RESTART], 50);
    cr_assert_gt(all->faults[GW_SIM_PARTITION], 25);
    cr_assert_gt(all->faults[GW_SIM_ONE_WAY], 10);
    cr_assert_gt(all->faults[GW_SIM_PAUSE], 10);
    cr_assert_gt(all->faults[GW_SIM_BREAK], 25);
    cr_assert_gt(all->faults[GW_SIM_LOST_ANSWER], 10);
    cr_assert_gt(all->faults[GW_SIM_LOST_CLAIM], 10);
    cr_assert_gt(all->faults[GW_SIM_LOST_DEVICE], 5);
    cr_assert_gt(all->faults[GW_SIM_FAILED_REDUCTION], 10);
    cr_assert_gt(all->faults[GW_SIM_SPLIT_REDUCTION], 2);
    cr_assert_gt(all->repairs, 50);
    cr_assert_gt(all->steals, 500);
}

/* The bound allows for disks that come back late. */
void many_seeds_end_soon(const gw_sim_result *all) {
    cr_assert_gt(all->calmed, 40);
    cr_assert_lt(all->calm_ns / all->calmed, UINT64_C(30000000000));
    cr_assert_gt(all->calm_most_ns, all->calm_ns / all->calmed);
    cr_assert(all->calm_most_share > 0 && all->calm_most_share < 1);
}

void many_seeds_few_end_early(const gw_sim_result *all, uint64_t poisoned, uint64_t unseen) {
    cr_assert_leq(all->poisoned, poisoned);
    cr_assert_leq(all->unseen, unseen);
}
