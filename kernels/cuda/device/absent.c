/* Replaces the rest of this folder in a build without nvcc. */
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/int32.h"
#include "kernels/cuda/runtime/cuda.h"

static bool no_cuda(gw_err *err) {
    return gw_fail(err, GW_E_UNSUPPORTED, "this build has no CUDA: it was configured without nvcc 13");
}

bool gw_cuda_list(gw_cuda_info list[GW_CUDA_GPUS], uint32_t *count, gw_err *err) {
    (void)list;
    *count = 0;
    return no_cuda(err);
}

bool gw_cuda_present(void) {
    return false;
}

bool gw_cuda_enough(const gw_cuda_info *gpu, gw_err *err) {
    (void)gpu;
    return no_cuda(err);
}

bool gw_cuda_libraries(gw_err *err) {
    return no_cuda(err);
}

uint32_t gw_cuda_cublaslt_version(void) {
    return 0;
}

gw_cuda_versions gw_cuda_versions_found(void) {
    return (gw_cuda_versions){0, 0};
}

bool gw_device_cuda_open(const gw_device_options *options, const gw_gpu *gpu, gw_device **device,
                         gw_err *err) {
    (void)options, (void)gpu;
    *device = NULL;
    return no_cuda(err);
}

/* Sums between GPUs. */

bool gw_int32_open(int gpu, uint32_t count, uint32_t **on_gpu, uint32_t **seen, gw_err *err) {
    (void)gpu, (void)count;
    *on_gpu = *seen = NULL;
    return no_cuda(err);
}

void gw_int32_close(int gpu, uint32_t *on_gpu, uint32_t *seen) {
    (void)gpu, (void)on_gpu, (void)seen;
}

bool gw_int32_clear(uint32_t *on_gpu, uint32_t count, void *stream, gw_err *err) {
    (void)on_gpu, (void)count, (void)stream;
    return no_cuda(err);
}

bool gw_int32_measure(const int64_t *in, uint64_t count, uint32_t *word, void *stream, gw_err *err) {
    (void)in, (void)count, (void)word, (void)stream;
    return no_cuda(err);
}

bool gw_int32_tell(const uint32_t *on_gpu, uint32_t *seen, uint32_t count, void *stream, gw_err *err) {
    (void)on_gpu, (void)seen, (void)count, (void)stream;
    return no_cuda(err);
}

bool gw_int32_narrow(const int64_t *in, uint64_t count, int64_t *out, void *stream, gw_err *err) {
    (void)in, (void)count, (void)out, (void)stream;
    return no_cuda(err);
}

bool gw_int32_widen(int64_t *out, uint64_t count, void *stream, gw_err *err) {
    (void)out, (void)count, (void)stream;
    return no_cuda(err);
}
