/* Attention against its definition in float64: ‖gpu − definition‖ / ‖definition‖ below 1e-5 in float32 and
 * 1e-2 in bfloat16, for outputs, normalisers and the gradients of queries, keys and values. Sizes around the
 * kernels' tiles of 32, 64 and 128 rows. */
#include "tests/gpu/rig.h"

#include "kernels/cuda/math/attention.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The inputs and results of the definition, with the layouts of kernels/cuda/math/attention.h. */
typedef struct sample {
    gw_cuda_attention shape;
    size_t rows, width;
    float *qkv, *dout;
    double *out, *norms, *dqkv;
} sample;

static double *doubles(size_t count) {
    double *values = calloc(count, sizeof *values);
    cr_assert_not_null(values);
    return values;
}

/* Random values that are exact in bfloat16. */
static float *inputs(uint64_t seed, size_t count, float size) {
    float *values = malloc(count * sizeof *values);
    cr_assert_not_null(values);
    gpu_random_floats(seed, count, -4, 0, values);
    for (size_t i = 0; i < count; i++) values[i] = gpu_rounded(true, size * values[i]);
    return values;
}

/* Dropout's factor of a weight: 0 or 1 / (1 - rate). */
static double kept(const gw_cuda_attention *s, size_t sequence, size_t head, size_t query, size_t key) {
    float one = 1.0f;
    gw_dropout_apply(&s->dropout, ((sequence * s->heads + head) * s->positions + query) * s->positions + key,
                     1, &one);
    return (double)one;
}

/* Computes one query of one head, and adds its parts of all results. */
static void define_row(sample *a, size_t sequence, size_t head, size_t query, double *weight, double *grad) {
    const gw_cuda_attention *s = &a->shape;
    size_t row = sequence * s->positions + query, width = a->width, wide = 3 * s->channels;
    const float *q = a->qkv + row * wide + head * width, *dout = a->dout + row * s->channels + head * width;
    double *out = a->out + row * s->channels + head * width, *dq = a->dqkv + row * wide + head * width;
    double scale = 1.0 / sqrt((double)width), total = 0, inner = 0;
    for (size_t key = 0; key <= query; key++) {
        const float *k = a->qkv + (sequence * s->positions + key) * wide + s->channels + head * width;
        double score = 0;
        for (size_t i = 0; i < width; i++) score += (double)q[i] * (double)k[i];
        weight[key] = exp(score * scale);
        total += weight[key];
    }
    a->norms[row * s->heads + head] = log(total);
    for (size_t key = 0; key <= query; key++) {
        size_t at = (sequence * s->positions + key) * wide + 2 * s->channels + head * width;
        double part = weight[key] / total, mask = kept(s, sequence, head, query, key), sum = 0;
        for (size_t i = 0; i < width; i++) {
            out[i] += part * mask * (double)a->qkv[at + i];
            a->dqkv[at + i] += part * mask * (double)dout[i];
            sum += (double)dout[i] * (double)a->qkv[at + i];
        }
        weight[key] = part;
        grad[key] = sum * mask;
        inner += part * grad[key];
    }
    for (size_t key = 0; key <= query; key++) {
        size_t at = (sequence * s->positions + key) * wide + s->channels + head * width;
        double of_score = weight[key] * (grad[key] - inner) * scale;
        for (size_t i = 0; i < width; i++) {
            dq[i] += of_score * (double)a->qkv[at + i];
            a->dqkv[at + i] += of_score * (double)q[i];
        }
    }
}

static sample define(gw_cuda_attention shape, float size) {
    size_t rows = (size_t)shape.sequences * shape.positions, out = rows * shape.channels;
    sample a = {.shape = shape, .rows = rows, .width = shape.channels / shape.heads};
    a.qkv = inputs(1 + shape.positions, 3 * out, size);
    a.dout = inputs(2 + shape.positions, out, 1);
    a.out = doubles(out);
    a.norms = doubles(rows * shape.heads);
    a.dqkv = doubles(3 * out);
    double *weight = doubles(shape.positions), *grad = doubles(shape.positions);
    for (size_t s = 0; s < shape.sequences; s++)
        for (size_t h = 0; h < shape.heads; h++)
            for (size_t q = 0; q < shape.positions; q++) define_row(&a, s, h, q, weight, grad);
    free(weight);
    free(grad);
    return a;
}

static void close_sample(const sample *a) {
    free(a->qkv);
    free(a->dout);
    free(a->out);
    free(a->norms);
    free(a->dqkv);
}

/* The GPU's results. */

typedef struct answer {
    float *out, *norms, *dqkv;
} answer;

static answer compute(const sample *a, bool rounded) {
    gw_cuda_attention shape = a->shape;
    if (shape.positions % 2 == 1) shape.drawn = gpu_drawn(&shape.dropout);
    size_t out_count = a->rows * a->shape.channels, norm_count = a->rows * a->shape.heads;
    gw_cuda_factor qkv = gpu_factor(rounded, a->qkv, 3 * out_count);
    gw_cuda_factor dout = gpu_factor(rounded, a->dout, out_count), out = gpu_factor_room(rounded, out_count);
    gw_cuda_factor dqkv = gpu_factor_room(rounded, 3 * out_count), norms = gpu_factor_room(false, norm_count);
    float *dots = gpu_take(norm_count * sizeof *dots, 0);
    GPU(gw_cuda_attention_forward(&shape, qkv, out, norms.values, NULL));
    GPU(gw_cuda_attention_backward(&shape, qkv, out, norms.values, dout, dqkv, dots, NULL));
    answer got = {gpu_from_factor(out, out_count), gpu_from_factor(norms, norm_count),
                  gpu_from_factor(dqkv, 3 * out_count)};
    void *const taken[] = {qkv.values, dout.values, out.values, dqkv.values, norms.values, dots};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) GPU(cudaFree(taken[i]));
    return got;
}

static void close_answer(const answer *got) {
    free(got->out);
    free(got->norms);
    free(got->dqkv);
}

/* Columns [first, first + columns) of rows `stride` wide. */
static double distance(const float *got, const double *expected, size_t rows, size_t stride, size_t first,
                       size_t columns) {
    double difference = 0, size = 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = r * stride + first; i < r * stride + first + columns; i++) {
            difference += ((double)got[i] - expected[i]) * ((double)got[i] - expected[i]);
            size += expected[i] * expected[i];
        }
    return size > 0 ? sqrt(difference / size) : sqrt(difference);
}

static void check_to(gw_cuda_attention shape, float size, bool rounded, double most) {
    cr_assert_null(gw_cuda_attention_refuses(&shape, rounded));
    sample a = define(shape, size);
    answer got = compute(&a, rounded);
    size_t c = shape.channels;
    const struct {
        const char *name;
        double far;
    } parts[] = {{"out", distance(got.out, a.out, a.rows, c, 0, c)},
                 {"norms", distance(got.norms, a.norms, a.rows, shape.heads, 0, shape.heads)},
                 {"dvalue", distance(got.dqkv, a.dqkv, a.rows, 3 * c, 2 * c, c)},
                 {"dkey", distance(got.dqkv, a.dqkv, a.rows, 3 * c, c, c)},
                 {"dquery", distance(got.dqkv, a.dqkv, a.rows, 3 * c, 0, c)}};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        cr_assert_lt(parts[p].far, most, "%s of %u x %u x %u x %zu%s: %g", parts[p].name, shape.sequences,
                     shape.positions, shape.heads, a.width, rounded ? ", bfloat16" : "", parts[p].far);
    close_answer(&got);
    close_sample(&a);
}

static void check(gw_cuda_attention shape, float size, bool rounded) {
    check_to(shape, size, rounded, rounded ? 1e-2 : 1e-5);
}

static gw_cuda_attention sized(uint32_t sequences, uint32_t positions, uint32_t heads, uint32_t width) {
    return (gw_cuda_attention){
        .sequences = sequences, .positions = positions, .heads = heads, .channels = heads * width};
}

Test(gpu_attention, float32_agrees_with_the_definition) {
    gpu_need();
    static const uint32_t sizes[][4] = {{1, 2, 1, 1},   {2, 9, 3, 5},    {1, 31, 2, 32},  {3, 33, 1, 64},
                                        {1, 65, 2, 15}, {1, 130, 1, 80}, {2, 97, 1, 127}, {1, 129, 2, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check(sized(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]), 4, false);
}

Test(gpu_attention, bfloat16_agrees_with_the_definition) {
    gpu_need();
    static const uint32_t sizes[][4] = {{2, 7, 3, 16},   {1, 31, 1, 32},  {2, 33, 2, 48},
                                        {1, 64, 1, 64},  {1, 65, 2, 64},  {1, 128, 1, 80},
                                        {1, 129, 1, 96}, {2, 70, 1, 112}, {1, 127, 2, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check(sized(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]), 4, true);
}

Test(gpu_attention, many_tiles_both_ways) {
    gpu_need();
    for (int rounded = 0; rounded < 2; rounded++) {
        check(sized(1, 391, 1, 64), 4, rounded);
        check(sized(1, 257, 1, 128), 4, rounded);
    }
}

/* A single position attends to itself: the output is its value, and no gradient reaches the scores. */
Test(gpu_attention, one_position_is_its_own_value) {
    gpu_need();
    for (int rounded = 0; rounded < 2; rounded++) {
        sample a = define(sized(3, 1, 2, 32), 4);
        answer got = compute(&a, rounded);
        float near = rounded ? 1e-2f : 1e-5f;
        for (size_t row = 0; row < 3; row++)
            for (size_t i = 0; i < 64; i++) {
                float value = a.qkv[row * 192 + 128 + i], dout = a.dout[row * 64 + i];
                cr_assert_float_eq(got.out[row * 64 + i], value, near * fabsf(value));
                cr_assert_float_eq(got.dqkv[row * 192 + 128 + i], dout, near * fabsf(dout));
                cr_assert_float_eq(got.dqkv[row * 192 + i], 0, 1e-2);
                cr_assert_float_eq(got.dqkv[row * 192 + 64 + i], 0, 1e-2);
            }
        close_answer(&got);
        close_sample(&a);
    }
}

/* The exponentials of scores above 88 overflow unless the largest score is subtracted, also where a later
 * tile has a larger one. */
Test(gpu_attention, large_scores_do_not_overflow) {
    gpu_need();
    check_to(sized(1, 200, 1, 64), 24, false, 1e-4); /* a score of 500 has an error of 3e-5 */
    check(sized(1, 200, 1, 64), 16, true);
}

Test(gpu_attention, dropped_weights_have_no_part_in_either_pass) {
    gpu_need();
    for (int rounded = 0; rounded < 2; rounded++)
        for (uint32_t width = 48; width <= 112; width += 64) {
            gw_cuda_attention even = sized(2, 132, 1, width), odd = sized(2, 67, 2, width);
            even.dropout = (gw_dropout){.rate = 0.1f, .key = 7, .stream = 8};
            odd.dropout = (gw_dropout){.rate = 0.4f, .key = 9, .stream = 1};
            check(even, 4, rounded);
            check(odd, 4, rounded);
        }
}

Test(gpu_attention, one_result_whatever_the_order_of_blocks) {
    gpu_need();
    for (int kind = 0; kind < 4; kind++) {
        gw_cuda_attention shape = sized(2, 150, 2, kind < 2 ? 64 : 96);
        if (kind % 2 == 1) shape.dropout = (gw_dropout){.rate = 0.2f, .key = 3, .stream = 4};
        sample a = define(shape, 4);
        size_t out = a.rows * shape.channels * sizeof(float);
        for (int rounded = 0; rounded < 2; rounded++) {
            gpu_shuffle(0);
            answer first = compute(&a, rounded);
            for (uint64_t seed = 1; seed <= gpu_repeats(); seed++) {
                gpu_shuffle(seed);
                answer again = compute(&a, rounded);
                cr_assert_eq(memcmp(again.out, first.out, out), 0);
                cr_assert_eq(memcmp(again.dqkv, first.dqkv, 3 * out), 0);
                close_answer(&again);
            }
            close_answer(&first);
        }
        close_sample(&a);
    }
}

Test(gpu_attention, sizes_that_are_refused) {
    gpu_need();
    gw_cuda_attention wide = sized(1, 8, 2, 129), odd = sized(1, 8, 2, 24), uneven = sized(1, 8, 3, 21);
    uneven.channels = 64;
    cr_assert(strstr(gw_cuda_attention_refuses(&wide, false), "128"));
    cr_assert(strstr(gw_cuda_attention_refuses(&odd, true), "16"));
    cr_assert_null(gw_cuda_attention_refuses(&odd, false));
    cr_assert_not_null(gw_cuda_attention_refuses(&uneven, false));
    gw_cuda_factor none = {NULL, true}, other = {NULL, false};
    cr_assert_eq(gw_cuda_attention_forward(&odd, none, none, NULL, NULL), cudaErrorInvalidValue);
    gw_cuda_attention good = sized(1, 8, 2, 32);
    cr_assert_eq(gw_cuda_attention_forward(&good, none, other, NULL, NULL), cudaErrorInvalidValue);
}
