/* The burn-in job: shards that take a given time, a state that changes in each step, and on request slow,
 * crashing or non-finite shards. It is run on a new cluster before other jobs, and in benchmarks. `godwit run
 * synthetic --help` lists its options. */
#ifndef GODWIT_KERNELS_JOBS_SYNTHETIC_SYNTHETIC_H
#define GODWIT_KERNELS_JOBS_SYNTHETIC_SYNTHETIC_H

#include "core/godwit.h"

extern const gw_job_type gw_job_synthetic;

#endif
