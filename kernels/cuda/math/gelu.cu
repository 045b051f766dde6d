#include "kernels/cuda/math/gelu.h"

#include "kernels/cuda/math/columns.cuh"
#include "kernels/cuda/math/gelu.cuh"

namespace {

enum { THREADS = 256 };

template <int n, typename T>
__global__ void __launch_bounds__(THREADS) forward_kernel(uint64_t count, const T *x, T *y) {
    uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * n;
    if (i >= count) return;
    float value[n];
    gw_read(x + i, value);
#pragma unroll
    for (int k = 0; k < n; k++) value[k] = gw_cuda_gelu_at(value[k]).y;
    gw_write(y + i, value);
}

template <typename T> cudaError_t forward(uint64_t count, const void *from, void *to, cudaStream_t stream) {
    constexpr int n = gw_at_once<T>;
    const T *x = static_cast<const T *>(from);
    T *y = static_cast<T *>(to);
    uint64_t whole = count / n * n, rest = count - whole;
    if (whole > 0)
        GW_LAUNCH((forward_kernel<n, T>), gw_cuda_blocks(whole, THREADS * n), THREADS, 0, stream, whole, x,
                  y);
    if (rest > 0) GW_LAUNCH((forward_kernel<1, T>), 1, THREADS, 0, stream, rest, x + whole, y + whole);
    return cudaGetLastError();
}

/* A source of column sums (columns.cuh) that replaces the gradient of y by that of x. */
template <typename T> struct through_gelu {
    typedef T element;
    template <int n> struct held { float x[n], value[n]; };
    const T *x;
    T *gradient;
    template <int n> __device__ void read(uint64_t i, held<n> *to) const {
        gw_read(x + i, to->x);
        gw_read(gradient + i, to->value);
    }
    template <int n> __device__ void finish(uint64_t i, held<n> *at) const {
#pragma unroll
        for (int k = 0; k < n; k++) at->value[k] *= gw_cuda_gelu_at(at->x[k]).slope;
        gw_write(gradient + i, at->value);
    }
};

template <typename T>
cudaError_t backward(uint64_t rows, uint64_t columns, const void *x, void *gradient, float *parts, float *sum,
                     cudaStream_t stream) {
    through_gelu<T> through = {static_cast<const T *>(x), static_cast<T *>(gradient)};
    return gw_column_sums(rows, columns, through, parts, sum, stream);
}

} // namespace

cudaError_t gw_cuda_gelu_forward(uint64_t count, gw_cuda_factor x, gw_cuda_factor y, cudaStream_t stream) {
    return x.bf16 ? forward<uint16_t>(count, x.values, y.values, stream)
                  : forward<float>(count, x.values, y.values, stream);
}

cudaError_t gw_cuda_gelu_backward(uint64_t rows, uint64_t columns, gw_cuda_factor x, gw_cuda_factor gradient,
                                  float *parts, float *sum, cudaStream_t stream) {
    return x.bf16 ? backward<uint16_t>(rows, columns, x.values, gradient.values, parts, sum, stream)
                  : backward<float>(rows, columns, x.values, gradient.values, parts, sum, stream);
}
