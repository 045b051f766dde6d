/* What a job makes of a step's sum on the host, whatever device has computed it: its scalars, its effects,
 * and what it says of them. A device embeds one and calls it from its ops of the same names
 * (kernels/device/device.h).
 *
 * Threads: as those ops. */
#ifndef GODWIT_KERNELS_DEVICE_OUTCOME_H
#define GODWIT_KERNELS_DEVICE_OUTCOME_H

#include "kernels/device/ledger.h"

typedef struct gw_outcome {
    /* The device's, set once; all outlive this. */
    const gw_job_type *type;
    void *job;
    const gw_tensor *tensors;
    const int64_t *const *sum; /* by tensor, in host memory, of the present step; NULL where not readable */
    const int64_t *measured;   /* gw_sums.measured */
    void *const *state;        /* by tensor, in host memory; NULL where not readable */

    gw_scalars scalars;
    bool ready; /* the scalars are those of the device's step: units may be applied */
} gw_outcome;

/* Nothing runs on the device that `ledger` is of, and the sum of `step` is checked. */
bool gw_outcome_scalars(gw_outcome *outcome, gw_ledger *ledger, uint64_t step, gw_scalars *scalars,
                        gw_err *err);
/* Only of jobs with a commit. */
bool gw_outcome_commit(const gw_outcome *outcome, uint64_t step, gw_err *err);
/* After the scalars of `step`. Both: an empty text where the job has none to give. */
void gw_outcome_report(const gw_outcome *outcome, uint64_t step, char *text, size_t size);
void gw_outcome_summary(const gw_outcome *outcome, uint64_t steps_done, char *text, size_t size);

#endif
