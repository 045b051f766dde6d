#include "kernels/host/need.h"
#include "kernels/cuda/device/inside.h"
#include "kernels/cuda/runtime/call.h"

#include <stdio.h>

/* On an integrated GPU the amount of free memory means little, since the kernel's caches count as used. */
static bool is_integrated(const gw_cuda_device *d) {
    int integrated = 0;
    return cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, d->gpu.ordinal) == cudaSuccess &&
           integrated != 0;
}

uint64_t gw_cuda_device_free(const gw_cuda_device *d) {
    size_t free_bytes, all_bytes;
    if (is_integrated(d)) return 0;
    return cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess ? free_bytes : 0;
}

uint64_t gw_cuda_device_lane_bytes(const gw_cuda_device *d) {
    const gw_job_gpu *gpu = d->type->gpu;
    return 2 * d->input_bytes + (gpu->lane_bytes != NULL ? gpu->lane_bytes(d->job, d->side) : 0);
}

/* Memory that is taken while a job runs, in amounts not known before: kernels of this program and of
 * cuBLASLt, which are loaded on first use, graphs, and NCCL's buffers, some 20 MiB a channel and connection.
 */
enum { KERNELS_MIB = 128, NCCL_MIB = 384 };

static uint64_t reserve(const gw_device_options *options) {
    return (uint64_t)(options->reduce != 0 ? KERNELS_MIB + NCCL_MIB : KERNELS_MIB) << 20;
}

/* The memory that the job's side has taken is no longer free. */
bool gw_cuda_device_fits(const gw_cuda_device *d, const gw_device_options *options, gw_err *err) {
    size_t free_bytes, all_bytes;
    char of[40], has[100];
    if (is_integrated(d)) return true;
    if (!gw_cuda_try(d->gpu.ordinal, cudaMemGetInfo(&free_bytes, &all_bytes), err, "cudaMemGetInfo"))
        return false;
    const uint64_t kept = reserve(options);
    const gw_need need = {.lane_bytes = gw_cuda_device_lane_bytes(d),
                          .workers = options->workers,
                          .rest_bytes = gw_cuda_state_bytes(&d->layout) + d->layout.words * sizeof(int64_t) +
                                        gw_cuda_sums_need(&d->layout, options->reduce),
                          .most_bytes = free_bytes > kept ? free_bytes - kept : 0,
                          .lighter = options->plan->lighter,
                          .smaller = options->plan->smaller};
    snprintf(of, sizeof of, "GPU %d's memory", d->gpu.ordinal);
    snprintf(has, sizeof has, "free of its %.1f GiB, but for %.1f that libraries take, are",
             (double)all_bytes * 0x1p-30, (double)kept * 0x1p-30);
    return gw_need_check(&need, of, has, err);
}
