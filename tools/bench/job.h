/* Helpers for measurements of a job, which take the job's own options. */
#ifndef GODWIT_TOOLS_BENCH_JOB_H
#define GODWIT_TOOLS_BENCH_JOB_H

#include "core/godwit.h"
#include "kernels/device/device.h"

enum { GW_BENCH_PARAMS = 64 };

/* Parses the command line: the job's options and those of `more` (which ends with a NULL name and may be
 * NULL), with defaults filled in. `list` has room for GW_BENCH_PARAMS; `doc` describes the measurement.
 * Returns false after argp has reported an error. */
bool gw_bench_job_params(int argc, char **argv, const gw_job_type *type, const gw_option *more,
                         const char *doc, gw_param *list, gw_params *params);

/* Checks that the sum of the step is right and finite; otherwise its time means nothing. */
bool gw_bench_sum_is_right(const gw_verdict *verdict, uint64_t step, gw_err *err);

#endif
