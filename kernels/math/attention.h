/* Causal self-attention of several heads, computed in blocks: no matrix of positions x positions is kept,
 * neither forward nor for backward (Dao et al., "FlashAttention", NeurIPS 2022).
 *
 * A row of `qkv` holds a position's queries, keys and values, [3, heads, width] with width = channels /
 * heads. Each sequence has `positions` rows. Scores are scaled by 1 / sqrt(width). The shapes of all products
 * depend on the sizes alone, and every sum has one order. Any thread, each with its own scratch. */
#ifndef GODWIT_KERNELS_MATH_ATTENTION_H
#define GODWIT_KERNELS_MATH_ATTENTION_H

#include "kernels/math/dropout.h"

#include <stddef.h>

enum { GW_ATTENTION_BLOCK = 64 }; /* number of positions of a block */

typedef struct gw_attention {
    size_t sequences, positions, heads, channels;
    /* dropout of the attention weights; elements are numbered by sequence, head, query and key */
    gw_dropout dropout;
} gw_attention;

/* The number of floats of scratch that either pass needs. */
size_t gw_attention_scratch(const gw_attention *shape);

/* Writes out[rows, channels], and to norms[rows, heads] the logarithm of each row's normaliser, for backward.
 */
void gw_attention_forward(const gw_attention *shape, const float *qkv, float *out, float *norms,
                          float *scratch);

/* Writes dqkv[rows, 3 channels] from `dout`, the gradient of `out`. */
void gw_attention_backward(const gw_attention *shape, const float *qkv, const float *out, const float *norms,
                           const float *dout, float *dqkv, float *scratch);

#endif
