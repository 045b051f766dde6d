/* A GPU as a compute device. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_DEVICE_H
#define GODWIT_KERNELS_CUDA_DEVICE_DEVICE_H

#include "core/gpu.h"
#include "kernels/device/device.h"

/* Opens GPU gpu->ordinal as a device for a job that has code for GPUs (gw_job_type.gpu). Two lanes keep it
 * busy. Its class names everything that its bits depend on. In the GPU's memory it allocates state,
 * accumulator and the lanes' scratch, and with the first reduction with other peers a sum (and for FAST float
 * copies of both); where segments lie in host memory, it pins twice the sum's size there. Fails with
 * GW_E_UNSUPPORTED where there is no GPU, the build has no CUDA or the job no code for GPUs, and with
 * GW_E_NOTFOUND where no GPU has that number. *device is NULL on failure. */
bool gw_device_cuda_open(const gw_device_options *options, const gw_gpu *gpu, gw_device **device,
                         gw_err *err);

#endif
