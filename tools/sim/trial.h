/* Runs in processes of their own, so that a broken invariant of the brain ends that process and not the
 * search; and the search for the smallest set of options that still fails. */
#ifndef GODWIT_TOOLS_SIM_TRIAL_H
#define GODWIT_TOOLS_SIM_TRIAL_H

#include "tools/sim/run.h"

/* Runs it; a process that died, or used too much processor time, counts as failed. */
void gw_sim_try(const gw_sim_options *options, gw_sim_result *result);

/* Removes and weakens options one after another as long as some run still fails (with the same seed or one
 * of the next few), in at most `most` runs; a run without an end is the last one. *options and *result
 * become those of the smallest set. Returns false if the run did not fail. */
bool gw_sim_shrink(gw_sim_options *options, gw_sim_result *result, uint32_t most);

/* Prints the last lines of the run's trace, at most `lines`. */
void gw_sim_print_trace(const gw_sim_options *options, uint32_t lines);

#endif
