/* One simulated run of a whole flock: options in, verdict out. A run is a pure function of its options. */
#ifndef GODWIT_TOOLS_SIM_RUN_H
#define GODWIT_TOOLS_SIM_RUN_H

#include "tools/sim/setup/options.h"
#include "tools/sim/setup/result.h"

/* Runs it. The result is complete even if the run failed. */
void gw_sim_run(const gw_sim_options *options, gw_sim_result *result);

/* The command `godwit sim`. */
int gw_sim_main(int argc, char **argv);

#endif
