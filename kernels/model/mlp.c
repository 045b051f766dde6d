#include "kernels/model/mlp.h"

#include "core/base/assert.h"
#include "kernels/host/arena.h"
#include "kernels/math/blas.h"
#include "kernels/math/clones.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* The number of rows of a layer's weight gradient that are computed at a time: even shares of about
 * GW_MLP_PIECE elements. */
static uint32_t piece_rows(const gw_mlp *mlp, uint32_t layer) {
    uint32_t inputs = mlp->width[layer], most = GW_MLP_PIECE / mlp->width[layer + 1];
    uint32_t pieces = (inputs + most - 1) / most;
    return (inputs + pieces - 1) / pieces;
}

/* Sets a lane's arrays. */
static void lay_out(gw_arena *a, const gw_mlp *mlp, uint32_t rows, gw_mlp_lane *lane) {
    size_t widest = 0, most = 0;
    for (uint32_t l = 0; l < mlp->layers; l++) {
        size_t elements = (size_t)piece_rows(mlp, l) * mlp->width[l + 1];
        if (elements > most) most = elements;
        if (l > 0 && mlp->width[l] > widest) widest = mlp->width[l];
    }
    for (uint32_t l = 0; l <= mlp->layers; l++)
        lane->activation[l] = gw_arena_floats(a, (size_t)rows * mlp->width[l]);
    lane->delta = gw_arena_floats(a, rows * widest);
    lane->piece = gw_arena_floats(a, most);
}

size_t gw_mlp_lane_bytes(const gw_mlp *mlp, uint32_t rows) {
    gw_arena counted = {.alignment = ALIGNMENT};
    gw_mlp_lane lane;
    lay_out(&counted, mlp, rows, &lane);
    return counted.used;
}

bool gw_mlp_lane_open(const gw_mlp *mlp, uint32_t rows, gw_mlp_lane *lane, gw_err *err) {
    GW_ASSERT(mlp->layers >= 1 && mlp->layers <= GW_MLP_LAYERS && rows >= 1 && rows <= GW_MLP_ROWS);
    for (uint32_t l = 0; l <= mlp->layers; l++)
        GW_ASSERT(mlp->width[l] >= 1 && mlp->width[l] <= GW_MLP_WIDTH);
    size_t bytes = gw_mlp_lane_bytes(mlp, rows);
    *lane = (gw_mlp_lane){.rows = rows};
    lane->memory = aligned_alloc(ALIGNMENT, bytes);
    if (lane->memory == NULL)
        return gw_fail(err, GW_E_NOMEM, "kernels/mlp: no memory for %zu bytes of scratch", bytes);
    memset(lane->memory, 0, bytes);
    gw_arena arena = {.base = lane->memory, .alignment = ALIGNMENT};
    lay_out(&arena, mlp, rows, lane);
    return true;
}

void gw_mlp_lane_close(gw_mlp_lane *lane) {
    free(lane->memory);
    *lane = (gw_mlp_lane){0};
}

GW_CLONES static void rectify(float *values, size_t count) {
    /* a NaN stays NaN */
    for (size_t i = 0; i < count; i++) values[i] = values[i] < 0.0f ? 0.0f : values[i];
}

/* Replaces the activations by the gradient, which passes where a unit was active. */
GW_CLONES static void pass_where_active(const float *restrict gradient, float *restrict active,
                                        size_t count) {
    for (size_t i = 0; i < count; i++) active[i] = active[i] > 0.0f ? gradient[i] : 0.0f;
}

GW_CLONES static void add_row(float *restrict sum, const float *restrict row, size_t columns) {
    for (size_t i = 0; i < columns; i++) sum[i] += row[i];
}

void gw_mlp_forward(const gw_mlp *mlp, const gw_mlp_parameters *parameters, gw_mlp_lane *lane,
                    uint32_t rows) {
    GW_ASSERT(rows >= 1 && rows <= lane->rows);
    for (uint32_t l = 0; l < mlp->layers; l++) {
        size_t in = mlp->width[l], out = mlp->width[l + 1];
        float *y = lane->activation[l + 1];
        for (size_t r = 0; r < rows; r++) memcpy(y + r * out, parameters->bias[l], out * sizeof(float));
        gw_blas_multiply(rows, out, in, (gw_operand){lane->activation[l], in, GW_PLAIN},
                         (gw_operand){parameters->weights[l], out, GW_PLAIN}, 1.0f, y, out);
        if (l + 1 < mlp->layers) rectify(y, rows * out);
    }
}

/* Emits a layer's bias and weight gradients from its inputs and the gradient of its outputs. */
static void emit_layer(const gw_mlp *mlp, const gw_mlp_gradients *gradients, gw_mlp_lane *lane,
                       uint32_t layer, uint32_t rows, gw_emitter *emitter) {
    size_t in = mlp->width[layer], out = mlp->width[layer + 1];
    const float *inputs = lane->activation[layer], *gradient = lane->activation[layer + 1];
    memcpy(lane->piece, gradient, out * sizeof(float));
    for (size_t r = 1; r < rows; r++) add_row(lane->piece, gradient + r * out, out);
    gw_emit(emitter, gradients->bias[layer], 0, out, lane->piece);
    size_t step = piece_rows(mlp, layer);
    for (size_t first = 0; first < in; first += step) {
        size_t count = in - first < step ? in - first : step;
        gw_blas_multiply(count, out, rows, (gw_operand){inputs + first, in, GW_TRANSPOSED},
                         (gw_operand){gradient, out, GW_PLAIN}, 0.0f, lane->piece, out);
        gw_emit(emitter, gradients->weights[layer], first * out, count * out, lane->piece);
    }
}

void gw_mlp_backward(const gw_mlp *mlp, const gw_mlp_parameters *parameters,
                     const gw_mlp_gradients *gradients, gw_mlp_lane *lane, uint32_t rows,
                     gw_emitter *emitter) {
    GW_ASSERT(rows >= 1 && rows <= lane->rows);
    for (uint32_t l = mlp->layers; l-- > 0;) {
        emit_layer(mlp, gradients, lane, l, rows, emitter);
        if (l == 0) break; /* the gradient of the inputs is not needed */
        size_t in = mlp->width[l], out = mlp->width[l + 1];
        gw_blas_multiply(rows, in, out, (gw_operand){lane->activation[l + 1], out, GW_PLAIN},
                         (gw_operand){parameters->weights[l], out, GW_TRANSPOSED}, 0.0f, lane->delta, in);
        pass_where_active(lane->delta, lane->activation[l], (size_t)rows * in);
    }
}
