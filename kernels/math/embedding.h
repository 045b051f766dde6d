/* Token and position embeddings, and the output layer that shares the tokens' matrix (Press and Wolf, 2017).
 * Any thread. */
#ifndef GODWIT_KERNELS_MATH_EMBEDDING_H
#define GODWIT_KERNELS_MATH_EMBEDDING_H

#include "core/godwit.h"

typedef struct gw_embedding {
    size_t sequences, positions, channels, vocabulary;
} gw_embedding;

/* x [rows, channels]: row of `tokens` (each < vocabulary) in `words` plus the position's row in `places`. */
void gw_embedding_forward(const gw_embedding *shape, const uint32_t *tokens, const float *words,
                          const float *places, float *x);

/* Floats of a piece, for the two below. */
size_t gw_embedding_piece(const gw_embedding *shape);

/* Emits the gradient of the places, dx summed over the sequences in order. */
void gw_embedding_emit_places(const gw_embedding *shape, const float *dx, uint32_t dplaces, float *piece,
                              gw_emitter *emitter);

/* Emits the gradient of the words, of both their uses: dlogits^T hidden, with dlogits [rows, vocabulary] in
 * rows `stride` apart and hidden [rows, channels], and on top dx of the rows with that token, in row order.
 * `order` has room for a number a row. */
void gw_embedding_emit_words(const gw_embedding *shape, const uint32_t *tokens, const float *dx,
                             const float *dlogits, size_t stride, const float *hidden, uint32_t dwords,
                             float *piece, uint64_t *order, gw_emitter *emitter);

/* The rows by token, for GPUs (kernels/cuda/math/embedding.h): order[rows] are the rows' numbers, those of
 * one token together and in their order; starts[rows + 1]: where each token that occurs begins in `order`,
 * and after the last of them `rows`, up to the end. `sorted` is room for a number a row; rows below 2^32. */
void gw_embedding_group(size_t rows, const uint32_t *tokens, uint64_t *sorted, uint32_t *order,
                        uint32_t *starts);

#endif
