/* Sums over the threads of a block, each in one order. All threads of the block call these functions. */
#ifndef GODWIT_KERNELS_CUDA_MATH_BLOCK_CUH
#define GODWIT_KERNELS_CUDA_MATH_BLOCK_CUH

#include <stdint.h>

enum { GW_WARP = 32, GW_MOST_WARPS = 32 };

/* Shared memory for the sums of n values. A barrier must lie between two uses of one room; a loop that
 * alternates between two rooms needs none of its own. */
template <int n> struct gw_block_scratch { float of_warp[n][GW_MOST_WARPS]; };

/* Replaces each of the n values by its sum over the block. */
template <int n> __device__ void gw_block_sums(float (&value)[n], gw_block_scratch<n> *room) {
    unsigned warps = blockDim.x / GW_WARP, warp = threadIdx.x / GW_WARP;
#pragma unroll
    for (int k = 0; k < n; k++) {
#pragma unroll
        for (int step = GW_WARP / 2; step > 0; step /= 2)
            value[k] += __shfl_xor_sync(0xffffffffu, value[k], step);
        if (threadIdx.x % GW_WARP == 0) room->of_warp[k][warp] = value[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < n; k++) {
        value[k] = 0.0f;
        for (unsigned w = 0; w < warps; w++) value[k] += room->of_warp[k][w];
    }
}

/* Adds the values of a block, which has a power of two threads, as a tree. Thread 0 gets the sum; what the
 * other threads get is undefined. `values` is shared memory for one double a thread. */
__device__ inline double gw_block_tree(double value, double *values) {
    values[threadIdx.x] = value;
    for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width) values[threadIdx.x] += values[threadIdx.x + width];
    }
    return values[0];
}

/* Adds of_row[0 .. rows) likewise: thread t adds rows t, t + blockDim.x, ... before the tree. */
__device__ inline double gw_block_rows(uint64_t rows, const double *__restrict__ of_row, double *values) {
    constexpr int batch = 8; /* read before the first is added */
    double sum = 0.0;
    uint64_t r = threadIdx.x;
#pragma unroll 1
    for (; r + (batch - 1) * blockDim.x < rows; r += batch * blockDim.x) {
        double value[batch];
#pragma unroll
        for (int k = 0; k < batch; k++) value[k] = of_row[r + k * blockDim.x];
#pragma unroll
        for (int k = 0; k < batch; k++) sum += value[k];
    }
#pragma unroll 1
    for (; r < rows; r += blockDim.x) sum += of_row[r];
    return gw_block_tree(sum, values);
}

#endif
