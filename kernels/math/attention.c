#include "kernels/math/attention.h"

#include "core/base/assert.h"
#include "kernels/math/blas.h"
#include "kernels/math/clones.h"
#include "kernels/math/vector.h"
#include "kernels/math/vmath.h"

#include <stdbool.h>

enum { BLOCK = GW_ATTENTION_BLOCK };

/* One head of one sequence. Query, key and value rows are `stride` apart. */
typedef struct head {
    const gw_attention *shape;
    size_t width, stride;
    const float *query, *key, *value;
    uint64_t number; /* number of the head among those of all sequences */
    float scale;
} head;

static head head_of(const gw_attention *shape, const float *qkv, size_t sequence, size_t number) {
    size_t width = shape->channels / shape->heads, stride = 3 * shape->channels;
    const float *query = qkv + sequence * shape->positions * stride + number * width;
    return (head){.shape = shape,
                  .width = width,
                  .stride = stride,
                  .query = query,
                  .key = query + shape->channels,
                  .value = query + 2 * shape->channels,
                  .number = sequence * shape->heads + number,
                  .scale = 1.0f / __builtin_sqrtf((float)width)};
}

static size_t block_rows(const gw_attention *shape, size_t first) {
    size_t left = shape->positions - first;
    return left < BLOCK ? left : BLOCK;
}

/* Computes a block of scores, [rows, columns] without gaps, of the queries from `q` and the keys from `k`. */
static void scores_of(const head *h, size_t q, size_t rows, size_t k, size_t columns, float *scores) {
    gw_blas_multiply(rows, columns, h->width, (gw_operand){h->query + q * h->stride, h->stride, GW_PLAIN},
                     (gw_operand){h->key + k * h->stride, h->stride, GW_TRANSPOSED}, 0.0f, scores, columns);
    if (q != k) return;
    for (size_t r = 0; r < rows; r++) /* the mask is causal: a query has no weight on later keys */
        for (size_t c = r + 1; c < columns; c++) scores[r * columns + c] = -__builtin_inff();
}

static void drop(const head *h, size_t q, size_t rows, size_t k, size_t columns, float *weights) {
    if (h->shape->dropout.rate <= 0.0f) return;
    for (size_t r = 0; r < rows; r++)
        gw_dropout_apply(&h->shape->dropout,
                         (h->number * h->shape->positions + q + r) * h->shape->positions + k, columns,
                         weights + r * columns);
}

/* The state of the online softmax of a block of queries, by row: the largest score so far, and the sum of
 * e^(score - largest). */
typedef struct progress {
    float largest[BLOCK], total[BLOCK];
} progress;

/* Turns scores into weights e^(scaled score - largest), and rescales `out` [rows, width], rows `stride`
 * apart, which holds the sums so far. */
GW_CLONES static void weigh(size_t rows, size_t columns, float scale, bool first, float *restrict scores,
                            progress *restrict p, float *restrict out, size_t width, size_t stride) {
    size_t whole = columns / GW_VECTOR_ELEMENTS * GW_VECTOR_ELEMENTS;
    for (size_t r = 0; r < rows; r++, scores += columns, out += stride) {
        for (size_t c = 0; c < columns; c++) scores[c] *= scale;
        float before = first ? scores[0] : p->largest[r];
        float largest = gw_vector_largest(scores, columns, before);
        for (size_t c = 0; c < columns; c++) scores[c] = gw_expf_quick(scores[c] - largest);
        gw_vector sum = {0.0f};
        for (size_t c = 0; c < whole; c += GW_VECTOR_ELEMENTS) sum += *(const gw_vector *)(scores + c);
        for (size_t c = whole; c < columns; c++) sum[c - whole] += scores[c];
        float total = gw_vector_sum(&sum);
        if (!first) {
            float shrink = gw_expf_quick(before - largest);
            total += p->total[r] * shrink;
            for (size_t i = 0; i < width; i++) out[i] *= shrink;
        }
        p->largest[r] = largest;
        p->total[r] = total;
    }
}

GW_CLONES static void finish(size_t rows, const progress *p, float *restrict out, size_t width, size_t stride,
                             float *restrict norms, size_t norm_stride) {
    for (size_t r = 0; r < rows; r++, out += stride) {
        float share = 1.0f / p->total[r];
        for (size_t i = 0; i < width; i++) out[i] *= share;
        norms[r * norm_stride] = p->largest[r] + (float)gw_log((double)p->total[r]);
    }
}

size_t gw_attention_scratch(const gw_attention *shape) {
    return 2 * (size_t)BLOCK * BLOCK + shape->positions;
}

static void forward_head(const head *h, float *out, float *norms, float *scores) {
    const gw_attention *shape = h->shape;
    for (size_t q = 0; q < shape->positions; q += BLOCK) {
        size_t rows = block_rows(shape, q), stride = shape->channels;
        progress p;
        float *to = out + q * stride;
        for (size_t k = 0; k <= q; k += BLOCK) {
            size_t columns = block_rows(shape, k);
            scores_of(h, q, rows, k, columns, scores);
            weigh(rows, columns, h->scale, k == 0, scores, &p, to, h->width, stride);
            drop(h, q, rows, k, columns, scores);
            gw_blas_multiply(rows, h->width, columns, (gw_operand){scores, columns, GW_PLAIN},
                             (gw_operand){h->value + k * h->stride, h->stride, GW_PLAIN},
                             k == 0 ? 0.0f : 1.0f, to, stride);
        }
        finish(rows, &p, to, h->width, stride, norms + q * shape->heads, shape->heads);
    }
}

void gw_attention_forward(const gw_attention *shape, const float *qkv, float *out, float *norms,
                          float *scratch) {
    GW_ASSERT(shape->channels % shape->heads == 0);
    for (size_t s = 0; s < shape->sequences; s++)
        for (size_t n = 0; n < shape->heads; n++) {
            head h = head_of(shape, qkv, s, n);
            size_t row = s * shape->positions;
            forward_head(&h, out + row * shape->channels + n * h.width, norms + row * shape->heads + n,
                         scratch);
        }
}

/* Recomputes weights from scores and each row's normaliser. */
GW_CLONES static void recompute_weights(size_t rows, size_t columns, float scale, float *restrict scores,
                                        const float *restrict norms, size_t norm_stride) {
    for (size_t r = 0; r < rows; r++, scores += columns) {
        float norm = norms[r * norm_stride];
        for (size_t c = 0; c < columns; c++) scores[c] = gw_expf_quick(scores[c] * scale - norm);
    }
}

/* Replaces the gradient of the weights by that of the unscaled scores. */
GW_CLONES static void softmax_backward(size_t rows, size_t columns, float scale,
                                       const float *restrict weights, const float *restrict inner,
                                       float *restrict gradient) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            size_t i = r * columns + c;
            gradient[i] = weights[i] * (gradient[i] - inner[r]) * scale;
        }
}

/* Sets inner[r] to the dot product of out[r] and dout[r]. It equals the mean of the row's weight gradients
 * under its weights, which the softmax's gradient needs. */
GW_CLONES static void inner_products(size_t rows, size_t width, size_t stride, const float *restrict out,
                                     const float *restrict dout, float *restrict inner) {
    size_t whole = width / GW_VECTOR_ELEMENTS * GW_VECTOR_ELEMENTS;
    for (size_t r = 0; r < rows; r++, out += stride, dout += stride) {
        gw_vector sum = {0.0f};
        for (size_t i = 0; i < whole; i += GW_VECTOR_ELEMENTS)
            sum += *(const gw_vector *)(out + i) * *(const gw_vector *)(dout + i);
        for (size_t i = whole; i < width; i++) sum[i - whole] += out[i] * dout[i];
        inner[r] = gw_vector_sum(&sum);
    }
}

/* Adds the contribution of a block of queries and a block of keys to the gradients of both, parts of dqkv,
 * which is laid out as qkv. */
static void backward_block(const head *h, size_t q, size_t k, const float *norms, const float *dout,
                           const float *inner, float *dquery, float *scratch) {
    const gw_attention *shape = h->shape;
    size_t rows = block_rows(shape, q), columns = block_rows(shape, k);
    float *weights = scratch, *gradient = scratch + (size_t)BLOCK * BLOCK;
    float *dkey = dquery + shape->channels, *dvalue = dkey + shape->channels;
    gw_operand dout_rows = {dout + q * shape->channels, shape->channels, GW_PLAIN};
    scores_of(h, q, rows, k, columns, weights);
    recompute_weights(rows, columns, h->scale, weights, norms + q * shape->heads, shape->heads);
    gw_blas_multiply(rows, columns, h->width, dout_rows,
                     (gw_operand){h->value + k * h->stride, h->stride, GW_TRANSPOSED}, 0.0f, gradient,
                     columns);
    drop(h, q, rows, k, columns, gradient);
    softmax_backward(rows, columns, h->scale, weights, inner + q, gradient);
    drop(h, q, rows, k, columns, weights);
    gw_operand weights_transposed = {weights, columns, GW_TRANSPOSED};
    gw_operand gradient_transposed = {gradient, columns, GW_TRANSPOSED};
    gw_blas_multiply(columns, h->width, rows, weights_transposed, dout_rows, q == k ? 0.0f : 1.0f,
                     dvalue + k * h->stride, h->stride);
    gw_blas_multiply(columns, h->width, rows, gradient_transposed,
                     (gw_operand){h->query + q * h->stride, h->stride, GW_PLAIN}, q == k ? 0.0f : 1.0f,
                     dkey + k * h->stride, h->stride);
    gw_blas_multiply(rows, h->width, columns, (gw_operand){gradient, columns, GW_PLAIN},
                     (gw_operand){h->key + k * h->stride, h->stride, GW_PLAIN}, k == 0 ? 0.0f : 1.0f,
                     dquery + q * h->stride, h->stride);
}

void gw_attention_backward(const gw_attention *shape, const float *qkv, const float *out, const float *norms,
                           const float *dout, float *dqkv, float *scratch) {
    float *inner = scratch + 2 * (size_t)BLOCK * BLOCK;
    for (size_t s = 0; s < shape->sequences; s++)
        for (size_t n = 0; n < shape->heads; n++) {
            head h = head_of(shape, qkv, s, n);
            size_t row = s * shape->positions, first = row * shape->channels + n * h.width;
            inner_products(shape->positions, h.width, shape->channels, out + first, dout + first, inner);
            for (size_t k = 0; k < shape->positions; k += BLOCK)
                for (size_t q = k; q < shape->positions; q += BLOCK)
                    backward_block(&h, q, k, norms + row * shape->heads + n, dout + first, inner,
                                   dqkv + (h.query - qkv), scratch);
        }
}
