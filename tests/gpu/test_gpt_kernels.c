/* Further kernels of GPT-2: embedding, cross-entropy, the gradient's norm and first weights. Results are
 * compared with the processor's bits where the headers state them, and with float64 elsewhere; blocks and
 * threads run in several orders. */
#include "tests/gpu/rig.h"

#include "core/rng.h"
#include "kernels/cuda/math/crossent.h"
#include "kernels/cuda/math/embedding.h"
#include "kernels/cuda/math/norm.h"
#include "kernels/cuda/math/weights.h"
#include "kernels/math/embedding.h"
#include "kernels/math/normal.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 3 };

/* Embedding. */

static const gw_cuda_embedding embeddings[] = {
    {1, 1, 1, 1, {.rate = 0.0f}, NULL},
    {3, 7, 10, 23, {.rate = 0.1f, .key = 4, .stream = 3ull << 32}, NULL},
    /* few tokens, so that each occurs in more rows than are added at once */
    {5, 40, 64, 11, {.rate = 0.0f}, NULL},
    {2, 30, 32, 3, {.rate = 0.25f, .key = 1, .stream = 1}, NULL},
    {2, 3, 1100, 50, {.rate = 0.5f, .key = 9, .stream = 8}, NULL},
    {2, 3, 301, 50, {.rate = 0.0f}, NULL},
};
enum { EMBEDDINGS = sizeof embeddings / sizeof embeddings[0] };

static uint32_t *tokens_of(const gw_cuda_embedding *shape) {
    size_t rows = (size_t)shape->sequences * shape->positions;
    uint32_t *tokens = malloc(rows * sizeof *tokens);
    for (size_t r = 0; r < rows; r++)
        tokens[r] = r % 3 == 0 ? shape->vocabulary - 1 : (uint32_t)(gw_mix64(r) % shape->vocabulary);
    return tokens;
}

/* The key of dropout is an argument of kernels, or lies in memory. */
static gw_cuda_embedding drawn_every_other(const gw_cuda_embedding *shape, uint64_t number) {
    gw_cuda_embedding of = *shape;
    if (number % 2 == 1) of.drawn = gpu_drawn(&of.dropout);
    return of;
}

Test(gpu_gpt, embedding_has_the_bits_of_a_processor) {
    gpu_need();
    for (int e = 0; e < EMBEDDINGS; e++) {
        const gw_cuda_embedding *shape = &embeddings[e];
        gw_embedding host = {shape->sequences, shape->positions, shape->channels, shape->vocabulary};
        size_t rows = host.sequences * host.positions, n = rows * host.channels;
        size_t words_bytes = host.vocabulary * host.channels * sizeof(float),
               places_bytes = host.positions * host.channels * sizeof(float);
        float *words = gpu_floats(1, words_bytes / sizeof(float)),
              *places = gpu_floats(2, places_bytes / sizeof(float)), *x = malloc(n * sizeof *x);
        uint32_t *tokens = tokens_of(shape);
        gw_embedding_forward(&host, tokens, words, places, x);
        gw_dropout_apply(&shape->dropout, 0, n, x);
        const uint32_t *gpu_tokens = gpu_copy_of(tokens, rows * sizeof *tokens, 0);
        const float *gpu_words = gpu_copy_of(words, words_bytes, 0),
                    *gpu_places = gpu_copy_of(places, places_bytes, 0);
        for (uint64_t order = 0; order < ORDERS; order++) {
            gpu_shuffle(order);
            float *residual = gpu_take(n * sizeof *residual, 0);
            gw_cuda_embedding of = drawn_every_other(shape, order);
            GPU(gw_cuda_embedding_forward(&of, gpu_tokens, gpu_words, gpu_places, residual, NULL));
            gpu_expect_bits(residual, x, n * sizeof *x, "embedded", n);
        }
        free(words);
        free(places);
        free(x);
        free(tokens);
    }
}

Test(gpu_gpt, an_unknown_token_gives_no_numbers) {
    gpu_need();
    gw_cuda_embedding shape = {.sequences = 1, .positions = 3, .channels = 4, .vocabulary = 5};
    const uint32_t tokens[3] = {4, 5, 0};
    float words[20], places[12], x[12];
    for (int i = 0; i < 20; i++) words[i] = (float)i;
    memset(places, 0, sizeof places);
    float *residual = gpu_take(sizeof x, 0);
    GPU(gw_cuda_embedding_forward(&shape, gpu_copy_of(tokens, sizeof tokens, 0),
                                  gpu_copy_of(words, sizeof words, 0), gpu_copy_of(places, sizeof places, 0),
                                  residual, NULL));
    gpu_fetch(x, residual, sizeof x);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(x[i], (float)(16 + i));
        cr_assert(isnan(x[4 + i]));
        cr_assert_eq(x[8 + i], (float)i);
    }
}

/* Computes the gradients as kernels/math/embedding.c does. */
static void add_gradients(const gw_cuda_embedding *shape, const uint32_t *tokens, const float *delta,
                          float *dplaces, float *dwords) {
    size_t channels = shape->channels, size = shape->positions * channels;
    memcpy(dplaces, delta, size * sizeof *dplaces);
    for (size_t i = size; i < shape->sequences * size; i++) dplaces[i % size] += delta[i];
    for (size_t i = 0; i < shape->sequences * size; i++)
        dwords[tokens[i / channels] * channels + i % channels] += delta[i];
}

Test(gpu_gpt, gradients_of_embeddings_have_the_bits_of_a_processor) {
    gpu_need();
    for (int e = 0; e < EMBEDDINGS; e++) {
        const gw_cuda_embedding *shape = &embeddings[e];
        size_t rows = (size_t)shape->sequences * shape->positions, n = rows * shape->channels;
        size_t words_bytes = (size_t)shape->vocabulary * shape->channels * sizeof(float),
               places_bytes = (size_t)shape->positions * shape->channels * sizeof(float);
        float *delta = gpu_floats(3, n), *dwords = gpu_floats(4, words_bytes / sizeof(float)),
              *before = malloc(words_bytes), *dplaces = malloc(places_bytes);
        uint32_t *tokens = tokens_of(shape), *order = malloc(rows * sizeof *order),
                 *starts = malloc((rows + 1) * sizeof *starts);
        uint64_t *sorted = malloc(rows * sizeof *sorted);
        gw_embedding_group(rows, tokens, sorted, order, starts);
        const float *gpu_delta = gpu_copy_of(delta, n * sizeof *delta, 0);
        const uint32_t *gpu_tokens = gpu_copy_of(tokens, rows * sizeof *tokens, 0),
                       *gpu_order = gpu_copy_of(order, rows * sizeof *order, 0),
                       *gpu_starts = gpu_copy_of(starts, (rows + 1) * sizeof *starts, 0);
        memcpy(before, dwords, words_bytes);
        gw_dropout_apply(&shape->dropout, 0, n, delta);
        add_gradients(shape, tokens, delta, dplaces, dwords);
        for (uint64_t seed = 0; seed < ORDERS; seed++) {
            gpu_shuffle(seed);
            float *gpu_words = gpu_copy_of(before, words_bytes, 0), *gpu_places = gpu_take(places_bytes, 0);
            gw_cuda_embedding of = drawn_every_other(shape, seed);
            GPU(gw_cuda_embedding_positions(&of, gpu_delta, gpu_places, NULL));
            GPU(gw_cuda_embedding_tokens(&of, gpu_tokens, gpu_order, gpu_starts, gpu_delta, gpu_words, NULL));
            gpu_expect_bits(gpu_places, dplaces, places_bytes, "gradient of places", n);
            gpu_expect_bits(gpu_words, dwords, words_bytes, "gradient of words", n);
        }
        void *all[] = {delta, dwords, before, dplaces, tokens, order, starts, sorted};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
    }
}

/* Cross-entropy. */

typedef struct logits {
    uint64_t rows;
    uint32_t vocabulary, stride;
    bool bf16;
    float *values; /* [rows, stride]: the values of the factor */
    uint32_t *targets;
} logits;

static logits logits_of(uint64_t rows, uint32_t vocabulary, uint32_t stride, bool bf16) {
    size_t n = rows * stride;
    logits l = {rows, vocabulary, stride, bf16, gpu_floats(vocabulary, n), malloc(rows * sizeof(uint32_t))};
    for (size_t i = 0; i < n; i++) {
        l.values[i] *= i % 7 == 0 ? 15.0f : 1.0f;         /* some logits with probability 0 */
        if (i % stride >= vocabulary) l.values[i] = 1e6f; /* a value that must not count */
        l.values[i] = gpu_rounded(bf16, l.values[i]);
    }
    for (uint64_t r = 0; r < rows; r++)
        l.targets[r] = r == 0 ? vocabulary - 1 : (uint32_t)(gw_mix64(r) % vocabulary);
    return l;
}

static gw_cuda_factor copy_logits(const logits *l) {
    return gpu_factor(l->bf16, l->values, l->rows * l->stride);
}

/* Computes the gradient and the loss in float64. */
static double expect_gradient(const logits *l, double scale, double *gradient) {
    double loss = 0;
    for (uint64_t r = 0; r < l->rows; r++) {
        const float *row = l->values + r * l->stride;
        double *to = gradient + r * l->stride, largest = -INFINITY, total = 0;
        for (uint32_t i = 0; i < l->vocabulary; i++) largest = fmax(largest, (double)row[i]);
        for (uint32_t i = 0; i < l->vocabulary; i++) total += exp((double)row[i] - largest);
        for (uint32_t i = 0; i < l->vocabulary; i++)
            to[i] = (exp((double)row[i] - largest) / total - (i == l->targets[r])) * scale;
        for (uint32_t i = l->vocabulary; i < l->stride; i++) to[i] = 0;
        loss += log(total) - ((double)row[l->targets[r]] - largest);
    }
    return loss;
}

static gw_cuda_crossent_loss run_crossent(const logits *l, gw_cuda_factor factor, float scale) {
    double *of_row = gpu_take(l->rows * sizeof *of_row, 0);
    gw_cuda_crossent_loss *gpu = gpu_take(sizeof *gpu, 0), loss;
    GPU(gw_cuda_crossent(l->rows, l->vocabulary, l->stride, factor,
                         gpu_copy_of(l->targets, l->rows * sizeof *l->targets, 0), scale, of_row, NULL));
    GPU(gw_cuda_crossent_sum(l->rows, of_row, gpu, NULL));
    gpu_fetch(&loss, gpu, sizeof loss);
    return loss;
}

static void free_logits(logits *l) {
    free(l->values);
    free(l->targets);
}

static void check_crossent(uint64_t rows, uint32_t vocabulary, uint32_t stride, bool bf16) {
    logits l = logits_of(rows, vocabulary, stride, bf16);
    size_t n = rows * stride;
    double *expected = malloc(n * sizeof *expected), scale = 1.0 / 4096;
    double loss = expect_gradient(&l, scale, expected);
    float *first = NULL, sum = 0;
    for (uint64_t order = 0; order < ORDERS; order++) {
        gpu_shuffle(order);
        gw_cuda_factor factor = copy_logits(&l);
        gw_cuda_crossent_loss evaluated = run_crossent(&l, factor, 0.0f);
        float *left = gpu_from_factor(factor, n);
        cr_assert_eq(memcmp(left, l.values, n * sizeof *left), 0, "evaluation writes logits");
        gw_cuda_crossent_loss trained = run_crossent(&l, factor, (float)scale);
        cr_assert_eq(trained.tokens, (int64_t)rows);
        cr_assert_eq(trained.sum, evaluated.sum);
        cr_assert_float_eq((double)trained.sum, loss, 2e-6 * loss + 1e-6 * (double)rows);
        float *gradient = gpu_from_factor(factor, n);
        gpu_expect_close(gradient, expected, n, bf16 ? 1e-2 : 1e-5, "gradient of logits");
        for (size_t i = 0; i < n; i++)
            cr_assert(i % stride < vocabulary || gradient[i] == 0.0f, "column %zu", i % stride);
        if (first == NULL) {
            first = gradient;
            sum = trained.sum;
        } else {
            cr_assert_eq(trained.sum, sum);
            cr_assert_eq(memcmp(first, gradient, n * sizeof *first), 0, "gradient in another order");
            free(gradient);
        }
        free(left);
    }
    free(expected);
    free(first);
    free_logits(&l);
}

Test(gpu_gpt, crossent) {
    gpu_need();
    static const uint32_t shapes[][3] = {{1, 1, 1},       {1, 1, 8},     {3, 10, 16},
                                         {5, 10, 11},     {4, 257, 264}, {7, 1000, 1000},
                                         {2, 9000, 9088}, {300, 12, 16}, {2, 8197, 8197}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            check_crossent(shapes[s][0], shapes[s][1], shapes[s][2], bf16 == 1);
}

/* One bad logit or target in any row makes the loss NaN. */
Test(gpu_gpt, crossent_of_what_is_no_number) {
    gpu_need();
    for (int what = 0; what < 4; what++) {
        logits l = logits_of(3, 100, 104, false);
        float *row = l.values + 104;
        if (what == 0) row[50] = NAN;
        if (what == 1) row[99] = INFINITY;
        if (what == 2) l.targets[1] = 100;
        gw_cuda_crossent_loss loss = run_crossent(&l, copy_logits(&l), 1.0f);
        cr_assert(what == 3 ? isfinite(loss.sum) : isnan(loss.sum), "%d: %g", what, (double)loss.sum);
        free_logits(&l);
    }
    cr_assert_eq(gw_cuda_crossent(1, 9, 8, (gw_cuda_factor){NULL, false}, NULL, 1.0f, NULL, NULL),
                 cudaErrorInvalidValue);
}

/* The gradient's norm. */

Test(gpu_gpt, norm_is_the_integer_of_a_processor) {
    gpu_need();
    static const uint64_t counts[] = {1,    2,    15,   16,   17,    129,    1000,
                                      4095, 4096, 4097, 8192, 40961, 131072, 131077};
    for (uint64_t order = 0; order < ORDERS; order++) {
        gpu_shuffle(order);
        int64_t words[GW_NORM_WORDS] = {0}, *gpu_words = gpu_copy_of(words, sizeof words, 0);
        gw_norm expected = 0;
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            uint64_t n = counts[c];
            int64_t *sum = malloc(n * sizeof *sum);
            for (uint64_t i = 0; i < n; i++) sum[i] = (int64_t)gw_mix64(i + n) >> (i / 4096 * 9 + i % 9) % 60;
            /* scales at which a block's sum exceeds its limit, and at which it does not */
            double scale = n == 8192 ? 0x1p-20 : 0x1p-40 * 0.7;
            gw_norm_add(&expected, n, sum, scale);
            GPU(gw_cuda_norm_add(n, gpu_copy_of(sum, n * sizeof *sum, 0), scale, gpu_words, NULL));
            gpu_fetch(words, gpu_words, sizeof words);
            cr_assert(gw_norm_of_words(words) == expected, "%llu elements", (unsigned long long)n);
            free(sum);
        }
        cr_assert(expected >> 107 != 0, "the highest word has been tried");
    }
    GPU(gw_cuda_norm_add(0, NULL, 1.0, NULL, NULL));
}

/* First weights. */

Test(gpu_gpt, first_weights_have_the_bits_of_a_processor) {
    gpu_need();
    static const uint64_t counts[] = {1, 3, 4, 5, 1023, 1024, 1025, 70001};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        uint64_t n = counts[c];
        float *expected = malloc(n * sizeof *expected), *gpu = gpu_take(n * sizeof *gpu, 0);
        for (uint64_t i = 0; i < n; i++) expected[i] = gw_normals_at(987654321, 13, i / 4, 0.02).value[i % 4];
        GPU(gw_cuda_normal(987654321, 13, 0.02, n, gpu, NULL));
        gpu_expect_bits(gpu, expected, n * sizeof *expected, "normal numbers", n);
        for (uint64_t i = 0; i < n; i++) expected[i] = 1.0f;
        GPU(gw_cuda_fill(n, 1.0f, gpu, NULL));
        gpu_expect_bits(gpu, expected, n * sizeof *expected, "ones", n);
        free(expected);
    }
    GPU(gw_cuda_normal(1, 2, 0.02, 0, NULL, NULL));
    GPU(gw_cuda_fill(0, 1.0f, NULL, NULL));
}
