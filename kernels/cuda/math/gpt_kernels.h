/* What GPT-2 (kernels/model/gpt/gpt.h) needs on a GPU besides matrix products and attention. All start work
 * on `stream` and return how starting went; arrays are the GPU's, row-major with a row a token, and aligned
 * to 16 bytes. Sums run in an order that depends on the sizes alone.
 *
 * The residual stream, its gradient and parameters' gradients are float32; what enters or leaves a product is
 * a factor, and all factors of one call have one type. Arithmetic is float32, rounded to the factor's type
 * when it is written. Fastest where `channels` and the like are multiples of 8; any number works.
 *
 * Dropout (rate 0: none) drops what kernels/math/dropout.h drops: element i is row * channels + column.
 * `drawn`, in the GPU's memory, stands in for its key, and is added to its stream; NULL: both are as they
 * are. */
#ifndef GODWIT_KERNELS_CUDA_MATH_GPT_KERNELS_H
#define GODWIT_KERNELS_CUDA_MATH_GPT_KERNELS_H

#include "kernels/cuda/math/columns.h"
#include "kernels/cuda/math/draw.h"
#include "kernels/cuda/math/factor.h"
#include "kernels/math/dropout.h"
#include "kernels/math/norm.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- embedding: kernels/math/embedding.h ---- */

typedef struct gw_cuda_embedding {
    uint32_t sequences, positions, channels, vocabulary;
    gw_dropout dropout;
    const gw_cuda_draw *drawn;
} gw_cuda_embedding;

/* residual [rows, channels]: dropout of the token's row in `words` plus the position's row in `places`: the
 * same bits as on the processor. A token that is not below `vocabulary` makes a row of NaN. */
cudaError_t gw_cuda_embedding_forward(const gw_cuda_embedding *shape, const uint32_t *tokens,
                                      const float *words, const float *places, float *residual,
                                      cudaStream_t stream);

/* From delta, the gradient of `residual`: dplaces [positions, channels] = the sum over the sequences, in
 * their order. The same bits as on the processor. */
cudaError_t gw_cuda_embedding_places(const gw_cuda_embedding *shape, const float *delta, float *dplaces,
                                     cudaStream_t stream);

/* Adds each token's rows of the gradient to its row of dwords [vocabulary, channels], in row order. `order`
 * and `starts` are what gw_embedding_group (kernels/math/embedding.h) makes of `tokens`, all of them below
 * `vocabulary`. The same bits as on the processor from the same dwords. */
cudaError_t gw_cuda_embedding_words(const gw_cuda_embedding *shape, const uint32_t *tokens,
                                    const uint32_t *order, const uint32_t *starts, const float *delta,
                                    float *dwords, cudaStream_t stream);

/* ---- layer norm: kernels/math/layernorm.h ---- */

enum { GW_CUDA_LAYERNORM_CHANNELS = 4096 }; /* at most; of more, the calls fail (cudaErrorInvalidValue) */

typedef struct gw_cuda_layernorm {
    uint64_t rows;
    uint32_t channels;
    const float *weight, *bias; /* [channels] */
    float *mean, *scale;        /* [rows]: written by forward, read by backward */
} gw_cuda_layernorm;

/* What a branch's product left, and what is dropped of it before it is added to the residual stream; or its
 * gradient. values [rows, channels]. */
typedef struct gw_cuda_branch {
    gw_cuda_factor values;
    gw_dropout dropout;
    const gw_cuda_draw *drawn;
} gw_cuda_branch;

/* y = the norm of x. */
cudaError_t gw_cuda_layernorm_forward(const gw_cuda_layernorm *norm, const float *x, gw_cuda_factor y,
                                      cudaStream_t stream);

/* sum = x + dropout(branch), y = the norm of the sum. `sum` may be `x`; y's values may be the branch's. */
cudaError_t gw_cuda_layernorm_add(const gw_cuda_layernorm *norm, const float *x, const gw_cuda_branch *branch,
                                  float *sum, gw_cuda_factor y, cudaStream_t stream);

/* Sums over rows that backward writes, each [channels]. */
typedef struct gw_cuda_layernorm_sums {
    float *weight, *bias; /* the gradients of the norm's own */
    float *branch;        /* of the columns of the branch's gradient: that of its product's bias */
} gw_cuda_layernorm_sums;

/* Floats that backward takes as `parts`. */
static inline uint64_t gw_cuda_layernorm_parts(uint64_t rows, uint32_t channels) {
    return 3 * gw_cuda_parts(rows) * channels;
}

/* From dy, the gradient of y, and `above`, that of x by other ways (NULL: there is none): delta = above + the
 * gradient of x. `delta` may be `above`. With `branch` (NULL: nobody asks; sums->branch is then left alone),
 * the branch below that was added to make x, its gradient dropout(delta) goes to branch->values, which may be
 * dy's. `norm->bias` is not read. */
cudaError_t gw_cuda_layernorm_backward(const gw_cuda_layernorm *norm, const float *x, gw_cuda_factor dy,
                                       const float *above, float *delta, const gw_cuda_branch *branch,
                                       float *parts, const gw_cuda_layernorm_sums *sums, cudaStream_t stream);

/* ---- GELU: kernels/math/gelu.h ---- */

/* y = gelu(x); y's values may be x's. */
cudaError_t gw_cuda_gelu_forward(uint64_t count, gw_cuda_factor x, gw_cuda_factor y, cudaStream_t stream);

/* gradient [rows, columns], of y: times gelu'(x), in place; and the sums of its columns to sum[columns], by
 * way of parts[gw_cuda_parts(rows) * columns]. */
cudaError_t gw_cuda_gelu_backward(uint64_t rows, uint64_t columns, gw_cuda_factor x, gw_cuda_factor gradient,
                                  float *parts, float *sum, cudaStream_t stream);

/* ---- cross-entropy: kernels/math/crossent.h ---- */

/* Of a shard. */
typedef struct gw_cuda_gpt_loss {
    int64_t tokens; /* rows */
    float sum;      /* of -ln p(target) */
} gw_cuda_gpt_loss;

/* Logits [rows, stride], of which the first `vocabulary` columns count. Puts the gradient (softmax - one-hot)
 * * scale in their place, and 0 into the other columns; with scale 0 the logits are left alone. of_row[rows]:
 * the rows' losses. A target that is not below `vocabulary` or a logit that is not a number makes the loss
 * not a number. */
cudaError_t gw_cuda_crossent(uint64_t rows, uint32_t vocabulary, uint32_t stride, gw_cuda_factor logits,
                             const uint32_t *targets, float scale, double *of_row, cudaStream_t stream);
/* Of the losses of all of a shard's rows. */
cudaError_t gw_cuda_gpt_sum_loss(uint64_t rows, const double *of_row, gw_cuda_gpt_loss *loss,
                                 cudaStream_t stream);

/* ---- a gradient's norm: kernels/math/norm.h ---- */

/* Adds what gw_norm_add would add for the sums, to words[GW_NORM_WORDS] (zeroed by the caller before the
 * first tensor). One after the other or side by side: the words are whole numbers. */
cudaError_t gw_cuda_norm_add(uint64_t count, const int64_t *sum, double scale, int64_t *words,
                             cudaStream_t stream);

/* ---- first weights ---- */

/* values[i] = the normal number i of (key, group) (kernels/math/normal.h) times `deviation`: the same bits as
 * on the processor. */
cudaError_t gw_cuda_normal(uint64_t key, uint64_t group, double deviation, uint64_t count, float *values,
                           cudaStream_t stream);

/* values[i] = value. */
cudaError_t gw_cuda_fill(uint64_t count, float value, float *values, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
