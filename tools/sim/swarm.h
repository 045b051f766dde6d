/* Runs seeds without end on several cores. Each worker is a process, so that a seed that breaks an
 * invariant of the brain ends only that worker. */
#ifndef GODWIT_TOOLS_SIM_SWARM_H
#define GODWIT_TOOLS_SIM_SWARM_H

#include "tools/sim/run.h"

enum { GW_SIM_FAILURES = 32 };

typedef struct gw_sim_swarm {
    gw_sim_options options; /* the options that are given; the others are drawn from each seed */
    bool repairs;           /* the schedules are those of gw_sim_repairs */
    uint64_t first;         /* the first seed; all later ones follow */
    uint32_t jobs;
    uint64_t seconds;
    uint32_t patience_s; /* how long workers may take to end their seeds after a request to stop; 0 = 30 */
} gw_sim_swarm;

typedef struct gw_sim_findings {
    gw_sim_result all;
    uint64_t seeds, failed, kept; /* kept: how many of the failures are listed, the first GW_SIM_FAILURES */
    uint64_t failures[GW_SIM_FAILURES];
    char why[GW_SIM_FAILURES][256];
} gw_sim_findings;

/* Runs until the time is up (true), or until SIGINT, SIGTERM or SIGHUP (unless it is ignored) comes
 * (false): then the workers end their current seeds. Workers that do not end in time, or when a second
 * signal comes, are killed, and their seeds are reported. Failures are printed as they happen, with all
 * options. The process must have no other thread. */
bool gw_sim_swarm_run(const gw_sim_swarm *swarm, gw_sim_findings *findings);

#endif
