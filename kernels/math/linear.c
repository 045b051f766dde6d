#include "kernels/math/linear.h"

#include "kernels/math/blas.h"
#include "kernels/math/clones.h"

#include <string.h>

/* The number of gradients that are computed and emitted at a time: few enough to stay in the cache until they
 * are added, and enough that packing the product's other operand pays. */
enum { PIECE = 256 * 1024 };

/* The number of rows of the weights' gradient in a piece: even shares of at most PIECE elements. */
static size_t piece_rows(size_t in, size_t out) {
    size_t most = out < PIECE ? PIECE / out : 1;
    size_t pieces = (in + most - 1) / most;
    return (in + pieces - 1) / pieces;
}

size_t gw_linear_piece(size_t in, size_t out) {
    return piece_rows(in, out) * out;
}

GW_CLONES static void add_to_rows(size_t rows, size_t columns, const float *restrict row, const float *x,
                                  float *y) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < columns; i++) y[r * columns + i] = x[r * columns + i] + row[i];
}

void gw_linear_forward(const gw_linear *shape, const float *x, const float *weights, const float *bias,
                       const float *residual, float *y) {
    size_t in = shape->in, out = shape->out;
    if (residual != NULL)
        add_to_rows(shape->rows, out, bias, residual, y);
    else
        for (size_t r = 0; r < shape->rows; r++) memcpy(y + r * out, bias, out * sizeof *y);
    gw_blas_multiply(shape->rows, out, in, (gw_operand){x, in, GW_PLAIN},
                     (gw_operand){weights, out, GW_PLAIN}, 1.0f, y, out);
}

void gw_linear_backward(const gw_linear *shape, const float *dy, const float *weights, float *dx) {
    gw_blas_multiply(shape->rows, shape->in, shape->out, (gw_operand){dy, shape->out, GW_PLAIN},
                     (gw_operand){weights, shape->out, GW_TRANSPOSED}, 0.0f, dx, shape->in);
}

GW_CLONES static void sum_rows(size_t rows, size_t columns, const float *restrict values,
                               float *restrict sum) {
    memcpy(sum, values, columns * sizeof *sum);
    for (size_t r = 1; r < rows; r++)
        for (size_t i = 0; i < columns; i++) sum[i] += values[r * columns + i];
}

void gw_linear_emit(const gw_linear *shape, const float *x, const float *dy, uint32_t dweights,
                    uint32_t dbias, float *piece, gw_emitter *emitter) {
    size_t in = shape->in, out = shape->out, step = piece_rows(in, out);
    sum_rows(shape->rows, out, dy, piece);
    gw_emit(emitter, dbias, 0, out, piece);
    for (size_t first = 0; first < in; first += step) {
        size_t count = in - first < step ? in - first : step;
        gw_blas_multiply(count, out, shape->rows, (gw_operand){x + first, in, GW_TRANSPOSED},
                         (gw_operand){dy, out, GW_PLAIN}, 0.0f, piece, out);
        gw_emit(emitter, dweights, first * out, count * out, piece);
    }
}
