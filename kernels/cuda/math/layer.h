/* What a fully connected layer needs on a GPU besides its products. Calls start work on `stream` and return
 * how the start went; arrays are in the GPU's memory, row-major. Sums over rows run in an order that depends
 * on the sizes alone. */
#ifndef GODWIT_KERNELS_CUDA_MATH_LAYER_H
#define GODWIT_KERNELS_CUDA_MATH_LAYER_H

#include "kernels/cuda/math/columns.h"
#include "kernels/cuda/math/factor.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets values[i] to pixels[i] * scale + shift for i below `count`. */
cudaError_t gw_cuda_normalise(uint64_t count, const uint8_t *pixels, float scale, float shift,
                              gw_cuda_factor values, cudaStream_t stream);

/* Rounds `count` values to bfloat16, ties to even. */
cudaError_t gw_cuda_to_bf16(uint64_t count, const float *values, uint16_t *rounded, cudaStream_t stream);

/* Computes the gradient of ReLU's input: `above`, the gradient of its output, where its output `active` is
 * positive, else 0; where `active` is NULL, it is `above`. All are [rows, columns]. The result is written to
 * `gradient` as a factor, whose values may be `above` or `active`, and, transposed, to transposed[columns,
 * rows] unless that is NULL; the sums of its columns are written to sum[columns]. `parts` is scratch for
 * gw_cuda_parts(rows) * columns floats. */
cudaError_t gw_cuda_gate(uint64_t rows, uint64_t columns, const float *above, const float *active,
                         gw_cuda_factor gradient, float *transposed, float *parts, float *sum,
                         cudaStream_t stream);

/* Writes the transpose of values[rows, columns] to transposed[columns, rows]. */
cudaError_t gw_cuda_transpose(uint64_t rows, uint64_t columns, const float *values, float *transposed,
                              cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
