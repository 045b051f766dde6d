/* GELU (kernels/math/gelu.h) on a GPU. Calls start work on `stream` and return how the start went. Arrays are
 * in the GPU's memory, row-major, and aligned to 16 bytes; both factors of a call have one type. */
#ifndef GODWIT_KERNELS_CUDA_MATH_GELU_H
#define GODWIT_KERNELS_CUDA_MATH_GELU_H

#include "kernels/cuda/math/columns.h"
#include "kernels/cuda/math/factor.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes gelu(x) to y, for `count` elements. y's values may be x's. */
cudaError_t gw_cuda_gelu_forward(uint64_t count, gw_cuda_factor x, gw_cuda_factor y, cudaStream_t stream);

/* Multiplies gradient[rows, columns], the gradient of y, by gelu'(x) in place, and writes the sums of its
 * columns to sum[columns]. `parts` is scratch for gw_cuda_parts(rows) * columns floats. */
cudaError_t gw_cuda_gelu_backward(uint64_t rows, uint64_t columns, gw_cuda_factor x, gw_cuda_factor gradient,
                                  float *parts, float *sum, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
