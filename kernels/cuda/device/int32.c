#include "kernels/cuda/device/int32.h"

#include "kernels/cuda/device/narrow.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"

enum { CURRENT = -1 }; /* messages name no GPU: it is the current one */

bool gw_int32_open(int gpu, uint32_t count, uint32_t **on_gpu, uint32_t **seen, gw_err *err) {
    void *words, *copies;
    *on_gpu = *seen = NULL;
    if (!gw_cuda_allocate(gpu, count * sizeof **on_gpu, &words, err)) return false;
    if (!gw_cuda_pin(gpu, count * sizeof **seen, &copies, err)) {
        gw_cuda_free(gpu, words);
        return false;
    }
    *on_gpu = words;
    *seen = copies;
    return true;
}

void gw_int32_close(int gpu, uint32_t *on_gpu, uint32_t *seen) {
    gw_cuda_unpin(gpu, seen);
    gw_cuda_free(gpu, on_gpu);
}

bool gw_int32_clear(uint32_t *on_gpu, uint32_t count, void *stream, gw_err *err) {
    cudaError_t status = cudaMemsetAsync(on_gpu, 0, count * sizeof *on_gpu, stream);
    return gw_cuda_try(CURRENT, status, err, "clearing the widths of a sum");
}

bool gw_int32_measure(const int64_t *in, uint64_t count, uint32_t *word, void *stream, gw_err *err) {
    return gw_cuda_try(CURRENT, gw_cuda_measure_width(in, count, word, stream), err,
                       "measuring the width of a sum");
}

bool gw_int32_tell(const uint32_t *on_gpu, uint32_t *seen, uint32_t count, void *stream, gw_err *err) {
    cudaError_t status = cudaMemcpyAsync(seen, on_gpu, count * sizeof *seen, cudaMemcpyDeviceToHost, stream);
    return gw_cuda_try(CURRENT, status, err, "copying the widths of a sum");
}

bool gw_int32_narrow(const int64_t *in, uint64_t count, int64_t *out, void *stream, gw_err *err) {
    return gw_cuda_try(CURRENT, gw_cuda_narrow(in, count, out, stream), err, "narrowing a sum");
}

bool gw_int32_widen(int64_t *out, uint64_t count, void *stream, gw_err *err) {
    return gw_cuda_try(CURRENT, gw_cuda_widen(out, count, stream), err, "widening a sum");
}
