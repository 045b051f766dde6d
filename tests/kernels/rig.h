/* Devices without a network: the rig opens a job on some devices, computes steps on threads, and adds the
 * devices' segments in a loop. */
#ifndef GODWIT_TESTS_KERNELS_RIG_H
#define GODWIT_TESTS_KERNELS_RIG_H

#include "kernels/device/device.h"

enum { RIG_MOST_DEVICES = 4, RIG_MOST_WORKERS = 8, RIG_BOUNDARY = 3, RIG_JOB_KEY = 77 };

typedef struct rig {
    const gw_job_type *type;
    void *job;
    gw_plan plan;
    uint32_t devices, workers;
    gw_device *device[RIG_MOST_DEVICES];
    gw_segments received[RIG_MOST_DEVICES]; /* by the last rig_reduce */
    /* fingerprint of the state after the last rig_init or rig_finish */
    gw_state_print made;
} rig;

/* The number of parts of the devices that rig_open opens: they are groups (kernels/device/group/group.h) of
 * so many CPU devices, and with 1 a CPU device. */
extern uint32_t rig_parts;

/* Opens `type` with its defaults and `settings`, "name=value" strings ending with NULL. */
void rig_open(rig *r, const gw_job_type *type, const char *const *settings, uint32_t devices,
              uint32_t workers);
/* Does what rig_open does, on devices that `open` opens one after the other. */
typedef bool rig_opener(const gw_device_options *options, gw_device **device, gw_err *err);
void rig_open_on(rig *r, const gw_job_type *type, const char *const *settings, uint32_t devices,
                 uint32_t workers, rig_opener *open);
void rig_close(rig *r);

/* Runs `work` for all units of a device on its workers; returns the state's fingerprint. */
uint64_t rig_units(rig *r, uint32_t device, gw_unit_work work);
/* Does what rig_units does; returns the fingerprint in its two parts. */
gw_state_print rig_print(rig *r, uint32_t device, gw_unit_work work);
/* Checks what a job states about its apply_only tensors, and what a device does with it: each kind of hash
 * detects a flipped bit in the tensors that it covers and in no others, and the contribution of `step`'s
 * first shard depends only on the tensors that contributions may read. Device 0 must have the state that was
 * made last, and has it afterwards. */
void rig_expect_two_prints(rig *r, uint64_t step);
void rig_init(rig *r); /* S_0 on every device */

/* Contributes shards first, first + stride, ... of the device's step on its workers, in an order that depends
 * on the threads. Every one must end up held. */
void rig_contribute(rig *r, uint32_t device, uint64_t step, uint32_t first, uint32_t stride);

/* Sums the segments of all devices into the receive segments of each. */
void rig_reduce(rig *r, gw_reduce mode);

/* Checks the sums and applies them. The devices must agree; returns the fingerprint of the state. */
uint64_t rig_finish(rig *r);

/* Runs a whole step: begin, contribute, reduce, check, apply. The devices must agree; returns the fingerprint
 * of the state after it. */
uint64_t rig_step(rig *r, uint64_t step, gw_reduce mode);

#endif
