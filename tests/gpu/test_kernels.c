/* Our own kernels of perceptrons, optimizers and the synthetic job against a processor: the same bits where
 * nothing is summed, float64 where something is. Sizes lie around the kernels' blocks and parts. */
#include "tests/gpu/rig.h"

#include "core/rng.h"
#include "kernels/cuda/math/gemm_finish.h"
#include "kernels/cuda/math/layer.h"
#include "kernels/cuda/math/loss.h"
#include "kernels/cuda/math/optimizer.h"
#include "kernels/cuda/math/weights.h"
#include "kernels/jobs/synthetic/kernels.h"
#include "kernels/jobs/synthetic/noise.h"
#include "kernels/math/gelu.h"
#include "kernels/math/loss.h"
#include "kernels/math/uniform.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t counts[] = {1, 2, 3, 255, 511, 512, 513, 1023, 1024, 1025, 4099, 70001};
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* Products. */

static void check_finish(uint64_t rows, uint64_t columns, gw_gemm_finish finish, bool narrow) {
    uint64_t count = rows * columns;
    float *product = gpu_floats(rows, count), *bias = gpu_floats(columns, columns);
    for (uint64_t i = 0; i < count; i++) product[i] = gpu_rounded(narrow, product[i]);
    for (uint64_t i = 0; i < columns; i++) bias[i] = gpu_rounded(narrow, bias[i]);
    gw_cuda_factor from = gpu_factor(narrow, product, count), c = from;
    bool gelu = finish == GW_GEMM_BIAS_GELU;
    if (gelu) c = gpu_factor(narrow, product, count);
    GPU(gw_cuda_finish(rows, columns, finish, gpu_factor(narrow, bias, columns).values, from, c, NULL));
    float *got = gpu_from_factor(c, count), *before = gpu_from_factor(from, count);
    for (uint64_t i = 0; i < count; i++) {
        float sum = product[i] + bias[i % columns], slope;
        if (finish == GW_GEMM_BIAS_RELU && sum < 0) sum = 0;
        if (gelu) {
            cr_assert_eq(before[i], gpu_rounded(narrow, sum));
            gw_gelu_forward(1, &sum, &slope);
            cr_assert_float_eq(got[i], sum, (narrow ? 0x1p-7f : 0x1p-20f) * (1e-3f + fabsf(sum)),
                               "%g is not %g", (double)got[i], (double)sum);
        } else {
            cr_assert_eq(got[i], gpu_rounded(narrow, sum), "%llu columns, finish %d, bf16 %d: element %llu",
                         (unsigned long long)columns, (int)finish, narrow, (unsigned long long)i);
        }
    }
    free(product);
    free(bias);
    free(got);
    free(before);
}

/* The finishes of products that cuBLASLt does not compute. */
Test(gpu_kernels, products_are_finished) {
    gpu_need();
    static const uint64_t sizes[][2] = {{1, 1}, {1, 300}, {77, 10}, {256, 1}, {33, 129}, {5, 64}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int finish = GW_GEMM_BIAS; finish <= GW_GEMM_BIAS_GELU; finish++)
            for (int narrow = 0; narrow < 2; narrow++)
                check_finish(sizes[s][0], sizes[s][1], (gw_gemm_finish)finish, narrow != 0);
}

Test(gpu_kernels, what_is_no_number_stays_so_where_products_are_finished) {
    gpu_need();
    float values[] = {NAN, 1, -1}, bias[] = {1, 1, NAN};
    for (int finish = GW_GEMM_BIAS; finish <= GW_GEMM_BIAS_GELU; finish++) {
        gw_cuda_factor from = gpu_factor(false, values, 3), c = gpu_factor(false, values, 3);
        GPU(gw_cuda_finish(1, 3, (gw_gemm_finish)finish, gpu_factor(false, bias, 3).values, from, c, NULL));
        float *got = gpu_from_factor(c, 3);
        cr_assert(isnan(got[0]) && got[1] > 1.9f && isnan(got[2]));
        free(got);
    }
}

/* Optimizers. */

static int64_t *sums(uint64_t seed, size_t count) {
    int64_t *values = malloc(count * sizeof *values);
    gw_rng rng = gw_rng_seeded(seed);
    for (size_t i = 0; i < count; i++) values[i] = (int64_t)gw_rng_next(&rng) >> (i % 50);
    if (count > 2) values[1] = 0;
    return values;
}

Test(gpu_kernels, sgd_has_the_bits_of_a_processor) {
    gpu_need();
    gw_sgd sgd = {.scale = 0x1p-40 * 1.037, .rate = 0.11f, .momentum = 0.9f, .decay = 1e-4f};
    for (int c = 0; c < COUNTS; c++) {
        size_t n = counts[c], bytes = n * sizeof(float);
        int64_t *sum = sums(n, n);
        float *p = gpu_floats(1, n), *v = gpu_floats(2, n);
        if (n > 2) v[1] = 0x1p-100f; /* becomes 0 in the update */
        int64_t *gpu_sum = gpu_copy_of(sum, n * sizeof *sum, 0);
        float *gpu_p = gpu_copy_of(p, bytes, 0), *gpu_v = gpu_copy_of(v, bytes, 0);
        GPU(gw_cuda_sgd(&sgd, n, gpu_sum, gpu_p, gpu_v, NULL));
        gw_optimizer_sgd(&sgd, n, sum, p, v);
        gpu_expect_bits(gpu_p, p, bytes, "parameters", n);
        gpu_expect_bits(gpu_v, v, bytes, "velocity", n);
        free(sum);
        free(p);
        free(v);
    }
}

Test(gpu_kernels, adamw_has_the_bits_of_a_processor) {
    gpu_need();
    gw_adamw adamw = {.scale = 0x1p-40 * 0.97,
                      .rate = 0.01f,
                      .beta1 = 0.9f,
                      .beta2 = 0.99f,
                      .epsilon = 1e-8f,
                      .decay = 0.01f,
                      .correction1 = 3.7f,
                      .correction2 = 29.4f};
    for (int c = 0; c < COUNTS; c++) {
        size_t n = counts[c], bytes = n * sizeof(float);
        int64_t *sum = sums(n, n);
        float *p = gpu_floats(1, n), *m = gpu_floats(2, n), *v = gpu_floats(3, n);
        for (size_t i = 0; i < n; i++) v[i] = fabsf(v[i]);
        int64_t *gpu_sum = gpu_copy_of(sum, n * sizeof *sum, 0);
        float *gpu_p = gpu_copy_of(p, bytes, 0), *gpu_m = gpu_copy_of(m, bytes, 0),
              *gpu_v = gpu_copy_of(v, bytes, 0);
        GPU(gw_cuda_adamw(&adamw, n, gpu_sum, gpu_p, gpu_m, gpu_v, NULL));
        gw_optimizer_adamw(&adamw, n, sum, p, m, v);
        gpu_expect_bits(gpu_p, p, bytes, "parameters", n);
        gpu_expect_bits(gpu_m, m, bytes, "first moments", n);
        gpu_expect_bits(gpu_v, v, bytes, "second moments", n);
        free(sum);
        free(p);
        free(m);
        free(v);
    }
}

/* Perceptrons. */

Test(gpu_kernels, uniform_weights_have_the_bits_of_a_processor) {
    gpu_need();
    for (int c = 0; c < COUNTS; c++) {
        size_t n = counts[c];
        float *expected = malloc(n * sizeof *expected), *gpu = gpu_take(n * sizeof *gpu, 0);
        for (uint64_t i = 0; i < n; i++)
            expected[i] = gw_uniform_weight(gw_philox_at(12345678901u, 6, i / 4).words[i % 4], 0.0625831);
        GPU(gw_cuda_uniform(12345678901u, 6, 0.0625831, n, gpu, NULL));
        gpu_expect_bits(gpu, expected, n * sizeof *expected, "weights", n);
        free(expected);
    }
}

Test(gpu_kernels, pixels_are_normalised_and_rounded) {
    gpu_need();
    for (int c = 0; c < COUNTS; c++) {
        size_t n = counts[c];
        uint8_t *pixels = malloc(n);
        float *expected = malloc(n * sizeof *expected);
        uint16_t *rounded = malloc(n * sizeof *rounded);
        for (size_t i = 0; i < n; i++) {
            pixels[i] = (uint8_t)(i * 7);
            expected[i] = (float)pixels[i] * 0.01273f + -0.4242f;
            rounded[i] = gpu_bf16(expected[i]);
        }
        uint8_t *gpu_pixels = gpu_copy_of(pixels, n, 0);
        float *wide = gpu_take(n * sizeof *wide, 0);
        uint16_t *narrow = gpu_take(n * sizeof *narrow, 0), *again = gpu_take(n * sizeof *again, 0);
        GPU(gw_cuda_normalise(n, gpu_pixels, 0.01273f, -0.4242f, (gw_cuda_factor){wide, false}, NULL));
        GPU(gw_cuda_normalise(n, gpu_pixels, 0.01273f, -0.4242f, (gw_cuda_factor){narrow, true}, NULL));
        GPU(gw_cuda_to_bf16(n, wide, again, NULL));
        gpu_expect_bits(wide, expected, n * sizeof *expected, "pixels", n);
        gpu_expect_bits(narrow, rounded, n * sizeof *rounded, "pixels in bfloat16", n);
        gpu_expect_bits(again, rounded, n * sizeof *rounded, "bfloat16", n);
        free(pixels);
        free(expected);
        free(rounded);
    }
}

static float *transposed(const float *values, uint64_t rows, uint64_t columns) {
    float *to = malloc(rows * columns * sizeof *to);
    for (uint64_t i = 0; i < rows * columns; i++) to[i % columns * rows + i / columns] = values[i];
    return to;
}

static void check_gate(uint64_t rows, uint64_t columns, bool gated, bool rounded) {
    size_t n = rows * columns, bytes = n * sizeof(float);
    float *above = gpu_floats(rows, n), *active = gpu_floats(columns, n), *expected = malloc(bytes);
    uint16_t *narrow = malloc(n * sizeof *narrow);
    double *sum = calloc(columns, sizeof *sum);
    for (size_t i = 0; i < n; i++) {
        if (i % 5 == 0) active[i] = 0.0f;
        expected[i] = !gated || active[i] > 0.0f ? above[i] : 0.0f;
        narrow[i] = gpu_bf16(expected[i]);
        sum[i % columns] += (double)expected[i];
    }
    float *gpu_above = gpu_copy_of(above, bytes, 0), *gpu_active = gpu_copy_of(active, bytes, 0);
    float *parts = gpu_take(gw_cuda_parts(rows) * columns * sizeof *parts, 0);
    float *gpu_sum = gpu_take(columns * sizeof *gpu_sum, 0);
    /* The gradient overwrites the activations or, for the logits, the gradient above, as in the passes. */
    gw_cuda_factor to = {gated ? gpu_active : gpu_above, false};
    if (rounded) to = (gw_cuda_factor){gpu_take(n * sizeof *narrow, 0), true};
    float *across = transposed(expected, rows, columns), *gpu_across = rounded ? NULL : gpu_take(bytes, 0);
    GPU(gw_cuda_gate(rows, columns, gpu_above, gated ? gpu_active : NULL, to, gpu_across, parts, gpu_sum,
                     NULL));
    if (!rounded) gpu_expect_bits(gpu_across, across, bytes, "gradient, transposed", n);
    free(across);
    if (rounded)
        gpu_expect_bits(to.values, narrow, n * sizeof *narrow, "gradient in bfloat16", n);
    else
        gpu_expect_bits(to.values, expected, bytes, "gradient", n);
    gpu_expect_near(gpu_sum, sum, columns, 1e-5, "sums of columns");
    free(above);
    free(active);
    free(expected);
    free(narrow);
    free(sum);
}

Test(gpu_kernels, gradients_pass_where_units_were_active) {
    gpu_need();
    static const uint64_t shapes[][2] = {{1, 1},   {1, 300}, {7, 127},  {8, 128},    {63, 129},
                                         {64, 10}, {65, 10}, {130, 33}, {1000, 257}, {200, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int kind = 0; kind < 4; kind++)
            check_gate(shapes[s][0], shapes[s][1], kind % 2 == 0, kind / 2 == 0);
}

Test(gpu_kernels, what_is_transposed) {
    gpu_need();
    static const uint64_t shapes[][2] = {{1, 1},   {1, 300}, {7, 127},  {8, 128},    {63, 129},
                                         {64, 10}, {72, 10}, {130, 33}, {1000, 257}, {200, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        uint64_t rows = shapes[s][0], columns = shapes[s][1], n = rows * columns;
        float *values = gpu_floats(s, n), *expected = transposed(values, rows, columns);
        float *gpu = gpu_take(n * sizeof *gpu, 0);
        GPU(gw_cuda_transpose(rows, columns, gpu_copy_of(values, n * sizeof *values, 0), gpu, NULL));
        gpu_expect_bits(gpu, expected, n * sizeof *expected, "transposed", n);
        free(values);
        free(expected);
    }
}

Test(gpu_kernels, softmax_has_the_bits_of_a_processor) {
    gpu_need();
    static const uint64_t shapes[][2] = {{1, 10}, {255, 10}, {256, 2}, {257, 10}, {2048, 10}, {5000, 100}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        uint64_t rows = shapes[s][0], classes = shapes[s][1], n = rows * classes;
        float *logits = gpu_floats(s, n);
        uint8_t *labels = malloc(rows);
        for (uint64_t r = 0; r < rows; r++) labels[r] = (uint8_t)(gw_mix64(r) % classes);
        for (uint64_t i = 0; i < n; i += 3) logits[i] *= 20.0f; /* some logits with probability 0 */
        if (classes > 2) logits[0] = logits[1] = logits[2] = 50.0f;
        float *gpu_logits = gpu_copy_of(logits, n * sizeof *logits, 0);
        uint8_t *gpu_labels = gpu_copy_of(labels, rows, 0);
        double *of_row = gpu_take(rows * sizeof *of_row, 0);
        gw_cuda_loss *gpu_loss = gpu_take(sizeof *gpu_loss, 0), loss;
        GPU(gw_cuda_softmax_loss(rows, (uint32_t)classes, gpu_logits, gpu_labels, 1.0f / 480.0f, of_row,
                                 gpu_loss, NULL));
        gw_loss expected = gw_loss_softmax(logits, labels, rows, classes, 1.0f / 480.0f);
        gpu_expect_bits(gpu_logits, logits, n * sizeof *logits, "gradient of logits", n);
        gpu_fetch(&loss, gpu_loss, sizeof loss);
        cr_assert_eq(loss.correct, expected.correct);
        cr_assert_eq(loss.count, (int64_t)rows);
        cr_assert_float_eq(loss.sum, expected.sum, fabs(expected.sum) * 1e-6);
        free(logits);
        free(labels);
    }
}

Test(gpu_kernels, a_label_out_of_range_gives_no_number) {
    gpu_need();
    float logits[20] = {0};
    const uint8_t labels[2] = {3, 10};
    float *gpu_logits = gpu_copy_of(logits, sizeof logits, 0);
    uint8_t *gpu_labels = gpu_copy_of(labels, sizeof labels, 0);
    double *of_row = gpu_take(2 * sizeof *of_row, 0);
    gw_cuda_loss *gpu_loss = gpu_take(sizeof *gpu_loss, 0), loss;
    GPU(gw_cuda_softmax_loss(2, 10, gpu_logits, gpu_labels, 1.0f, of_row, gpu_loss, NULL));
    gpu_fetch(&loss, gpu_loss, sizeof loss);
    cr_assert(isnan(loss.sum));
}

/* The synthetic job. */

Test(gpu_kernels, synthetic) {
    gpu_need();
    for (int c = 0; c < COUNTS; c++) {
        uint64_t n = counts[c], pushed = n > 10 ? n / 3 : 1;
        float *cells = malloc(n * sizeof *cells), *push = malloc(n * sizeof *push);
        int64_t *sum = sums(n, pushed);
        double energy = 0;
        for (uint64_t i = 0; i < n; i++) {
            cells[i] = synthetic_noise(99, i);
            push[i] = synthetic_push(7, i, cells[i]);
            energy += (double)push[i] * (double)push[i];
        }
        float *gpu_cells = gpu_take(n * sizeof *cells, 0), *gpu_push = gpu_take(n * sizeof *push, 0), mean;
        double *parts = gpu_take(GW_CUDA_SYNTHETIC_PARTS * sizeof *parts, 0);
        float *gpu_mean = gpu_take(sizeof mean, 0);
        int64_t *gpu_sum = gpu_copy_of(sum, pushed * sizeof *sum, 0);
        GPU(gw_cuda_synthetic_cells(99, n, gpu_cells, NULL));
        GPU(gw_cuda_synthetic_push(7, n, UINT64_MAX, gpu_cells, gpu_push, parts, gpu_mean, NULL));
        gpu_expect_bits(gpu_cells, cells, n * sizeof *cells, "cells", n);
        gpu_expect_bits(gpu_push, push, n * sizeof *push, "push", n);
        gpu_fetch(&mean, gpu_mean, sizeof mean);
        cr_assert_float_eq(mean, energy / (double)n, 1e-6 * energy / (double)n + 1e-30);
        for (uint64_t i = 0; i < n; i++) cells[i] = synthetic_follow(cells[i], sum[i % pushed], 0x1p-52);
        GPU(gw_cuda_synthetic_follow(n, pushed, gpu_sum, 0x1p-52, gpu_cells, NULL));
        gpu_expect_bits(gpu_cells, cells, n * sizeof *cells, "cells after a step", n);
        int64_t digest[4] = {0, 1, 2, 3}, one = 12;
        int64_t *gpu_digest = gpu_take(sizeof digest, 0), *counted = gpu_copy_of(&one, sizeof one, 0);
        GPU(gw_cuda_synthetic_digest(4, gpu_digest, NULL));
        GPU(gw_cuda_synthetic_chain(4, pushed, gpu_sum, counted, gpu_digest, NULL));
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t chain = k;
            for (uint64_t i = k; i < pushed; i += 4) chain = synthetic_chain(chain, sum[i]);
            digest[k] = (int64_t)synthetic_chain(chain, one);
        }
        gpu_expect_bits(gpu_digest, digest, sizeof digest, "digest", pushed);
        free(cells);
        free(push);
        free(sum);
    }
}
