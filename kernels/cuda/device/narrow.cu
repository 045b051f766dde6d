#include "kernels/cuda/device/narrow.h"
#include "kernels/cuda/math/launch.cuh"

namespace {

enum { THREADS = 256, EACH = 16, TILE = THREADS * EACH };

/* The bits of a value that differ from its sign. */
__device__ unsigned long long beyond_sign(int64_t value) {
    return (unsigned long long)(value ^ (value >> 63));
}

/* A thread keeps the bits of all its values, whose highest tells the widest of them. */
__global__ void width_kernel(const int64_t *values, uint64_t count, uint32_t *width) {
    __shared__ unsigned long long of_warp[THREADS / 32];
    uint64_t first = (uint64_t)blockIdx.x * TILE + threadIdx.x;
    unsigned long long bits = 0;
    for (int k = 0; k < EACH; k++) {
        uint64_t i = first + (uint64_t)k * THREADS;
        if (i < count) bits |= beyond_sign(values[i]);
    }
    for (int step = 16; step > 0; step /= 2) bits |= __shfl_down_sync(0xffffffffu, bits, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = bits;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < THREADS / 32; i++) bits |= of_warp[i];
    uint32_t high = (uint32_t)(bits >> 32), low = (uint32_t)bits;
    atomicMax(width, 65u - (uint32_t)(high != 0 ? __clz((int)high) : 32 + __clz((int)low)));
}

__global__ void narrow_kernel(const int64_t *values, uint64_t count, int32_t *narrow) {
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) narrow[i] = (int32_t)values[i];
}

/* Widens elements [first, end), whose wide bytes end before their narrow ones begin. */
__global__ void widen_kernel(int64_t *room, uint64_t count, uint64_t first, uint64_t end) {
    const int32_t *narrow = (const int32_t *)room + count;
    uint64_t i = first + (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < end) room[i] = narrow[i];
}

/* Widens the last elements, at most one for each thread of the only block, in place. */
__global__ void widen_last_kernel(int64_t *room, uint64_t count, uint64_t first) {
    const int32_t *narrow = (const int32_t *)room + count;
    uint64_t i = first + threadIdx.x;
    int64_t value = i < count ? narrow[i] : 0;
    __syncthreads();
    if (i < count) room[i] = value;
}

} // namespace

cudaError_t gw_cuda_measure_width(const int64_t *values, uint64_t count, uint32_t *width,
                                  cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    GW_LAUNCH(width_kernel, gw_cuda_blocks(count, TILE), THREADS, 0, stream, values, count, width);
    return cudaGetLastError();
}

cudaError_t gw_cuda_narrow(const int64_t *values, uint64_t count, int64_t *room, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    GW_LAUNCH(narrow_kernel, gw_cuda_blocks(count, THREADS), THREADS, 0, stream, values, count,
              (int32_t *)room + count);
    return cudaGetLastError();
}

/* Wide element i is written over narrow element 2i - count and the next one, and both come before narrow
 * element i. Thus the first half of the elements that are still narrow can be widened in any order, and the
 * kernels of a stream run one after the other. */
cudaError_t gw_cuda_widen(int64_t *room, uint64_t count, cudaStream_t stream) {
    uint64_t first = 0;
    cudaError_t status = cudaSuccess;
    while (count - first > THREADS && status == cudaSuccess) {
        uint64_t end = first + (count - first) / 2;
        GW_LAUNCH(widen_kernel, gw_cuda_blocks(end - first, THREADS), THREADS, 0, stream, room, count, first,
                  end);
        status = cudaGetLastError();
        first = end;
    }
    if (count == first || status != cudaSuccess) return status;
    GW_LAUNCH(widen_last_kernel, 1, THREADS, 0, stream, room, count, first);
    return cudaGetLastError();
}
