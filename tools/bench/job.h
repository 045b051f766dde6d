/* Measurements of a job take the job's own options. */
#ifndef GODWIT_TOOLS_BENCH_JOB_H
#define GODWIT_TOOLS_BENCH_JOB_H

#include "core/godwit.h"
#include "kernels/device/device.h"

enum { GW_BENCH_PARAMS = 64 };

/* What the command line asks for: the job's options and those of `more` (ends with a NULL name; may be NULL),
 * with defaults filled in. `list` has room for GW_BENCH_PARAMS. False: the command line makes no sense, and
 * argp has said so. `doc` describes the measurement. */
bool gw_bench_job_params(int argc, char **argv, const gw_job_type *type, const gw_option *more,
                         const char *doc, gw_param *list, gw_params *params);

/* Whether the sum of that step is right and all of it finite: what is not is no measurement. */
bool gw_bench_sum_is_right(const gw_verdict *verdict, uint64_t step, gw_err *err);

#endif
