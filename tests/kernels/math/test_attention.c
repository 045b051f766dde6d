/* Attention against its definition in double: outputs, and gradients by finite differences. */
#include "kernels/math/attention.h"

#include "tests/kernels/math/slopes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A loss that is linear in the output. */
typedef struct attend {
    gw_attention shape;
    double *qkv, *dout, *out;
    uint8_t *kept; /* dropout's factor of each weight, [sequence, head, query, key] */
} attend;

static double loss(const void *context) {
    const attend *a = context;
    const gw_attention *s = &a->shape;
    size_t width = s->channels / s->heads;
    double sum = 0.0, *weight = malloc(s->positions * sizeof *weight);
    for (size_t row = 0; row < s->sequences * s->positions; row++)
        for (size_t h = 0; h < s->heads; h++) {
            size_t start = row / s->positions * s->positions, count = row - start + 1;
            const double *q = a->qkv + row * 3 * s->channels + h * width;
            double total = 0.0;
            for (size_t k = 0; k < count; k++) {
                const double *key = a->qkv + ((start + k) * 3 + 1) * s->channels + h * width;
                double score = 0.0;
                for (size_t i = 0; i < width; i++) score += q[i] * key[i];
                weight[k] = exp(score / sqrt((double)width));
                total += weight[k];
            }
            size_t masks =
                ((start / s->positions * s->heads + h) * s->positions + row - start) * s->positions;
            for (size_t i = 0; i < width; i++) {
                double out = 0.0, keep = 1.0 - (double)s->dropout.rate;
                for (size_t k = 0; k < count; k++)
                    if (a->kept[masks + k])
                        out += weight[k] / total / keep *
                               a->qkv[((start + k) * 3 + 2) * s->channels + h * width + i];
                a->out[row * s->channels + h * width + i] = out;
                sum += out * a->dout[row * s->channels + h * width + i];
            }
        }
    free(weight);
    return sum;
}

static uint8_t *kept_by(const gw_attention *s) {
    size_t count = s->sequences * s->heads * s->positions * s->positions;
    uint8_t *kept = malloc(count);
    for (size_t i = 0; i < count; i++) {
        float one = 1.0f;
        gw_dropout_apply(&s->dropout, i, 1, &one);
        kept[i] = one > 0.0f;
    }
    return kept;
}

static void check(gw_attention shape, double spread, size_t stride) {
    size_t rows = shape.sequences * shape.positions, in = rows * 3 * shape.channels,
           out = rows * shape.channels;
    attend a = {shape, malloc(in * sizeof(double)), malloc(out * sizeof(double)),
                malloc(out * sizeof(double)), kept_by(&shape)};
    float *qkv = malloc(in * sizeof *qkv), *dqkv = malloc(in * sizeof *dqkv), *y = malloc(out * sizeof *y);
    float *dout = malloc(out * sizeof *dout), *norms = malloc(rows * shape.heads * sizeof *norms);
    float *scratch = malloc(gw_attention_scratch(&shape) * sizeof *scratch);
    slopes_fill(1, in, spread, a.qkv, qkv);
    slopes_fill(2, out, 1.0, a.dout, dout);
    memset(dqkv, 0xff, in * sizeof *dqkv); /* every element is written */
    gw_attention_forward(&shape, qkv, y, norms, scratch);
    gw_attention_backward(&shape, qkv, y, norms, dout, dqkv, scratch);
    loss(&a);
    for (size_t i = 0; i < out; i++)
        cr_assert_float_eq((double)y[i], a.out[i], 2e-6 * spread * spread, "out[%zu]: %g, not %g", i,
                           (double)y[i], a.out[i]);
    for (size_t i = 0; i < in; i++) cr_assert(isfinite(dqkv[i]));
    slopes_check(loss, &a, a.qkv, in, stride, dqkv, 1e-5 * spread * spread, "dqkv");
    free(a.qkv);
    free(a.dout);
    free(a.out);
    free(a.kept);
    free(qkv);
    free(dqkv);
    free(y);
    free(dout);
    free(norms);
    free(scratch);
}

Test(attention, agrees_with_its_definition_within_one_block) {
    check((gw_attention){.sequences = 2, .positions = 9, .heads = 3, .channels = 15}, 1.5, 1);
    check((gw_attention){.sequences = 1, .positions = 64, .heads = 1, .channels = 16}, 1.5, 13);
    check((gw_attention){.sequences = 3, .positions = 1, .heads = 2, .channels = 8}, 1.5, 1);
}

Test(attention, agrees_with_its_definition_over_several_blocks) {
    check((gw_attention){.sequences = 2, .positions = 2 * GW_ATTENTION_BLOCK + 5, .heads = 2, .channels = 34},
          2.0, 311);
}

/* The exponentials of scores above 88 overflow unless the largest score is subtracted, also where a later
 * block has a larger one. */
Test(attention, large_scores_do_not_overflow) {
    check((gw_attention){.sequences = 1, .positions = 2 * GW_ATTENTION_BLOCK, .heads = 1, .channels = 64},
          8.0, 1999);
}

Test(attention, dropped_weights_have_no_part_in_either_pass) {
    check((gw_attention){.sequences = 2,
                         .positions = GW_ATTENTION_BLOCK + 3,
                         .heads = 2,
                         .channels = 12,
                         .dropout = {.rate = 0.3f, .key = 7, .stream = 8}},
          1.5, 97);
}
