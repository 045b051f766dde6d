/* What a job says of a step, looked at: a job is somebody else's code, and what it gets wrong is an error
 * that names it. */
#ifndef GODWIT_KERNELS_DEVICE_STEP_H
#define GODWIT_KERNELS_DEVICE_STEP_H

#include "core/godwit.h"

/* How many shards the step has. GW_E_INVALID where the job says none, or more than GW_MAX_SHARDS: *shards is
 * 0 then. Any thread. */
bool gw_step_shards(const gw_job_type *type, const void *job, uint64_t step, uint32_t *shards, gw_err *err);

#endif
