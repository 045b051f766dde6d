/* The calls of a job's functions that every device makes alike. A job is foreign code: what it returns is
 * checked here, and an error names the job and the step. */
#ifndef GODWIT_KERNELS_DEVICE_JOB_H
#define GODWIT_KERNELS_DEVICE_JOB_H

#include "kernels/device/ledger.h"

/* Sets *shards to the number of shards that the job gives to the step. Fails with GW_E_INVALID, and sets
 * *shards to 0, where the number is not within 1 and GW_MAX_SHARDS. Any thread. */
bool gw_step_shards(const gw_job_type *type, const void *job, uint64_t step, uint32_t *shards, gw_err *err);

/* What the job concludes from the sum of a step, on the host, whatever device computed the sum: the step's
 * scalars, its effects outside, and a line about it for people. A device embeds one and calls it from its ops
 * of the same names (kernels/device/device.h), on the threads that are stated there.
 *
 * The fields above `scalars` are set once by the device, and everything that they point to outlives the
 * struct. Arrays are indexed by tensor. */
typedef struct gw_sum_verdict {
    const gw_job_type *type;
    void *job;
    const gw_tensor *tensors;
    const int64_t *const
        *sum;                /* the present step's sums in host memory; NULL where the host cannot read one */
    const int64_t *measured; /* as gw_sums.measured */
    void *const *state;      /* the state in host memory; NULL where the host cannot read it */

    gw_scalars scalars; /* of the device's step, if `ready` */
    bool ready;         /* `scalars` has run for the device's step: the step may be applied */
} gw_sum_verdict;

/* Runs the job's `scalars` for `step`, whose sum has passed its check, and copies the result to *scalars. No
 * shard may be running on the device of `ledger`. Fails with the job's error, and with GW_E_INVALID where the
 * job changed the floating-point mode. */
bool gw_sum_verdict_scalars(gw_sum_verdict *verdict, gw_ledger *ledger, uint64_t step, gw_scalars *scalars,
                            gw_err *err);
/* Runs the job's `commit`, which must not be NULL. */
bool gw_sum_verdict_commit(const gw_sum_verdict *verdict, uint64_t step, gw_err *err);
/* Writes the job's line about `step` to text[size]. The scalars of the step must be ready. The text is empty
 * where the job has no `report`. */
void gw_sum_verdict_report(const gw_sum_verdict *verdict, uint64_t step, char *text, size_t size);
/* Writes the job's line about the whole job to text[size]; empty where the job has no `summary`. */
void gw_sum_verdict_summary(const gw_sum_verdict *verdict, uint64_t steps_done, char *text, size_t size);

#endif
