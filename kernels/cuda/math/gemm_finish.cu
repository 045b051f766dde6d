#include "kernels/cuda/math/factor.cuh"
#include "kernels/cuda/math/gelu.cuh"
#include "kernels/cuda/math/gemm_finish.h"
#include "kernels/cuda/math/launch.cuh"

namespace {

enum { THREADS = 256 };

/* A thread finishes n neighbouring elements of a row, whose length is a multiple of n. */
template <typename T, int n>
__global__ void __launch_bounds__(THREADS)
    finish_kernel(uint64_t count, uint64_t columns, gw_gemm_finish finish, const T *bias, T *from, T *c) {
    uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * n;
    if (first >= count) return;
    float value[n], add[n];
    gw_read(from + first, value);
    gw_read(bias + first % columns, add);
#pragma unroll
    for (int k = 0; k < n; k++) {
        value[k] += add[k];
        if (finish == GW_GEMM_BIAS_RELU && value[k] < 0.0f) value[k] = 0.0f;
    }
    if (finish == GW_GEMM_BIAS_GELU) {
        gw_write(from + first, value);
#pragma unroll
        for (int k = 0; k < n; k++) value[k] = gw_cuda_gelu_at(value[k]).y;
    }
    gw_write(c + first, value);
}

template <typename T, int n>
void finish_by(uint64_t count, uint64_t columns, gw_gemm_finish finish, const void *bias, void *from, void *c,
               cudaStream_t stream) {
    GW_LAUNCH((finish_kernel<T, n>), gw_cuda_blocks(count, THREADS * n), THREADS, 0, stream, count, columns,
              finish, static_cast<const T *>(bias), static_cast<T *>(from), static_cast<T *>(c));
}

template <typename T>
void finish_as(uint64_t count, uint64_t columns, gw_gemm_finish finish, const void *bias, void *from, void *c,
               cudaStream_t stream) {
    constexpr int most = gw_at_once<T>;
    if (columns % most == 0)
        finish_by<T, most>(count, columns, finish, bias, from, c, stream);
    else
        finish_by<T, 1>(count, columns, finish, bias, from, c, stream);
}

} // namespace

cudaError_t gw_cuda_finish(uint64_t rows, uint64_t columns, gw_gemm_finish finish, const void *bias,
                           gw_cuda_factor from, gw_cuda_factor c, cudaStream_t stream) {
    if (c.bf16)
        finish_as<uint16_t>(rows * columns, columns, finish, bias, from.values, c.values, stream);
    else
        finish_as<float>(rows * columns, columns, finish, bias, from.values, c.values, stream);
    return cudaGetLastError();
}
