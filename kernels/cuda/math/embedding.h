/* The embedding of kernels/math/embedding.h on a GPU, with the processor's bits. Calls start work on `stream`
 * and return how the start went. Arrays are in the GPU's memory, row-major with a row a token, and aligned to
 * 16 bytes. Sums run in an order that depends on the sizes alone. */
#ifndef GODWIT_KERNELS_CUDA_MATH_EMBEDDING_H
#define GODWIT_KERNELS_CUDA_MATH_EMBEDDING_H

#include "kernels/cuda/math/draw.h"
#include "kernels/math/dropout.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The shape of one shard, and the dropout of its output: element i is row * channels + column
 * (kernels/math/dropout.h). `drawn`, in the GPU's memory, replaces the dropout's key and is added to its
 * stream; NULL leaves both as they are. */
typedef struct gw_cuda_embedding {
    uint32_t sequences, positions, channels, vocabulary;
    gw_dropout dropout;
    const gw_cuda_draw *drawn;
} gw_cuda_embedding;

/* Writes residual[rows, channels]: the dropout of the token's row of `words` plus the position's row of
 * `places`. A token that is not below `vocabulary` makes a row of NaN. */
cudaError_t gw_cuda_embedding_forward(const gw_cuda_embedding *shape, const uint32_t *tokens,
                                      const float *words, const float *places, float *residual,
                                      cudaStream_t stream);

/* Writes dplaces[positions, channels]: the sum of delta, the gradient of `residual`, over the sequences in
 * their order. */
cudaError_t gw_cuda_embedding_positions(const gw_cuda_embedding *shape, const float *delta, float *dplaces,
                                        cudaStream_t stream);

/* Adds each token's rows of delta to its row of dwords[vocabulary, channels], in row order. `order` and
 * `starts` are what gw_embedding_group (kernels/math/embedding.h) makes of `tokens`, which are all below
 * `vocabulary`. */
cudaError_t gw_cuda_embedding_tokens(const gw_cuda_embedding *shape, const uint32_t *tokens,
                                     const uint32_t *order, const uint32_t *starts, const float *delta,
                                     float *dwords, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
