/* Seeds without end on several cores: each worker is a process, so that a seed that breaks an invariant of
 * the brain costs that worker alone. */
#ifndef GODWIT_TOOLS_SIM_SWARM_H
#define GODWIT_TOOLS_SIM_SWARM_H

#include "tools/sim/run.h"

enum { GW_SIM_FAILURES = 32 };

typedef struct gw_sim_swarm {
    gw_sim_options options; /* what is given; the rest is drawn from each seed */
    bool repairs;           /* by gw_sim_repairs */
    uint64_t first;         /* seed; then every one after it */
    uint32_t jobs;
    uint64_t seconds;
    uint32_t patience_s; /* once asked to stop, it gives workers so long to end their seeds; 0 = 30 */
} gw_sim_swarm;

typedef struct gw_sim_findings {
    gw_sim_result all;
    uint64_t seeds, failed, kept; /* kept: of the failed, the first GW_SIM_FAILURES */
    uint64_t failures[GW_SIM_FAILURES];
    char why[GW_SIM_FAILURES][256];
} gw_sim_findings;

/* Runs until the time is up, or SIGINT, SIGTERM or (unless it is ignored) SIGHUP comes: then the workers end
 * the seeds that they are at, and it is false. Those who do not in time, or when it comes again, are killed,
 * and which seeds these were is told. Says what fails as it fails, with all its options. Thread: the
 * process's only one.
 */
bool gw_sim_swarm_run(const gw_sim_swarm *swarm, gw_sim_findings *findings);

#endif
