/* As many peers as a view holds. (The seeds of a swarm have at most 64, because each larger one takes a
 * hundred times as long.) */
#include "tools/sim/run.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = 256 };

/* The first peer to install the first view is its leader. */
static unsigned first_leader(const char *trace) {
    unsigned leader = PEERS;
    const char *view = strstr(trace, " VIEW ");
    cr_assert_not_null(view);
    while (view > trace && view[-1] != '\n') view--;
    cr_assert_eq(sscanf(view, " %*f peer %u VIEW ", &leader), 1);
    return leader;
}

/* All peers found the job; then its leader and all others except a majority are gone for good at once. */
Test(large, a_full_view_is_founded_and_its_majority_elects_another) {
    gw_sim_options options = gw_sim_unset(5);
    gw_sim_result result;
    char *trace = NULL, gone[40];
    size_t size;
    options.peers = options.founders = PEERS;
    options.majority = options.core = 1;
    options.fast = options.end_step = options.verify_permille = options.checkpoint_steps = 0;
    options.steps = 4;
    options.shards = 300;
    options.shard_us = 200000;
    options.fault_ms = 1500;
    gw_sim_undisturbed(&options);
    gw_sim_draw(&options);
    options.trace = open_memstream(&trace, &size);
    cr_assert_not_null(options.trace);
    gw_sim_run(&options, &result);
    fclose(options.trace);
    cr_assert(!result.failed, "%s", result.why);
    uint64_t left = PEERS - result.faults[GW_SIM_GONE];
    cr_assert(left == PEERS / 2 || left == PEERS / 2 + 1, "%lu", left);
    cr_assert_geq(result.views, PEERS + left);
    cr_assert_geq(result.steps_shown, options.steps * left);
    snprintf(gone, sizeof gone, "peer %u is gone for good\n", first_leader(trace));
    cr_assert_not_null(strstr(trace, gone), "another seed is needed, where the leader is: %s", gone);
    free(trace);
}
