/* Steps of a job on devices of a GPU (tests/kernels/rig.h), and what comes of them. */
#ifndef GODWIT_TESTS_GPU_STEPS_H
#define GODWIT_TESTS_GPU_STEPS_H

#include "core/gpu.h"
#include "tests/kernels/rig.h"

extern gw_precision gpu_precision; /* of what is opened from now on */

/* For rig_open_on: GPU 0; a processor and GPU 0 by turns, a GPU first; and two GPUs as one device, which are
 * one and the same where there is no second. */
rig_opener gpu_open, gpu_open_either, gpu_open_two;

void gpu_same_state(const rig *a, const rig *b);

/* The words of the sum of step `step`, the data of all the job's buckets, by the first device alone. */
double *gpu_sum_of(rig *r, uint64_t step, uint64_t *count);

/* ‖a − b‖ / ‖b‖. */
double gpu_distance(const double *a, const double *b, uint64_t count);

#endif
