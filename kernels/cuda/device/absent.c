/* Replaces the rest of this folder in a build without nvcc. */
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/runtime/cuda.h"

bool gw_cuda_list(gw_cuda_info list[GW_CUDA_GPUS], uint32_t *count, gw_err *err) {
    (void)list;
    *count = 0;
    return gw_fail(err, GW_E_UNSUPPORTED, "this build has no CUDA: it was configured without nvcc 13");
}

bool gw_cuda_present(void) {
    return false;
}

bool gw_cuda_enough(const gw_cuda_info *gpu, gw_err *err) {
    gw_cuda_info none[GW_CUDA_GPUS];
    uint32_t count;
    (void)gpu;
    return gw_cuda_list(none, &count, err);
}

bool gw_cuda_libraries(gw_err *err) {
    gw_cuda_info none[GW_CUDA_GPUS];
    uint32_t count;
    return gw_cuda_list(none, &count, err);
}

uint32_t gw_cuda_cublaslt_version(void) {
    return 0;
}

gw_cuda_versions gw_cuda_versions_found(void) {
    return (gw_cuda_versions){0, 0};
}

bool gw_device_cuda_open(const gw_device_options *options, const gw_gpu *gpu, gw_device **device,
                         gw_err *err) {
    gw_cuda_info none[GW_CUDA_GPUS];
    uint32_t count;
    (void)options, (void)gpu;
    *device = NULL;
    return gw_cuda_list(none, &count, err);
}
