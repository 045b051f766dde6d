/* A GPU as a compute device. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_DEVICE_H
#define GODWIT_KERNELS_CUDA_DEVICE_DEVICE_H

#include "core/gpu.h"
#include "kernels/device/device.h"

/* Opens GPU gpu->ordinal as a device for a job that has code for GPUs (gw_job_type.gpu). Two lanes keep it
 * busy. Its class names all that its bits depend on. The GPU's memory: state, accumulator, the lanes'
 * scratch; with the first reduction with others a sum (and float copies of both for FAST), and as much again
 * pinned on the host, twice, where the segments are to lie there. Fails with GW_E_UNSUPPORTED when there is
 * no GPU, the build has no CUDA or the job no code for it; with GW_E_NOTFOUND when there is no GPU of that
 * number. *device is NULL on failure. */
bool gw_device_cuda_open(const gw_device_options *options, const gw_gpu *gpu, gw_device **device,
                         gw_err *err);

#endif
