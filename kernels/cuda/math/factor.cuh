/* Loads and stores of a factor's values, which are float32 in registers. T is float, or uint16_t for the bits
 * of bfloat16. n neighbouring values are read or written at once; their address is aligned to n values. */
#ifndef GODWIT_KERNELS_CUDA_MATH_FACTOR_CUH
#define GODWIT_KERNELS_CUDA_MATH_FACTOR_CUH

#include <cuda_bf16.h>
#include <stdint.h>

/* The number of values in 16 bytes, the most that a thread reads at once. */
template <typename T> constexpr int gw_at_once = 16 / (int)sizeof(T);

template <typename T, int n> struct alignas(sizeof(T) * n) gw_neighbours { T value[n]; };

__device__ inline float gw_wide(float value) {
    return value;
}

__device__ inline float gw_wide(uint16_t bits) {
    return __uint_as_float((uint32_t)bits << 16);
}

__device__ inline void gw_narrow(float value, float *to) {
    *to = value;
}

__device__ inline void gw_narrow(float value, uint16_t *to) { /* to nearest, ties to even */
    *to = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

template <typename T, int n> __device__ gw_neighbours<T, n> gw_load_neighbours(const T *from) {
    return *reinterpret_cast<const gw_neighbours<T, n> *>(from);
}

template <typename T, int n> __device__ void gw_widen(const gw_neighbours<T, n> &all, float (&to)[n]) {
#pragma unroll
    for (int k = 0; k < n; k++) to[k] = gw_wide(all.value[k]);
}

template <typename T, int n> __device__ void gw_read(const T *from, float (&to)[n]) {
    gw_widen(gw_load_neighbours<T, n>(from), to);
}

template <typename T, int n> __device__ void gw_write(T *to, const float (&values)[n]) {
    gw_neighbours<T, n> all;
#pragma unroll
    for (int k = 0; k < n; k++) gw_narrow(values[k], &all.value[k]);
    *reinterpret_cast<gw_neighbours<T, n> *>(to) = all;
}

#endif
