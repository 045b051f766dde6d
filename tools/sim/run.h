/* One simulated run of a whole flock: options in, verdict out. A run is a pure function of its options. */
#ifndef GODWIT_TOOLS_SIM_RUN_H
#define GODWIT_TOOLS_SIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_SIM_PEERS = 32 };

/* Rates are the mean virtual milliseconds between two faults of a kind; 0 = none of it. */
typedef struct gw_sim_options {
    uint64_t seed;
    uint32_t peers, steps, shards;
    uint32_t founders;    /* the job is founded by at least so many; majority: all */
    bool majority, fast;  /* fast needs majority */
    uint32_t shard_us;    /* mean time of a shard */
    uint32_t poison_step; /* whoever computes the last shard of this step dies of it; 0 = none does */
    uint32_t checkpoint_steps;
    uint32_t end_step; /* the job itself ends after so many steps, before `steps`; 0 = it does not */
    uint32_t crash_ms, restart_ms, pause_ms, partition_ms, break_ms, leave_ms, disk_ms, stop_ms, hang_ms;
    uint32_t drop_permille, duplicate_permille, delay_us;
    uint32_t corrupt_permille; /* a member of a reduction finds a sum with flipped bits */
    uint32_t lose_permille;    /* a claimed shard is given back, as its payload cannot be had */
    uint32_t fault_ms;         /* faults happen this long; then everything is healed */
    uint32_t bound_ms;         /* and the job must be done this much later */
    bool trace;                /* everything that happens, on stderr */
} gw_sim_options;

typedef struct gw_sim_result {
    bool failed;
    uint64_t poisoned; /* ended early: a shard was named poison after three deaths, as it should be */
    char why[512];
    uint64_t virtual_ns, events, healed_ns, done_ns;
    uint64_t views, repairs, steals, steps_applied;
    uint64_t steps_shown; /* (peer, step) that others may see */
    uint64_t forgotten;   /* shown once, then computed again because all who knew had died */
    uint64_t crashes, poison_deaths, restarts, pauses, partitions, one_way, breaks, leaves, disk_faults,
        stops, hangs, corruptions, lost_claims, lost_answers, failed_reductions, split_reductions, resumes;
} gw_sim_result;

/* What a seed stands for: a quiet, a rough or a cruel world, by lot. Fields that are set already (not
 * UINT32_MAX, not 0 for `peers`, `steps` and `shards`) are kept. */
void gw_sim_draw(gw_sim_options *options);
gw_sim_options gw_sim_unset(uint64_t seed);

/* Runs it. The result is complete also when it failed. */
void gw_sim_run(const gw_sim_options *options, gw_sim_result *result);

/* The options as a command line that replays the run: "godwit sim --seed 7 ...". Returns `text`. */
const char *gw_sim_command(const gw_sim_options *options, char *text, size_t size);

/* Adds up the counts. */
void gw_sim_result_add(gw_sim_result *into, const gw_sim_result *one);

/* `godwit sim`: argv[0] is "sim". */
int gw_sim_main(int argc, char **argv);

#endif
