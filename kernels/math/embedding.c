#include "kernels/math/embedding.h"

#include "core/base/assert.h"
#include "kernels/math/blas.h"
#include "kernels/math/clones.h"
#include "kernels/math/linear.h"

#include <stdlib.h>
#include <string.h>

GW_CLONES static void add(size_t count, const float *restrict x, float *restrict sum) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

void gw_embedding_forward(const gw_embedding *shape, const uint32_t *tokens, const float *words,
                          const float *places, float *x) {
    size_t channels = shape->channels;
    for (size_t r = 0; r < shape->sequences * shape->positions; r++, x += channels) {
        GW_ASSERT(tokens[r] < shape->vocabulary);
        memcpy(x, words + tokens[r] * channels, channels * sizeof *x);
        add(channels, places + r % shape->positions * channels, x);
    }
}

/* The number of rows of an embedding matrix in a piece. */
static size_t piece_rows(size_t rows, size_t channels) {
    return gw_linear_piece(rows, channels) / channels;
}

size_t gw_embedding_piece(const gw_embedding *shape) {
    size_t words = gw_linear_piece(shape->vocabulary, shape->channels),
           places = gw_linear_piece(shape->positions, shape->channels);
    return words > places ? words : places;
}

void gw_embedding_emit_positions(const gw_embedding *shape, const float *dx, uint32_t dplaces, float *piece,
                                 gw_emitter *emitter) {
    size_t channels = shape->channels, step = piece_rows(shape->positions, channels);
    for (size_t first = 0; first < shape->positions; first += step) {
        size_t count = (shape->positions - first < step ? shape->positions - first : step) * channels;
        memcpy(piece, dx + first * channels, count * sizeof *piece);
        for (size_t s = 1; s < shape->sequences; s++)
            add(count, dx + (s * shape->positions + first) * channels, piece);
        gw_emit(emitter, dplaces, first * channels, count, piece);
    }
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the rows by token, and the rows of one token in order: token << 32 | row. */
static void sort_rows(size_t rows, const uint32_t *tokens, uint64_t *sorted) {
    for (size_t r = 0; r < rows; r++) sorted[r] = (uint64_t)tokens[r] << 32 | r;
    qsort(sorted, rows, sizeof *sorted, compare); /* all numbers differ, so the result is unique */
}

void gw_embedding_group(size_t rows, const uint32_t *tokens, uint64_t *sorted, uint32_t *order,
                        uint32_t *starts) {
    size_t distinct = 0;
    sort_rows(rows, tokens, sorted);
    for (size_t i = 0; i < rows; i++) {
        order[i] = (uint32_t)sorted[i];
        if (i == 0 || sorted[i] >> 32 != sorted[i - 1] >> 32) starts[distinct++] = (uint32_t)i;
    }
    for (; distinct <= rows; distinct++) starts[distinct] = (uint32_t)rows;
}

void gw_embedding_emit_tokens(const gw_embedding *shape, const uint32_t *tokens, const float *dx,
                              const float *dlogits, size_t stride, const float *hidden, uint32_t dwords,
                              float *piece, uint64_t *order, gw_emitter *emitter) {
    size_t channels = shape->channels, rows = shape->sequences * shape->positions;
    size_t step = piece_rows(shape->vocabulary, channels), next = 0;
    sort_rows(rows, tokens, order);
    for (size_t first = 0; first < shape->vocabulary; first += step) {
        size_t count = shape->vocabulary - first < step ? shape->vocabulary - first : step;
        gw_blas_multiply(count, channels, rows, (gw_operand){dlogits + first, stride, GW_TRANSPOSED},
                         (gw_operand){hidden, channels, GW_PLAIN}, 0.0f, piece, channels);
        for (; next < rows && order[next] >> 32 < first + count; next++)
            add(channels, dx + (order[next] & UINT32_MAX) * channels,
                piece + ((order[next] >> 32) - first) * channels);
        gw_emit(emitter, dwords, first * channels, count * channels, piece);
    }
}
