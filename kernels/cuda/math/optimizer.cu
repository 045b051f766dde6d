/* A thread takes neighbouring elements in pairs, and reads several pairs before it uses the first. */
#include "kernels/cuda/math/launch.cuh"
#include "kernels/cuda/math/optimizer.h"
#include "kernels/math/optimizer_element.h"

namespace {

enum { THREADS = 256, PAIRS = 2, TILE = THREADS * PAIRS * 2 };

/* The first element of this thread's pair k. */
__device__ uint64_t pair_at(int k) {
    return (uint64_t)blockIdx.x * TILE + 2 * ((uint64_t)k * THREADS + threadIdx.x);
}

__device__ float2 load(const float *values, uint64_t i) {
    return __ldcs(reinterpret_cast<const float2 *>(values + i));
}

__device__ void store(float *values, uint64_t i, float2 pair) {
    __stcs(reinterpret_cast<float2 *>(values + i), pair);
}

__global__ void __launch_bounds__(THREADS)
    sgd_kernel(gw_sgd sgd, uint64_t count, const int64_t *__restrict__ sum, float *__restrict__ parameters,
               float *__restrict__ velocity) {
    longlong2 q[PAIRS];
    float2 p[PAIRS], v[PAIRS];
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        uint64_t i = pair_at(k);
        if (i + 1 >= count) continue;
        q[k] = __ldcs(reinterpret_cast<const longlong2 *>(sum + i));
        p[k] = load(parameters, i);
        v[k] = load(velocity, i);
    }
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        uint64_t i = pair_at(k);
        if (i + 1 < count) {
            gw_sgd_element(sgd, q[k].x, &p[k].x, &v[k].x);
            gw_sgd_element(sgd, q[k].y, &p[k].y, &v[k].y);
            store(parameters, i, p[k]);
            store(velocity, i, v[k]);
        } else if (i < count) {
            gw_sgd_element(sgd, sum[i], &parameters[i], &velocity[i]);
        }
    }
}

__global__ void __launch_bounds__(THREADS)
    adamw_kernel(gw_adamw adamw, uint64_t count, const int64_t *__restrict__ sum,
                 float *__restrict__ parameters, float *__restrict__ first, float *__restrict__ second) {
    longlong2 q[PAIRS];
    float2 p[PAIRS], m[PAIRS], v[PAIRS];
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        uint64_t i = pair_at(k);
        if (i + 1 >= count) continue;
        q[k] = __ldcs(reinterpret_cast<const longlong2 *>(sum + i));
        p[k] = load(parameters, i);
        m[k] = load(first, i);
        v[k] = load(second, i);
    }
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        uint64_t i = pair_at(k);
        if (i + 1 < count) {
            gw_adamw_element(adamw, q[k].x, &p[k].x, &m[k].x, &v[k].x);
            gw_adamw_element(adamw, q[k].y, &p[k].y, &m[k].y, &v[k].y);
            store(parameters, i, p[k]);
            store(first, i, m[k]);
            store(second, i, v[k]);
        } else if (i < count) {
            gw_adamw_element(adamw, sum[i], &parameters[i], &first[i], &second[i]);
        }
    }
}

} // namespace

cudaError_t gw_cuda_sgd(const gw_sgd *sgd, uint64_t count, const int64_t *sum, float *parameters,
                        float *velocity, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    GW_LAUNCH(sgd_kernel, gw_cuda_blocks(count, TILE), THREADS, 0, stream, *sgd, count, sum, parameters,
              velocity);
    return cudaGetLastError();
}

cudaError_t gw_cuda_adamw(const gw_adamw *adamw, uint64_t count, const int64_t *sum, float *parameters,
                          float *first, float *second, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    GW_LAUNCH(adamw_kernel, gw_cuda_blocks(count, TILE), THREADS, 0, stream, *adamw, count, sum, parameters,
              first, second);
    return cudaGetLastError();
}
