#include "kernels/cuda/math/weights.h"

#include "core/rng.h"
#include "kernels/cuda/math/launch.cuh"
#include "kernels/math/normal.h"
#include "kernels/math/uniform.h"

namespace {

enum { THREADS = 256 };

/* A thread computes one block of four numbers. */
__global__ void __launch_bounds__(THREADS) normal_kernel(uint64_t key, uint64_t group, double deviation,
                                                         uint64_t count, float *__restrict__ values) {
    uint64_t block = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (4 * block >= count) return;
    gw_normals normals = gw_normals_at(key, group, block, deviation);
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (4 * block + k < count) values[4 * block + k] = normals.value[k];
}

__global__ void __launch_bounds__(THREADS) fill_kernel(uint64_t count, float value, float *values) {
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) values[i] = value;
}

__global__ void __launch_bounds__(THREADS)
    uniform_kernel(uint64_t key, uint64_t group, double bound, uint64_t count, float *__restrict__ values) {
    uint64_t block = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (4 * block >= count) return;
    gw_philox bits = gw_philox_at(key, group, block);
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (4 * block + k < count) values[4 * block + k] = gw_uniform_weight(bits.words[k], bound);
}

__global__ void set_double_kernel(double *to, double value) {
    *to = value;
}

} // namespace

cudaError_t gw_cuda_normal(uint64_t key, uint64_t group, double deviation, uint64_t count, float *values,
                           cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    GW_LAUNCH(normal_kernel, gw_cuda_blocks(count, 4 * THREADS), THREADS, 0, stream, key, group, deviation,
              count, values);
    return cudaGetLastError();
}

cudaError_t gw_cuda_fill(uint64_t count, float value, float *values, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    GW_LAUNCH(fill_kernel, gw_cuda_blocks(count, THREADS), THREADS, 0, stream, count, value, values);
    return cudaGetLastError();
}

cudaError_t gw_cuda_uniform(uint64_t key, uint64_t group, double bound, uint64_t count, float *values,
                            cudaStream_t stream) {
    GW_LAUNCH(uniform_kernel, gw_cuda_blocks(count, 4 * THREADS), THREADS, 0, stream, key, group, bound,
              count, values);
    return cudaGetLastError();
}

cudaError_t gw_cuda_set_double(double *to, double value, cudaStream_t stream) {
    GW_LAUNCH(set_double_kernel, 1, 1, 0, stream, to, value);
    return cudaGetLastError();
}
