/* What a task of Slurm's makes of the options that it was not given (`godwit run --join slurm`). */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_BY_SLURM_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_BY_SLURM_H

#include "tools/godwit/options/options.h"
#include "tools/godwit/places/slurm.h"

/* Adds the addresses of the job's other tasks to the seeds, and those of the job options->slurm_job. Fills in the
 * listening address, the number of peers, the peer's name, the directory (unless `dir_given`), the cluster (unless
 * `cluster_given`), and what bounds workers and GPUs; writes out the percent signs of --dir and --metrics. A port that
 * was given for --listen is that of each node's first task. Fails with GW_E_USAGE where this is no job of Slurm, where
 * the job has several nodes and there is no key, or where the other job cannot be found and this one was not requeued;
 * options->place_text then says nothing. Thread: main; it may block for seconds to ask Slurm for the other job. */
bool gw_options_by_slurm(gw_run_options *options, const gw_environment *environment, bool dir_given,
                         bool cluster_given, gw_err *err);

#endif
