/* Compares the whole model with a forward pass in double: its loss, and every gradient by finite differences.
 */
#include "kernels/model/gpt/gpt.h"

#include "core/rng.h"
#include "kernels/math/dropout.h"
#include "tests/kernels/catcher.h"
#include "tests/kernels/math/slopes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS_MOST = 16, CONTEXT_MOST = 8, VOCABULARY_MOST = 16 };

/* The numbers of a layer's parameters and of the last norm's. */
enum { WORDS = 0, PLACES = 1, FIRST = 2, PARTS = 12 };

typedef struct model {
    gw_gpt gpt;
    uint32_t sequences, parameters;
    float dropout;
    double *wide[GW_GPT_PARAMETERS];
    float *narrow[GW_GPT_PARAMETERS];
    uint64_t size[GW_GPT_PARAMETERS];
    uint32_t tokens[64], targets[64];
} model;

static const uint64_t key = 99;
static const uint32_t shard = 3;

/* Dropout's factor, 0 or 1 / (1 - rate), by the element's number in the site. */
static double keep(const model *m, uint32_t site, uint64_t element) {
    float one = 1.0f;
    gw_dropout dropout = {m->dropout, key, (uint64_t)shard << 32 | site};
    gw_dropout_apply(&dropout, element, 1, &one);
    return (double)one;
}

static void norm(const double *x, size_t rows, size_t c, const double *w, const double *b, double *y) {
    for (size_t r = 0; r < rows; r++) {
        double mean = 0.0, variance = 0.0;
        for (size_t i = 0; i < c; i++) mean += x[r * c + i] / (double)c;
        for (size_t i = 0; i < c; i++) variance += (x[r * c + i] - mean) * (x[r * c + i] - mean) / (double)c;
        for (size_t i = 0; i < c; i++)
            y[r * c + i] = (x[r * c + i] - mean) / sqrt(variance + 1e-5) * w[i] + b[i];
    }
}

static void linear(const double *x, size_t rows, size_t in, size_t out, const double *w, const double *b,
                   double *y) {
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++) {
            double sum = b[o];
            for (size_t i = 0; i < in; i++) sum += x[r * in + i] * w[i * out + o];
            y[r * out + o] = sum;
        }
}

static void attend(const model *m, uint32_t layer, const double *qkv, double *out) {
    size_t t = m->gpt.context, c = m->gpt.channels, heads = m->gpt.heads, width = c / heads;
    memset(out, 0, m->sequences * t * c * sizeof *out);
    for (size_t s = 0; s < m->sequences; s++)
        for (size_t h = 0; h < heads; h++)
            for (size_t q = 0; q < t; q++) {
                double weight[CONTEXT_MOST], total = 0.0;
                for (size_t k = 0; k <= q; k++) {
                    const double *query = qkv + (s * t + q) * 3 * c + h * width,
                                 *keys = qkv + ((s * t + k) * 3 + 1) * c + h * width;
                    double score = 0.0;
                    for (size_t i = 0; i < width; i++) score += query[i] * keys[i];
                    total += weight[k] = exp(score / sqrt((double)width));
                }
                for (size_t k = 0; k <= q; k++) {
                    double share =
                        weight[k] / total * keep(m, 4 * layer + 1, ((s * heads + h) * t + q) * t + k);
                    for (size_t i = 0; i < width; i++)
                        out[(s * t + q) * c + h * width + i] +=
                            share * qkv[((s * t + k) * 3 + 2) * c + h * width + i];
                }
            }
}

static double loss(const void *context) {
    const model *m = context;
    size_t t = m->gpt.context, c = m->gpt.channels, v = m->gpt.vocabulary, rows = m->sequences * t;
    double *x = malloc(rows * c * sizeof *x), *n = malloc(rows * c * sizeof *n);
    double *wide = malloc(rows * 4 * c * sizeof *wide), *y = malloc(rows * c * sizeof *y), sum = 0.0;
    for (size_t i = 0; i < rows * c; i++)
        x[i] = (m->wide[WORDS][m->tokens[i / c] * c + i % c] + m->wide[PLACES][i / c % t * c + i % c]) *
               keep(m, 0, i);
    for (uint32_t l = 0; l < m->gpt.layers; l++) {
        double *const *p = &m->wide[FIRST + PARTS * l];
        norm(x, rows, c, p[0], p[1], n);
        linear(n, rows, c, 3 * c, p[2], p[3], wide);
        attend(m, l, wide, n);
        linear(n, rows, c, c, p[4], p[5], y);
        for (size_t i = 0; i < rows * c; i++) x[i] += y[i] * keep(m, 4 * l + 2, i);
        norm(x, rows, c, p[6], p[7], n);
        linear(n, rows, c, 4 * c, p[8], p[9], wide);
        for (size_t i = 0; i < rows * 4 * c; i++) {
            double u = wide[i];
            wide[i] = 0.5 * u * (1.0 + tanh(sqrt(2.0 / M_PI) * (u + 0.044715 * u * u * u)));
        }
        linear(wide, rows, 4 * c, c, p[10], p[11], y);
        for (size_t i = 0; i < rows * c; i++) x[i] += y[i] * keep(m, 4 * l + 3, i);
    }
    norm(x, rows, c, m->wide[m->parameters - 2], m->wide[m->parameters - 1], n);
    for (size_t r = 0; r < rows; r++) {
        double logit[VOCABULARY_MOST], total = 0.0;
        for (size_t w = 0; w < v; w++) {
            logit[w] = 0.0;
            for (size_t i = 0; i < c; i++) logit[w] += n[r * c + i] * m->wide[WORDS][w * c + i];
            total += exp(logit[w]);
        }
        sum += log(total) - logit[m->targets[r]];
    }
    free(x);
    free(n);
    free(wide);
    free(y);
    return sum;
}

static model *make(gw_gpt gpt, uint32_t sequences, float dropout) {
    model *m = calloc(1, sizeof *m);
    m->gpt = gpt;
    m->sequences = sequences;
    m->dropout = dropout;
    m->parameters = gw_gpt_parameters(&gpt);
    for (uint32_t i = 0; i < m->parameters; i++) {
        gw_gpt_parameter p = gw_gpt_parameter_of(&gpt, i);
        m->size[i] = p.dim[0] * (p.rank == 2 ? p.dim[1] : 1);
        m->wide[i] = malloc(m->size[i] * sizeof(double));
        m->narrow[i] = malloc(m->size[i] * sizeof(float));
        slopes_fill(i, m->size[i], 0.5, m->wide[i], m->narrow[i]);
        for (uint64_t k = 0; k < m->size[i]; k++) { /* norms' weights are near 1, the rest near 0 */
            m->narrow[i][k] += p.constant;
            m->wide[i][k] = (double)m->narrow[i][k];
        }
    }
    gw_rng rng = gw_rng_seeded(1);
    for (size_t r = 0; r < sequences * gpt.context; r++) {
        m->tokens[r] = (uint32_t)gw_rng_below(&rng, gpt.vocabulary);
        m->targets[r] = (uint32_t)gw_rng_below(&rng, gpt.vocabulary);
    }
    return m;
}

static void destroy(model *m) {
    for (uint32_t i = 0; i < m->parameters; i++) {
        free(m->wide[i]);
        free(m->narrow[i]);
    }
    free(m);
}

static catcher *compute(const model *m, bool recompute, double *sum) {
    gw_gpt_lane lane;
    gw_err err;
    cr_assert(gw_gpt_lane_open(&m->gpt, m->sequences + 1, recompute, &lane, &err), "%s", err.text);
    memcpy(lane.tokens, m->tokens, sizeof(uint32_t) * m->sequences * m->gpt.context);
    memcpy(lane.targets, m->targets, sizeof(uint32_t) * m->sequences * m->gpt.context);
    uint32_t gradients[GW_GPT_PARAMETERS];
    for (uint32_t i = 0; i < m->parameters; i++) gradients[i] = i;
    const gw_gpt_pass pass = {.gpt = &m->gpt,
                              .parameters = (const float *const *)m->narrow,
                              .lane = &lane,
                              .sequences = m->sequences,
                              .dropout = m->dropout,
                              .key = key,
                              .shard = shard};
    catcher *c = catcher_make(m->parameters, m->size);
    *sum = gw_gpt_forward(&pass, 1.0f);
    gw_gpt_backward(&pass, gradients, &c->emitter);
    catcher_whole(c);
    gw_gpt_lane_close(&lane);
    return c;
}

static void check(gw_gpt gpt, uint32_t sequences, float dropout, size_t stride) {
    model *m = make(gpt, sequences, dropout);
    double sum;
    catcher *c = compute(m, false, &sum);
    cr_assert_float_eq(sum, loss(m), 1e-5 * sum, "%g, not %g", sum, loss(m));
    for (uint32_t i = 0; i < m->parameters; i++)
        slopes_check(loss, m, m->wide[i], m->size[i], m->size[i] > 20 ? stride : 1, c->values[i], 1e-4,
                     gw_gpt_parameter_of(&gpt, i).name);
    uint32_t bucket = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t next = gw_gpt_parameter_of(&gpt, c->order[i]).bucket;
        cr_assert_geq(next, bucket, "%s is emitted too late", gw_gpt_parameter_of(&gpt, c->order[i]).name);
        bucket = next;
    }
    catcher_free(c);
    destroy(m);
}

Test(gpt, gradients_agree_with_finite_differences) {
    check((gw_gpt){.layers = 2, .heads = 3, .channels = 12, .context = 5, .vocabulary = 11}, 3, 0.0f, 7);
    check((gw_gpt){.layers = 1, .heads = 1, .channels = 16, .context = 8, .vocabulary = 16}, 1, 0.0f, 7);
    check((gw_gpt){.layers = 3, .heads = 2, .channels = 4, .context = 1, .vocabulary = 2}, 2, 0.0f, 3);
}

Test(gpt, dropped_values_have_no_part_in_either_pass) {
    check((gw_gpt){.layers = 2, .heads = 2, .channels = 8, .context = 6, .vocabulary = 9}, 2, 0.25f, 7);
}

Test(gpt, computing_layers_twice_gives_the_same_bytes) {
    for (int dropout = 0; dropout < 2; dropout++) {
        model *m = make((gw_gpt){.layers = 4, .heads = 2, .channels = 16, .context = 8, .vocabulary = 13}, 4,
                        dropout ? 0.2f : 0.0f);
        double first, second;
        catcher *kept = compute(m, false, &first), *again = compute(m, true, &second);
        cr_assert_eq(first, second);
        for (uint32_t i = 0; i < m->parameters; i++)
            cr_assert_arr_eq(kept->values[i], again->values[i], m->size[i] * sizeof(float));
        catcher_free(kept);
        catcher_free(again);
        destroy(m);
    }
    gw_gpt gpt = {.layers = 12, .heads = 12, .channels = 768, .context = 1024, .vocabulary = 50257};
    cr_assert_lt(gw_gpt_lane_bytes(&gpt, 1, true), gw_gpt_lane_bytes(&gpt, 1, false) / 2);
}

Test(gpt, sizes_are_those_of_the_published_models) {
    gw_gpt gpt = {.layers = 12, .heads = 12, .channels = 768, .context = 1024, .vocabulary = 50257};
    cr_assert_eq(gw_gpt_size(&gpt), 124439808);
    gpt = (gw_gpt){.layers = 48, .heads = 25, .channels = 1600, .context = 1024, .vocabulary = 50257};
    cr_assert_eq(gw_gpt_size(&gpt), 1557611200);
}
