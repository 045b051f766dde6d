#include "kernels/cuda/math/crossent.h"

/* Each row has a block. A thread takes the same elements in both passes. The first pass finds the largest
 * logit and the sum of exponentials together (Milakov and Gimelshein, "Online normalizer calculation for
 * softmax", 2018). Where a multiprocessor's shared memory has room for two rows, so that one block reads
 * while another writes, the first pass keeps the row there for the second. Otherwise the second pass goes
 * backwards, since caches still hold the end of the row. Both ways give the same bits. */
#include "kernels/cuda/math/block.cuh"
#include "kernels/cuda/math/factor.cuh"
#include "kernels/cuda/math/launch.cuh"
#include "kernels/math/vmath.h"

#include <float.h>

namespace {

enum { THREADS = 512, BATCH = 4, SUM_THREADS = 256 };
enum {
    STATIC = 1 << 10,
    RESERVED = 1 << 10
}; /* bytes of a block's shared memory that the kernel's static arrays and CUDA take */

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

/* Joins the partitions of a block's threads; all threads get the result. */
__device__ partition of_block(partition p) {
    __shared__ partition warps[GW_MOST_WARPS];
    p = of_warp(p);
    if (threadIdx.x % GW_WARP == 0) warps[threadIdx.x / GW_WARP] = p;
    __syncthreads();
    unsigned lane = threadIdx.x % GW_WARP;
    return of_warp(lane < blockDim.x / GW_WARP ? warps[lane] : partition{-FLT_MAX, 0.0f});
}

/* Converts logits i to i + n - 1, where i is below the vocabulary. Logits beyond it become -FLT_MAX, so that
 * they add nothing. */
template <int n, typename T>
__device__ void widen_logits(const gw_neighbours<T, n> &logits, uint32_t i, uint32_t vocabulary,
                             float (&x)[n]) {
    gw_widen(logits, x);
    if (i + n <= vocabulary) return;
#pragma unroll
    for (int k = 1; k < n; k++)
        if (i + k >= vocabulary) x[k] = -FLT_MAX;
}

template <int n> __device__ partition with_logits(partition p, const float (&x)[n]) {
    float largest = p.largest, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < n; k++) largest = fmaxf(largest, x[k]);
#pragma unroll
    for (int k = 0; k < n; k++) sum += __expf(x[k] - largest);
    return {largest, p.sum * __expf(p.largest - largest) + sum};
}

/* The partition of a thread's logits. A batch is read before its first logit is used. `kept` receives a copy
 * of the row unless it is NULL. */
template <int n, typename T> __device__ partition of_thread(const T *row, uint32_t vocabulary, T *kept) {
    partition p = {-FLT_MAX, 0.0f};
    uint32_t each = blockDim.x * n;
    for (uint32_t first = threadIdx.x * n; first < vocabulary; first += BATCH * each) {
        gw_neighbours<T, n> logits[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            if (first + b * each < vocabulary) logits[b] = gw_load_neighbours<T, n>(row + first + b * each);
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            uint32_t i = first + b * each;
            if (i >= vocabulary) break;
            float x[n];
            if (kept != NULL) *reinterpret_cast<gw_neighbours<T, n> *>(kept + i) = logits[b];
            widen_logits(logits[b], i, vocabulary, x);
            p = with_logits(p, x);
        }
    }
    return p;
}

template <int n, typename T>
__device__ void write_gradient(const T *logits, T *row, uint32_t vocabulary, uint32_t stride, uint32_t target,
                               partition p, float scale) {
    float factor = scale / p.sum;
    uint32_t each = blockDim.x * n;
    for (uint32_t round = (stride + each - 1) / each; round-- > 0;) {
        uint32_t i = round * each + threadIdx.x * n;
        float x[n] = {};
        if (i < vocabulary) {
            widen_logits(gw_load_neighbours<T, n>(logits + i), i, vocabulary, x);
#pragma unroll
            for (int k = 0; k < n; k++) x[k] = __expf(x[k] - p.largest) * factor;
        }
        if (target - i < n) { /* false also for a target before i, where the difference wraps */
#pragma unroll
            for (int k = 0; k < n; k++)
                if (i + k == target) x[k] -= scale;
        }
        if (i < stride) gw_write(row + i, x);
    }
}

template <int n, bool keeps, typename T>
__global__ void __launch_bounds__(THREADS)
    crossent_kernel(uint32_t vocabulary, uint32_t stride, T *logits, const uint32_t *__restrict__ targets,
                    float scale, double *__restrict__ of_row) {
    T *row = logits + (uint64_t)blockIdx.x * stride;
    uint32_t target = targets[blockIdx.x];
    float at_target = target < vocabulary ? gw_wide(row[target]) : __int_as_float(0x7fc00000);
    T *kept =
        keeps ? static_cast<T *>(gw_dynamic_shared()) : NULL; /* a thread reads and writes its own elements */
    partition p = of_block(of_thread<n>(row, vocabulary, kept)); /* no thread writes before all have read */
    if (scale != 0.0f) write_gradient<n>(keeps ? kept : row, row, vocabulary, stride, target, p, scale);
    if (threadIdx.x == 0)
        of_row[blockIdx.x] = gw_log((double)p.sum) - ((double)at_target - (double)p.largest);
}

/* Runs as one block. */
__global__ void __launch_bounds__(SUM_THREADS)
    sum_kernel(uint64_t rows, const double *__restrict__ of_row, gw_cuda_crossent_loss *loss) {
    __shared__ double sums[SUM_THREADS];
    double sum = gw_block_rows(rows, of_row, sums);
    if (threadIdx.x == 0) *loss = {(int64_t)rows, (float)sum};
}

/* The number of threads of a row's block: whole warps, as many as have elements. */
unsigned row_threads(uint32_t stride, uint32_t each) {
    unsigned warps = gw_cuda_blocks(stride, GW_WARP * each), most = THREADS / GW_WARP;
    return GW_WARP * (warps < most ? warps : most);
}

/* The most bytes of a row that this GPU keeps: two such rows fit a multiprocessor's shared memory. Negative
 * where that is unknown. */
int most_kept() {
    int gpu, of_block, of_all;
    if (cudaGetDevice(&gpu) != cudaSuccess ||
        cudaDeviceGetAttribute(&of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu) != cudaSuccess ||
        cudaDeviceGetAttribute(&of_all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, gpu) != cudaSuccess)
        return -1;
    int most = of_all / 2 - STATIC - RESERVED;
    return most < of_block - STATIC ? most : of_block - STATIC;
}

/* Whether a row of so many bytes is kept; if so, it lets the kernel use the shared memory. It allows the most
 * that any row takes, since other threads may start the kernel with other rows meanwhile. */
template <typename kernel> bool can_keep(kernel *of, size_t bytes) {
    int most = most_kept();
    bool good = most >= 0 && bytes <= (size_t)most &&
                cudaFuncSetAttribute(of, cudaFuncAttributeMaxDynamicSharedMemorySize, most) == cudaSuccess;
    if (!good) (void)cudaGetLastError(); /* clears the error: the row is not kept */
    return good;
}

template <int n, typename T>
cudaError_t start(uint64_t rows, uint32_t vocabulary, uint32_t stride, T *logits, const uint32_t *targets,
                  float scale, double *of_row, cudaStream_t stream) {
    size_t bytes = stride * sizeof(T);
    unsigned threads = row_threads(stride, n);
    if (scale != 0.0f && can_keep(crossent_kernel<n, true, T>, bytes))
        GW_LAUNCH((crossent_kernel<n, true, T>), (unsigned)rows, threads, bytes, stream, vocabulary, stride,
                  logits, targets, scale, of_row);
    else
        GW_LAUNCH((crossent_kernel<n, false, T>), (unsigned)rows, threads, 0, stream, vocabulary, stride,
                  logits, targets, scale, of_row);
    return cudaGetLastError();
}

template <typename T>
cudaError_t crossent(uint64_t rows, uint32_t vocabulary, uint32_t stride, void *values,
                     const uint32_t *targets, float scale, double *of_row, cudaStream_t stream) {
    constexpr int n = gw_at_once<T>;
    T *logits = static_cast<T *>(values);
    return stride % n == 0 ? start<n>(rows, vocabulary, stride, logits, targets, scale, of_row, stream)
                           : start<1>(rows, vocabulary, stride, logits, targets, scale, of_row, stream);
}

} // namespace

cudaError_t gw_cuda_crossent(uint64_t rows, uint32_t vocabulary, uint32_t stride, gw_cuda_factor logits,
                             const uint32_t *targets, float scale, double *of_row, cudaStream_t stream) {
    if (rows == 0 || vocabulary == 0 || stride < vocabulary) return cudaErrorInvalidValue;
    return logits.bf16
               ? crossent<uint16_t>(rows, vocabulary, stride, logits.values, targets, scale, of_row, stream)
               : crossent<float>(rows, vocabulary, stride, logits.values, targets, scale, of_row, stream);
}

cudaError_t gw_cuda_crossent_sum(uint64_t rows, const double *of_row, gw_cuda_crossent_loss *loss,
                                 cudaStream_t stream) {
    GW_LAUNCH(sum_kernel, 1, SUM_THREADS, 0, stream, rows, of_row, loss);
    return cudaGetLastError();
}
