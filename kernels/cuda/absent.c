/* Stands for the rest of this folder in a build without nvcc. */
#include "kernels/cuda/cuda.h"

bool gw_cuda_list(gw_cuda_info list[GW_CUDA_GPUS], uint32_t *count, gw_err *err) {
    (void)list;
    *count = 0;
    return gw_fail(err, GW_E_UNSUPPORTED,
                   "this build has no CUDA: nvcc was not found when it was configured");
}

gw_cuda_versions gw_cuda_versions_found(void) {
    return (gw_cuda_versions){0, 0};
}
