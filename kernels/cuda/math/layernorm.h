/* The layer norm of kernels/math/layernorm.h on a GPU, joined with the residual additions around it. Calls
 * start work on `stream` and return how the start went. Arrays are in the GPU's memory, row-major with a row
 * a token, and aligned to 16 bytes.
 *
 * The residual stream, its gradient and parameters' gradients are float32. What enters or leaves a product is
 * a factor (kernels/cuda/math/factor.h), and all factors of one call have one type; arithmetic is float32,
 * rounded when a factor is written. Sums run in an order that depends on the sizes alone. The calls are
 * fastest where `channels` is a multiple of 8. */
#ifndef GODWIT_KERNELS_CUDA_MATH_LAYERNORM_H
#define GODWIT_KERNELS_CUDA_MATH_LAYERNORM_H

#include "kernels/cuda/math/columns.h"
#include "kernels/cuda/math/draw.h"
#include "kernels/cuda/math/factor.h"
#include "kernels/math/dropout.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most channels of a norm; with more, the calls fail with cudaErrorInvalidValue. */
enum { GW_CUDA_LAYERNORM_CHANNELS = 4096 };

typedef struct gw_cuda_layernorm {
    uint64_t rows;
    uint32_t channels;
    const float *weight, *bias; /* [channels] */
    float *mean, *scale;        /* [rows]: written by forward, read by backward */
} gw_cuda_layernorm;

/* The output of a branch's product, and the dropout between it and the residual stream; or its gradient.
 * Element i of the dropout is row * channels + column; `drawn` as in gw_cuda_embedding. */
typedef struct gw_cuda_branch {
    gw_cuda_factor values; /* [rows, channels] */
    gw_dropout dropout;
    const gw_cuda_draw *drawn;
} gw_cuda_branch;

/* Writes the layer norm of x to y. */
cudaError_t gw_cuda_layernorm_forward(const gw_cuda_layernorm *norm, const float *x, gw_cuda_factor y,
                                      cudaStream_t stream);

/* Writes x + dropout(branch) to `sum`, and the layer norm of the sum to y. `sum` may be `x`; y's values may
 * be the branch's. */
cudaError_t gw_cuda_layernorm_add(const gw_cuda_layernorm *norm, const float *x, const gw_cuda_branch *branch,
                                  float *sum, gw_cuda_factor y, cudaStream_t stream);

/* The sums over rows that gw_cuda_layernorm_backward writes, each [channels]. */
typedef struct gw_cuda_layernorm_sums {
    float *weight, *bias; /* gradients of the norm's weight and bias */
    float *branch;        /* gradient of the bias of the branch's product: the column sums of its gradient */
} gw_cuda_layernorm_sums;

/* The number of floats that gw_cuda_layernorm_backward needs as `parts`. */
static inline uint64_t gw_cuda_layernorm_parts(uint64_t rows, uint32_t channels) {
    return 3 * gw_cuda_parts(rows) * channels;
}

/* Writes the gradient of x to delta: `above`, its part that does not pass through the norm (NULL: 0), plus
 * the part that does, from dy, the gradient of y. `delta` may be `above`. Where `branch` is the branch that
 * was added to make x, its gradient dropout(delta) goes to branch->values, which may be dy's, and the column
 * sums of that to sums->branch; where it is NULL, sums->branch is left alone. `norm->bias` is not read. */
cudaError_t gw_cuda_layernorm_backward(const gw_cuda_layernorm *norm, const float *x, gw_cuda_factor dy,
                                       const float *above, float *delta, const gw_cuda_branch *branch,
                                       float *parts, const gw_cuda_layernorm_sums *sums, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
