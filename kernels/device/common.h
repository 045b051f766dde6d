/* What every device does alike: checked calls of a job's functions, and those ops of a device that need
 * only its ledger and the result of its step. A job is foreign code: what it returns is checked here, and an
 * error names the job and the step. */
#ifndef GODWIT_KERNELS_DEVICE_COMMON_H
#define GODWIT_KERNELS_DEVICE_COMMON_H

#include "kernels/device/ledger.h"

/* Sets *shards to the number of shards that the job gives to the step. Fails with GW_E_INVALID, and sets
 * *shards to 0, where the number is not within 1 and GW_MAX_SHARDS. Any thread. */
bool gw_step_shards(const gw_job_type *type, const void *job, uint64_t step, uint32_t *shards, gw_err *err);

/* What the sum of a step gives, on the host, whatever device computed it: the step's scalars, its effects
 * outside, and a line about it for people. A device that runs a job's functions embeds one.
 *
 * The fields above `step` are set once by the device, and everything that they point to outlives the struct.
 * Arrays are indexed by tensor. */
struct gw_step_result {
    const gw_job_type *type;
    void *job;
    const gw_tensor *tensors;
    /* the present step's sums in host memory; NULL where the host cannot read one */
    const int64_t *const *sum;
    const int64_t *measured; /* as gw_sums.measured */
    void *const *state;      /* the state in host memory; NULL where the host cannot read it */

    uint64_t step;      /* the device's step; written by the control thread */
    gw_scalars scalars; /* of `step`, if `ready` */
    bool ready;         /* the job's `scalars` has run for `step`: the step may be applied */
};

/* Moves the device to `step`, whose result is not ready, and empties the ledger if the device owns it. A
 * device calls it from its step_begin. The number of shards is the job's; where the job states none that is
 * possible, the ledger's step has 0, and contribute fails. */
void gw_device_begin(gw_device *device, uint64_t step);
/* Empties the ledger if the device owns it. A device calls it from its zero. */
void gw_device_empty(gw_device *device);
/* Runs the job's `scalars` for the device's step, whose sum has passed its check, and copies the result to
 * *scalars. No shard may be running. Fails with the job's error, and with GW_E_INVALID where the job changed
 * the floating-point mode. A device calls it from its `scalars`. */
bool gw_device_scalars(gw_device *device, gw_scalars *scalars, gw_err *err);

/* Ops of gw_device_ops that are the same for every device; kernels/device/device.h documents them. */
void gw_device_set_key(gw_device *device, uint64_t job_key);
void gw_device_held(gw_device *device, gw_held *held, uint64_t *bits);
void gw_device_bad(gw_device *device, gw_exact_bad *bad);
void gw_device_set_boundary(gw_device *device, const int64_t *words);
bool gw_device_commit(gw_device *device, uint64_t step, gw_err *err);
void gw_device_report(gw_device *device, char *text, size_t size);
bool gw_device_finish(gw_device *device, uint64_t steps_done, gw_err *err);
void gw_device_summary(gw_device *device, uint64_t steps_done, char *text, size_t size);

#define GW_DEVICE_COMMON_OPS                                                                                 \
    .set_key = gw_device_set_key, .held = gw_device_held, .bad = gw_device_bad,                              \
    .set_boundary = gw_device_set_boundary, .commit = gw_device_commit, .report = gw_device_report,          \
    .finish = gw_device_finish, .summary = gw_device_summary

/* The op lane_part of a device that has one part: 0. */
uint32_t gw_device_only_part(gw_device *device, const gw_lane *lane);

#endif
