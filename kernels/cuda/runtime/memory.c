#include "kernels/cuda/runtime/memory.h"

#include "kernels/cuda/runtime/call.h"

static bool no_room(int gpu, size_t bytes, cudaError_t status, gw_err *err) {
    size_t free_bytes = 0, all_bytes = 0;
    (void)cudaGetLastError();
    if (cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess) free_bytes = all_bytes = 0;
    return gw_cuda_try(gpu, status, err, "cudaMalloc of %zu MiB (%zu of %zu MiB are free)", bytes >> 20,
                       free_bytes >> 20, all_bytes >> 20);
}

bool gw_cuda_allocate(int gpu, size_t bytes, void **memory, gw_err *err) {
    *memory = NULL;
    size_t taken = bytes > 0 ? bytes : 1;
    if (!gw_cuda_try(gpu, cudaSetDevice(gpu), err, "cudaSetDevice")) return false;
    cudaError_t status = cudaMalloc(memory, taken);
    if (status != cudaSuccess) return no_room(gpu, bytes, status, err);
    /* It waits only for the default stream: waiting for the whole GPU would end another thread's recording of
     * a graph (kernels/cuda/runtime/graph.h). */
    if (gw_cuda_try(gpu, cudaMemset(*memory, 0, taken), err, "cudaMemset") &&
        gw_cuda_try(gpu, cudaStreamSynchronize(NULL), err, "cudaMemset of %zu bytes", taken))
        return true;
    gw_cuda_free(gpu, *memory);
    *memory = NULL;
    return false;
}

void gw_cuda_free(int gpu, void *memory) {
    if (memory == NULL) return;
    (void)cudaSetDevice(gpu); /* a failure is ignored: a lost GPU takes its memory with it */
    (void)cudaFree(memory);
    (void)cudaGetLastError();
}

/* Fails because host memory is short, where advice about the GPU's memory would not help. */
static bool no_host_room(int gpu, size_t bytes, gw_err *err) {
    (void)cudaGetLastError();
    return gw_fail(
        err, GW_E_NOMEM,
        "GPU %d: cudaHostAlloc of %zu MiB of host memory: %s (%s); this machine's memory, or the limit of "
        "a container or a control group, is exhausted, and not the GPU's memory: end other programs, or "
        "raise the limit",
        gpu, bytes >> 20, cudaGetErrorString(cudaErrorMemoryAllocation),
        cudaGetErrorName(cudaErrorMemoryAllocation));
}

bool gw_cuda_pin(int gpu, size_t bytes, void **memory, gw_err *err) {
    *memory = NULL;
    size_t taken = bytes > 0 ? bytes : 1;
    if (!gw_cuda_try(gpu, cudaSetDevice(gpu), err, "cudaSetDevice")) return false;
    cudaError_t status = cudaHostAlloc(memory, taken, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) return no_host_room(gpu, taken, err);
    return gw_cuda_try(gpu, status, err, "cudaHostAlloc of %zu MiB of host memory", taken >> 20);
}

void gw_cuda_unpin(int gpu, void *memory) {
    if (memory == NULL) return;
    (void)cudaSetDevice(gpu);
    (void)cudaFreeHost(memory);
    (void)cudaGetLastError();
}
