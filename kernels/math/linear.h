/* A fully connected layer y = x w + bias, forward and backward. Weights are [in, out], row-major, so that
 * both passes read and write rows. The shape of every product depends on the sizes alone, and sums over rows
 * run in row order. Any thread. */
#ifndef GODWIT_KERNELS_MATH_LINEAR_H
#define GODWIT_KERNELS_MATH_LINEAR_H

#include "core/godwit.h"

typedef struct gw_linear {
    size_t rows, in, out;
} gw_linear;

/* Writes y[rows, out]. With `residual` [rows, out], it is added to y; `residual` may be y itself. */
void gw_linear_forward(const gw_linear *shape, const float *x, const float *weights, const float *bias,
                       const float *residual, float *y);

/* Writes dx[rows, in] from dy[rows, out]. */
void gw_linear_backward(const gw_linear *shape, const float *dy, const float *weights, float *dx);

/* The number of floats that gw_linear_emit needs for a piece of the weights' gradient. */
size_t gw_linear_piece(size_t in, size_t out);

/* Emits the gradients of bias (tensor `dbias`) and weights (`dweights`) piece by piece, so that each is
 * consumed while it is in the cache. */
void gw_linear_emit(const gw_linear *shape, const float *x, const float *dy, uint32_t dweights,
                    uint32_t dbias, float *piece, gw_emitter *emitter);

#endif
