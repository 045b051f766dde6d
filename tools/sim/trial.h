/* One run in a process of its own: a broken invariant of the brain ends that process, not the search. A
 * search makes the option set of a failing run as small as it can. */
#ifndef GODWIT_TOOLS_SIM_TRIAL_H
#define GODWIT_TOOLS_SIM_TRIAL_H

#include "tools/sim/run.h"

/* Runs it; a process that died, or took too much of processor time, counts as failed. */
void gw_sim_try(const gw_sim_options *options, gw_sim_result *result);

/* Takes out and weakens options one after another as long as some run still fails (of the same seed or one of
 * the next few), in at most `most` runs; one that has no end is the last. *options and *result are of the
 * smallest found; false if it did not fail. */
bool gw_sim_shrink(gw_sim_options *options, gw_sim_result *result, uint32_t most);

/* Prints the end of the run's trace, at most so many lines. */
void gw_sim_print_trace(const gw_sim_options *options, uint32_t lines);

#endif
