/* GELU (kernels/math/gelu_element.h) inside kernels. */
#ifndef GODWIT_KERNELS_CUDA_MATH_GELU_CUH
#define GODWIT_KERNELS_CUDA_MATH_GELU_CUH

#include "kernels/math/gelu_element.h"

__device__ inline gw_gelu_point gw_cuda_gelu_at(float x) {
    float e = gw_gelu_limited(__expf(gw_gelu_exponent(x)));
    return gw_gelu_at(x, e, __fdividef(1.0f, 1.0f + e)); /* __fdividef needs a divisor of at most 2^126 */
}

#endif
