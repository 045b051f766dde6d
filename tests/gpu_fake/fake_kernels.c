/* What the kernels compute, in the plainest way: one element after the other. */
#include "fake_cuda.h"

#include "core/rng.h"
#include "kernels/cuda/exact.h"
#include "kernels/cuda/gemm_finish.h"
#include "kernels/cuda/mlp_kernels.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/synthetic.h"
#include "kernels/jobs/digits_weight.h"
#include "kernels/jobs/synthetic_noise.h"
#include "kernels/loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A function that runs on the fields of a struct of its arguments. */
#define KERNEL(name, ...)                                                                                    \
    typedef struct name##_arguments {                                                                        \
        __VA_ARGS__                                                                                          \
    } name##_arguments;                                                                                      \
    static void run_##name(void *memory) {                                                                   \
        const name##_arguments *a = memory;
#define END }
#define START(name, stream, ...)                                                                             \
    fake_launch(stream, run_##name, &(name##_arguments){__VA_ARGS__}, sizeof(name##_arguments))

static void note_bad(const gw_cuda_piece *piece, uint64_t i) {
    if (piece->place + i < *piece->least) *piece->least = piece->place + i;
}

static void finish_add(const gw_cuda_piece *piece, gw_cuda_adding adding, const gw_exact_part *part,
                       const int64_t *rounded, int64_t *sum) {
    piece->found->fingerprint += part->fingerprint;
    piece->found->bad += part->bad;
    if (piece->of_shard != NULL) {
        piece->of_shard->fingerprint += part->fingerprint;
        piece->of_shard->bad += part->bad;
    }
    for (uint64_t i = 0; adding != GW_CUDA_LOOK && i < piece->count; i++)
        sum[i] = (int64_t)((adding == GW_CUDA_ADD ? (uint64_t)sum[i] : 0) + (uint64_t)rounded[i]);
}

KERNEL(add_floats, gw_cuda_piece piece; gw_cuda_adding adding; const float *values; int64_t * sum;)
gw_exact_part part = {0, 0};
int64_t q, *rounded = calloc(a->piece.count, sizeof *rounded);
gw_exact_add(&a->piece.format, a->piece.first, a->piece.count, a->values, rounded, &part);
for (uint64_t i = 0; i < a->piece.count; i++)
    if (!gw_exact_round(&a->piece.format, a->values[i], &q)) note_bad(&a->piece, i);
finish_add(&a->piece, a->adding, &part, rounded, a->sum);
free(rounded);
END

    cudaError_t
    gw_cuda_add_floats(const gw_cuda_piece *piece, gw_cuda_adding adding, const float *values, int64_t *sum,
                       cudaStream_t stream) {
    return START(add_floats, stream, *piece, adding, values, sum);
}

KERNEL(add_integers, gw_cuda_piece piece; gw_cuda_adding adding; const int64_t *values; int64_t * sum;)
gw_exact_part part = {0, 0};
int64_t q, *rounded = calloc(a->piece.count, sizeof *rounded);
gw_exact_add_integers(&a->piece.format, a->piece.first, a->piece.count, a->values, rounded, &part);
for (uint64_t i = 0; i < a->piece.count; i++)
    if (!gw_exact_round_integer(&a->piece.format, a->values[i], &q)) note_bad(&a->piece, i);
finish_add(&a->piece, a->adding, &part, rounded, a->sum);
free(rounded);
END

    cudaError_t
    gw_cuda_add_integers(const gw_cuda_piece *piece, gw_cuda_adding adding, const int64_t *values,
                         int64_t *sum, cudaStream_t stream) {
    return START(add_integers, stream, *piece, adding, values, sum);
}

KERNEL(fingerprint, uint64_t first, count; const void *words; unsigned long long *total;)
*a->total += gw_exact_fingerprint(a->first, a->count, a->words);
END

    cudaError_t
    gw_cuda_fingerprint(uint64_t first, uint64_t count, const void *words, unsigned long long *total,
                        cudaStream_t stream) {
    return START(fingerprint, stream, first, count, words, total);
}

KERNEL(to_floats, uint32_t frac_bits; uint64_t count; const int64_t *sum; float *values;)
gw_exact_to_float(a->frac_bits, a->count, a->sum, a->values);
END

    cudaError_t
    gw_cuda_to_floats(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values,
                      cudaStream_t stream) {
    return START(to_floats, stream, frac_bits, count, sum, values);
}

cudaError_t gw_cuda_code(uint32_t *made_for, int *compiled) {
    *made_for = 90;
    *compiled = 0;
    return cudaSuccess;
}

/* ---- products ---- */

KERNEL(add_bias, uint64_t rows, columns; const float *bias; bool relu; float *c;)
for (uint64_t i = 0; i < a->rows * a->columns; i++) {
    float value = a->c[i] + a->bias[i % a->columns];
    a->c[i] = a->relu && value < 0.0f ? 0.0f : value;
}
END

    cudaError_t
    gw_cuda_add_bias(uint64_t rows, uint64_t columns, const float *bias, bool relu, float *c,
                     cudaStream_t stream) {
    return START(add_bias, stream, rows, columns, bias, relu, c);
}

/* ---- optimizers ---- */

KERNEL(sgd, gw_sgd sgd; uint64_t count; const int64_t *sum; float *parameters, *velocity;)
gw_optimizer_sgd(&a->sgd, a->count, a->sum, a->parameters, a->velocity);
END

    cudaError_t
    gw_cuda_sgd(const gw_sgd *sgd, uint64_t count, const int64_t *sum, float *parameters, float *velocity,
                cudaStream_t stream) {
    return START(sgd, stream, *sgd, count, sum, parameters, velocity);
}

KERNEL(adamw, gw_adamw adamw; uint64_t count; const int64_t *sum; float *parameters, *first, *second;)
gw_optimizer_adamw(&a->adamw, a->count, a->sum, a->parameters, a->first, a->second);
END

    cudaError_t
    gw_cuda_adamw(const gw_adamw *adamw, uint64_t count, const int64_t *sum, float *parameters, float *first,
                  float *second, cudaStream_t stream) {
    return START(adamw, stream, *adamw, count, sum, parameters, first, second);
}

/* ---- perceptrons ---- */

static uint16_t bf16_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static void write_factor(gw_cuda_factor to, uint64_t i, float value) {
    if (to.bf16)
        ((uint16_t *)to.values)[i] = bf16_of(value);
    else
        ((float *)to.values)[i] = value;
}

KERNEL(normalise, uint64_t count; const uint8_t *pixels; float scale, shift; gw_cuda_factor values;)
for (uint64_t i = 0; i < a->count; i++) write_factor(a->values, i, (float)a->pixels[i] * a->scale + a->shift);
END

    cudaError_t
    gw_cuda_normalise(uint64_t count, const uint8_t *pixels, float scale, float shift, gw_cuda_factor values,
                      cudaStream_t stream) {
    return START(normalise, stream, count, pixels, scale, shift, values);
}

KERNEL(to_bf16, uint64_t count; const float *values; uint16_t * rounded;)
for (uint64_t i = 0; i < a->count; i++) a->rounded[i] = bf16_of(a->values[i]);
END

    cudaError_t
    gw_cuda_to_bf16(uint64_t count, const float *values, uint16_t *rounded, cudaStream_t stream) {
    return START(to_bf16, stream, count, values, rounded);
}

KERNEL(gate, uint64_t rows, columns; const float *above, *active; gw_cuda_factor gradient;
       float *parts, *sum;)
memset(a->parts, 0, gw_cuda_parts(a->rows) * a->columns * sizeof *a->parts);
memset(a->sum, 0, a->columns * sizeof *a->sum);
for (uint64_t i = 0; i < a->rows * a->columns; i++) {
    float value = a->active == NULL || a->active[i] > 0.0f ? a->above[i] : 0.0f;
    a->parts[i / a->columns / GW_CUDA_PART_ROWS * a->columns + i % a->columns] += value;
    write_factor(a->gradient, i, value);
}
for (uint64_t i = 0; i < gw_cuda_parts(a->rows) * a->columns; i++) a->sum[i % a->columns] += a->parts[i];
END

    cudaError_t
    gw_cuda_gate(uint64_t rows, uint64_t columns, const float *above, const float *active,
                 gw_cuda_factor gradient, float *parts, float *sum, cudaStream_t stream) {
    return START(gate, stream, rows, columns, above, active, gradient, parts, sum);
}

KERNEL(softmax_loss, uint64_t rows; uint32_t classes; float *logits; const uint8_t *labels; float scale;
       double *of_row; gw_cuda_loss * loss;)
gw_loss loss = gw_loss_softmax(a->logits, a->labels, a->rows, a->classes, a->scale);
memset(a->of_row, 0, a->rows * sizeof *a->of_row);
*a->loss = (gw_cuda_loss){.correct = loss.correct, .count = (int64_t)a->rows, .sum = (float)loss.sum};
END

    cudaError_t
    gw_cuda_softmax_loss(uint64_t rows, uint32_t classes, float *logits, const uint8_t *labels, float scale,
                         double *of_row, gw_cuda_loss *loss, cudaStream_t stream) {
    return START(softmax_loss, stream, rows, classes, logits, labels, scale, of_row, loss);
}

KERNEL(uniform, uint64_t key, group; double bound; uint64_t count; float *values;)
for (uint64_t i = 0; i < a->count; i++)
    a->values[i] = digits_weight(gw_philox_at(a->key, a->group, i / 4).words[i % 4], a->bound);
END

    cudaError_t
    gw_cuda_uniform(uint64_t key, uint64_t group, double bound, uint64_t count, float *values,
                    cudaStream_t stream) {
    return START(uniform, stream, key, group, bound, count, values);
}

KERNEL(set_double, double *to; double value;)
*a->to = a->value;
END

    cudaError_t
    gw_cuda_set_double(double *to, double value, cudaStream_t stream) {
    return START(set_double, stream, to, value);
}

/* ---- the synthetic job ---- */

KERNEL(cells, uint64_t key, count; float *cells;)
for (uint64_t i = 0; i < a->count; i++) a->cells[i] = synthetic_noise(a->key, i);
END

    cudaError_t
    gw_cuda_synthetic_cells(uint64_t key, uint64_t count, float *cells, cudaStream_t stream) {
    return START(cells, stream, key, count, cells);
}

KERNEL(digest, uint64_t count; int64_t * digest;)
for (uint64_t i = 0; i < a->count; i++) a->digest[i] = (int64_t)i;
END

    cudaError_t
    gw_cuda_synthetic_digest(uint64_t count, int64_t *digest, cudaStream_t stream) {
    return START(digest, stream, count, digest);
}

KERNEL(push, uint64_t key, count, bad; const float *cells; float *push; double *parts; float *mean;)
double energy = 0;
for (uint64_t i = 0; i < a->count; i++) {
    float value = synthetic_push(a->key, i, a->cells[i]);
    energy += (double)value * (double)value;
    a->push[i] = i == a->bad ? NAN : value;
}
memset(a->parts, 0, GW_CUDA_SYNTHETIC_PARTS * sizeof *a->parts);
*a->mean = (float)(energy / (double)a->count);
END

    cudaError_t
    gw_cuda_synthetic_push(uint64_t key, uint64_t count, uint64_t bad, const float *cells, float *push,
                           double *parts, float *mean, cudaStream_t stream) {
    return START(push, stream, key, count, bad, cells, push, parts, mean);
}

KERNEL(follow, uint64_t count, pushed; const int64_t *push; double scale; float *cells;)
for (uint64_t i = 0; i < a->count; i++)
    a->cells[i] = synthetic_follow(a->cells[i], a->push[i % a->pushed], a->scale);
END

    cudaError_t
    gw_cuda_synthetic_follow(uint64_t count, uint64_t pushed, const int64_t *push, double scale, float *cells,
                             cudaStream_t stream) {
    return START(follow, stream, count, pushed, push, scale, cells);
}

KERNEL(chain, uint64_t words, pushed; const int64_t *push, *counted; int64_t * digest;)
for (uint64_t k = 0; k < a->words; k++) {
    uint64_t chain = (uint64_t)a->digest[k];
    for (uint64_t i = k; i < a->pushed; i += a->words) chain = synthetic_chain(chain, a->push[i]);
    a->digest[k] = (int64_t)synthetic_chain(chain, *a->counted);
}
END

    cudaError_t
    gw_cuda_synthetic_chain(uint64_t words, uint64_t pushed, const int64_t *push, const int64_t *counted,
                            int64_t *digest, cudaStream_t stream) {
    return START(chain, stream, words, pushed, push, counted, digest);
}
