/* Token and position embeddings, and the output layer that shares the tokens' matrix (Press and Wolf, "Using
 * the output embedding to improve language models", 2017). Any thread. */
#ifndef GODWIT_KERNELS_MATH_EMBEDDING_H
#define GODWIT_KERNELS_MATH_EMBEDDING_H

#include "core/godwit.h"

typedef struct gw_embedding {
    size_t sequences, positions, channels, vocabulary;
} gw_embedding;

/* Writes x[rows, channels]: for each token, which is below `vocabulary`, its row of the token embedding
 * `words`, plus its position's row of the position embedding `places`. */
void gw_embedding_forward(const gw_embedding *shape, const uint32_t *tokens, const float *words,
                          const float *places, float *x);

/* The number of floats of a piece, for the two functions below. */
size_t gw_embedding_piece(const gw_embedding *shape);

/* Emits the gradient of the position embedding as tensor `dplaces`: dx summed over the sequences in order. */
void gw_embedding_emit_positions(const gw_embedding *shape, const float *dx, uint32_t dplaces, float *piece,
                                 gw_emitter *emitter);

/* Emits the gradient of the token embedding as tensor `dwords`, from both uses of that matrix: dlogits^T
 * hidden, where rows of dlogits[rows, vocabulary] lie `stride` apart and hidden is [rows, channels], plus,
 * for each token, the rows of dx with that token in row order. `order` is scratch for a number a row. */
void gw_embedding_emit_tokens(const gw_embedding *shape, const uint32_t *tokens, const float *dx,
                              const float *dlogits, size_t stride, const float *hidden, uint32_t dwords,
                              float *piece, uint64_t *order, gw_emitter *emitter);

/* Groups the rows by token, for GPUs (kernels/cuda/math/embedding.h). order[rows] receives the row numbers,
 * those of one token together and in order. starts[rows + 1] receives the position in `order` where each
 * token that occurs begins, and after the last such token `rows` in all further entries. `sorted` is scratch
 * for a number a row; there are fewer than 2^32 rows. */
void gw_embedding_group(size_t rows, const uint32_t *tokens, uint64_t *sorted, uint32_t *order,
                        uint32_t *starts);

#endif
