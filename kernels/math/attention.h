/* Causal self-attention of many heads, in blocks: no matrix of positions x positions is kept, neither forward
 * nor for backward (after Dao et al., "FlashAttention", NeurIPS 2022).
 *
 * Each row of `qkv` holds a position's queries, keys and values, [3, heads, width] with width = channels /
 * heads; rows of sequences of `positions` rows each. Scores are scaled by 1 / sqrt(width). The shapes of all
 * products follow from the sizes, and every sum has one order. Any thread, each with its own scratch. */
#ifndef GODWIT_KERNELS_MATH_ATTENTION_H
#define GODWIT_KERNELS_MATH_ATTENTION_H

#include "kernels/math/dropout.h"

#include <stddef.h>

enum { GW_ATTENTION_BLOCK = 64 }; /* positions of a block */

typedef struct gw_attention {
    size_t sequences, positions, heads, channels;
    gw_dropout dropout; /* of the attention weights; elements are numbered by sequence, head, query and key */
} gw_attention;

/* Floats of scratch that either pass needs. */
size_t gw_attention_scratch(const gw_attention *shape);

/* out [rows, channels]. Keeps the logarithm of each row's normaliser in `norms` [rows, heads] for backward.
 */
void gw_attention_forward(const gw_attention *shape, const float *qkv, float *out, float *norms,
                          float *scratch);

/* Writes dqkv [rows, 3 channels], from the gradient `dout` of `out`. */
void gw_attention_backward(const gw_attention *shape, const float *qkv, const float *out, const float *norms,
                           const float *dout, float *dqkv, float *scratch);

#endif
