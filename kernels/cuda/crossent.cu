/* A block a row. A thread takes the same neighbours in both passes: the first finds the largest logit and the
 * sum of exponentials as it goes (Milakov and Gimelshein, 2018), the second goes backwards, as the end of the
 * row is what a cache still has. */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/factor.cuh"
#include "kernels/cuda/gpt_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/vmath.h"

#include <float.h>

namespace {

enum { THREADS = 1024, SUM_THREADS = 256 };

/* The sum of e^(x - largest) over some x. */
struct partition {
    float largest, sum;
};

__device__ partition joined(partition a, partition b) {
    float largest = fmaxf(a.largest, b.largest);
    return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
}

__device__ partition of_warp(partition p) {
#pragma unroll
    for (int step = GW_WARP / 2; step > 0; step /= 2)
        p = joined(
            p, {__shfl_xor_sync(0xffffffffu, p.largest, step), __shfl_xor_sync(0xffffffffu, p.sum, step)});
    return p;
}

/* Of the block; all threads get it. */
__device__ partition of_block(partition p) {
    __shared__ partition warps[GW_MOST_WARPS];
    p = of_warp(p);
    if (threadIdx.x % GW_WARP == 0) warps[threadIdx.x / GW_WARP] = p;
    __syncthreads();
    unsigned lane = threadIdx.x % GW_WARP;
    return of_warp(lane < blockDim.x / GW_WARP ? warps[lane] : partition{-FLT_MAX, 0.0f});
}

/* Logits i to i + n - 1, i below the vocabulary; what lies beyond it counts for nothing. */
template <int n, typename T>
__device__ void read_logits(const T *row, uint32_t i, uint32_t vocabulary, float (&x)[n]) {
    gw_read(row + i, x);
    if (i + n <= vocabulary) return;
#pragma unroll
    for (int k = 1; k < n; k++)
        if (i + k >= vocabulary) x[k] = -FLT_MAX;
}

template <int n, typename T> __device__ partition of_thread(const T *row, uint32_t vocabulary) {
    partition p = {-FLT_MAX, 0.0f};
    for (uint32_t i = threadIdx.x * n; i < vocabulary; i += blockDim.x * n) {
        float x[n], largest = p.largest, sum = 0.0f;
        read_logits(row, i, vocabulary, x);
#pragma unroll
        for (int k = 0; k < n; k++) largest = fmaxf(largest, x[k]);
#pragma unroll
        for (int k = 0; k < n; k++) sum += __expf(x[k] - largest);
        p = {largest, p.sum * __expf(p.largest - largest) + sum};
    }
    return p;
}

template <int n, typename T>
__device__ void write_gradient(T *row, uint32_t vocabulary, uint32_t stride, uint32_t target, partition p,
                               float scale) {
    float factor = scale / p.sum;
    uint32_t each = blockDim.x * n;
    for (uint32_t round = (stride + each - 1) / each; round-- > 0;) {
        uint32_t i = round * each + threadIdx.x * n;
        float x[n] = {};
        if (i < vocabulary) {
            read_logits(row, i, vocabulary, x);
#pragma unroll
            for (int k = 0; k < n; k++) x[k] = __expf(x[k] - p.largest) * factor;
        }
        if (target - i < n) { /* unsigned: not before i either */
#pragma unroll
            for (int k = 0; k < n; k++)
                if (i + k == target) x[k] -= scale;
        }
        if (i < stride) gw_write(row + i, x);
    }
}

template <int n, typename T>
__global__ void __launch_bounds__(THREADS)
    crossent_kernel(uint32_t vocabulary, uint32_t stride, T *logits, const uint32_t *__restrict__ targets,
                    float scale, double *__restrict__ of_row) {
    T *row = logits + (uint64_t)blockIdx.x * stride;
    uint32_t target = targets[blockIdx.x];
    float at_target = target < vocabulary ? gw_wide(row[target]) : __int_as_float(0x7fc00000);
    partition p = of_block(of_thread<n>(row, vocabulary)); /* where all meet before the first writes */
    if (scale != 0.0f) write_gradient<n>(row, vocabulary, stride, target, p, scale);
    if (threadIdx.x == 0)
        of_row[blockIdx.x] = gw_log((double)p.sum) - ((double)at_target - (double)p.largest);
}

/* One block. */
__global__ void __launch_bounds__(SUM_THREADS)
    sum_kernel(uint64_t rows, const double *__restrict__ of_row, gw_cuda_gpt_loss *loss) {
    __shared__ double sums[SUM_THREADS];
    double sum = gw_block_rows(rows, of_row, sums);
    if (threadIdx.x == 0) *loss = {(int64_t)rows, (float)sum};
}

/* Threads of a row's block: whole warps, no more than have something to do. */
unsigned row_threads(uint32_t stride, uint32_t each) {
    unsigned warps = gw_cuda_blocks(stride, GW_WARP * each);
    return GW_WARP * (warps < (unsigned)GW_MOST_WARPS ? warps : (unsigned)GW_MOST_WARPS);
}

template <typename T>
cudaError_t crossent(uint64_t rows, uint32_t vocabulary, uint32_t stride, void *values,
                     const uint32_t *targets, float scale, double *of_row, cudaStream_t stream) {
    constexpr int n = gw_at_once<T>;
    T *logits = static_cast<T *>(values);
    if (stride % n == 0)
        GW_LAUNCH((crossent_kernel<n, T>), (unsigned)rows, row_threads(stride, n), 0, stream, vocabulary,
                  stride, logits, targets, scale, of_row);
    else
        GW_LAUNCH((crossent_kernel<1, T>), (unsigned)rows, row_threads(stride, 1), 0, stream, vocabulary,
                  stride, logits, targets, scale, of_row);
    return cudaGetLastError();
}

} // namespace

cudaError_t gw_cuda_crossent(uint64_t rows, uint32_t vocabulary, uint32_t stride, gw_cuda_factor logits,
                             const uint32_t *targets, float scale, double *of_row, gw_cuda_gpt_loss *loss,
                             cudaStream_t stream) {
    if (rows == 0 || vocabulary == 0 || stride < vocabulary) return cudaErrorInvalidValue;
    cudaError_t status =
        logits.bf16
            ? crossent<uint16_t>(rows, vocabulary, stride, logits.values, targets, scale, of_row, stream)
            : crossent<float>(rows, vocabulary, stride, logits.values, targets, scale, of_row, stream);
    if (status != cudaSuccess) return status;
    GW_LAUNCH(sum_kernel, 1, SUM_THREADS, 0, stream, rows, of_row, loss);
    return cudaGetLastError();
}
