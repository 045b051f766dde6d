/* What a multi-layer perceptron needs on a GPU besides matrix products. All start work on `stream`; arrays
 * are the GPU's, row-major. Sums over rows run in an order that depends on the sizes alone. */
#ifndef GODWIT_KERNELS_CUDA_MODEL_MLP_KERNELS_H
#define GODWIT_KERNELS_CUDA_MODEL_MLP_KERNELS_H

#include "kernels/cuda/math/columns.h"
#include "kernels/cuda/math/factor.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* values[i] = pixels[i] * scale + shift. */
cudaError_t gw_cuda_normalise(uint64_t count, const uint8_t *pixels, float scale, float shift,
                              gw_cuda_factor values, cudaStream_t stream);

/* Rounds to bfloat16, ties to even. */
cudaError_t gw_cuda_to_bf16(uint64_t count, const float *values, uint16_t *rounded, cudaStream_t stream);

/* A layer's gradient [rows, columns]: where `active` (NULL: everywhere) is above 0 what came from above, else
 * 0. Written to `gradient` as a factor (its `values` may be `above` itself or `active`), transposed to
 * turned[columns, rows] (NULL: it is not), and its columns' sums to sum[columns], by way of
 * parts[gw_cuda_parts(rows) * columns]. */
cudaError_t gw_cuda_gate(uint64_t rows, uint64_t columns, const float *above, const float *active,
                         gw_cuda_factor gradient, float *turned, float *parts, float *sum,
                         cudaStream_t stream);

/* turned[columns, rows] of values[rows, columns]. */
cudaError_t gw_cuda_turn(uint64_t rows, uint64_t columns, const float *values, float *turned,
                         cudaStream_t stream);

/* Of a shard. */
typedef struct gw_cuda_loss {
    int64_t correct, count; /* rows whose largest logit is the label's; rows */
    float sum;              /* of -ln p(label) */
} gw_cuda_loss;

/* As gw_loss_softmax: the gradient in place of the logits, the same bits; the loss's sum is added in another
 * order. `of_row`: room for a double a row; `labels` below `classes`, or the row's results are not numbers.
 */
cudaError_t gw_cuda_softmax_loss(uint64_t rows, uint32_t classes, float *logits, const uint8_t *labels,
                                 float scale, double *of_row, gw_cuda_loss *loss, cudaStream_t stream);

/* values[i] = (2u - 1) * bound, u uniform: Philox of (key, group, i). As the `digits` job draws its weights.
 */
cudaError_t gw_cuda_uniform(uint64_t key, uint64_t group, double bound, uint64_t count, float *values,
                            cudaStream_t stream);

cudaError_t gw_cuda_set_double(double *to, double value, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
