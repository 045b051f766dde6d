#include "kernels/cuda/gemm_finish.h"

#include "kernels/cuda/launch.cuh"

namespace {

enum { THREADS = 256 };

/* A thread does one element: one read, one write, neighbours beside each other. */
__global__ void __launch_bounds__(THREADS)
    add_bias_kernel(uint64_t count, uint64_t columns, const float *__restrict__ bias, bool relu,
                    float *__restrict__ c) {
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    float value = c[i] + bias[i % columns];
    c[i] = relu && value < 0.0f ? 0.0f : value;
}

} // namespace

cudaError_t gw_cuda_add_bias(uint64_t rows, uint64_t columns, const float *bias, bool relu, float *c,
                             cudaStream_t stream) {
    uint64_t count = rows * columns;
    GW_LAUNCH(add_bias_kernel, gw_cuda_blocks(count, THREADS), THREADS, 0, stream, count, columns, bias, relu,
              c);
    return cudaGetLastError();
}
