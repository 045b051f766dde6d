/* Steps of a job on GPU devices (tests/kernels/rig.h), and their results. */
#ifndef GODWIT_TESTS_GPU_STEPS_H
#define GODWIT_TESTS_GPU_STEPS_H

#include "core/gpu.h"
#include "tests/kernels/rig.h"

extern gw_precision gpu_precision; /* precision of devices that are opened later */

/* Openers for rig_open_on: of GPU 0; of GPU 0 and a processor by turns; of two GPUs as one device, or GPU 0
 * twice where there is no second. */
rig_opener gpu_open, gpu_open_either, gpu_open_two;

void gpu_same_state(const rig *a, const rig *b);

/* The words of the sum of step `step`, the data of all the job's buckets, as the first device computes them
 * alone. */
double *gpu_sum_of(rig *r, uint64_t step, uint64_t *count);

/* ‖a − b‖ / ‖b‖. */
double gpu_distance(const double *a, const double *b, uint64_t count);

#endif
