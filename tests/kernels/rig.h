/* Devices without a network: opens a job on some devices, computes steps on threads, and sums between devices
 * in the plainest way there is. */
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
    gw_state_print made;                    /* of the state, by the last rig_init or rig_finish */
} rig;

/* Devices that rig_open opens are groups (kernels/device/group/group.h) of so many processors; 1: a
 * processor. */
extern uint32_t rig_parts;

/* Opens `type` with its defaults and `settings`, "name=value" strings ending with NULL. */
void rig_open(rig *r, const gw_job_type *type, const char *const *settings, uint32_t devices,
              uint32_t workers);
/* The same on devices that `open` opens, one after the other. */
typedef bool rig_opener(const gw_device_options *options, gw_device **device, gw_err *err);
void rig_open_on(rig *r, const gw_job_type *type, const char *const *settings, uint32_t devices,
                 uint32_t workers, rig_opener *open);
void rig_close(rig *r);

/* Runs `work` for all units of a device on its workers; returns the state's fingerprint. */
uint64_t rig_units(rig *r, uint32_t device, gw_unit_work work);
/* The same in its two parts. */
gw_state_print rig_print(rig *r, uint32_t device, gw_unit_work work);
/* What a job has promised of the tensors that only apply reads, and what a device makes of that: each look at
 * the state finds a bit that flips in what it covers, and none elsewhere; and the contribution of `step`'s
 * first shard depends on what contributions read alone. Device 0 has the state that was made last, and has it
 * in the end. */
void rig_expect_two_prints(rig *r, uint64_t step);
void rig_init(rig *r); /* S_0 on every device */

/* Contributes shards first, first + stride, ... of the device's step on its workers, in an order that depends
 * on the threads. Every one must end up held. */
void rig_contribute(rig *r, uint32_t device, uint64_t step, uint32_t first, uint32_t stride);

/* Sums the segments of all devices into the receive segments of each. */
void rig_reduce(rig *r, gw_reduce mode);

/* After the sums: checked and applied. The devices must agree; returns the fingerprint of the state. */
uint64_t rig_finish(rig *r);

/* A whole step: begin, contribute, reduce, check, apply. The devices must agree; returns the fingerprint of
 * the state after it. */
uint64_t rig_step(rig *r, uint64_t step, gw_reduce mode);

#endif
