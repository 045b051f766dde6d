/* Matrix products by cuBLASLt against float64 on the processor, at sizes that are multiples of no tile. (On
 * the stand-in for a GPU, tests/gpu_fake, they are plain loops, with factors rounded as on a GPU.) */
#include "tests/gpu/rig.h"

#include "core/rng.h"
#include "kernels/cuda/math/gemm.h"
#include "kernels/cuda/math/layer.h"
#include "kernels/cuda/runtime/cuda.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    gw_precision precision;
    /* bound of ‖out − reference‖ / ‖all terms‖, since the error is not small where terms cancel */
    double most;
} cases[] = {{GW_PRECISION_FP32, 1e-5}, {GW_PRECISION_TF32, 3e-3}, {GW_PRECISION_BF16, 1e-2}};

static void need_library(void) {
    gw_err err;
    gpu_need();
    if (!gw_cuda_libraries(&err)) cr_skip_test("%s", err.text);
}

/* Random numbers uniform in [-1, 1), so that products have both signs. */
static float *numbers(uint64_t seed, size_t count) {
    float *values = malloc(count * sizeof *values);
    gw_rng rng = gw_rng_seeded(seed);
    for (size_t i = 0; i < count; i++) values[i] = (float)(2 * gw_rng_unit(&rng) - 1);
    return values;
}

/* The reference of one element. *size becomes the sum of the squares of all terms. `before`: without ReLU or
 * GELU. */
static double *reference(const gw_gemm_shape *s, const float *a, const float *b, const float *bias,
                         double *before, double *size) {
    double *c = calloc(s->rows * s->columns, sizeof *c);
    *size = 0;
    for (uint64_t row = 0; row < s->rows; row++)
        for (uint64_t column = 0; column < s->columns; column++) {
            double sum = s->finish == GW_GEMM_PLAIN ? 0 : (double)bias[column];
            *size += sum * sum;
            for (uint64_t k = 0; k < s->inner; k++) {
                double term = (double)a[s->a_transposed ? k * s->rows + row : row * s->inner + k] *
                              (double)b[s->b_transposed ? column * s->inner + k : k * s->columns + column];
                sum += term;
                *size += term * term;
            }
            before[row * s->columns + column] = sum;
            if (s->finish == GW_GEMM_BIAS_RELU && sum < 0) sum = 0;
            if (s->finish == GW_GEMM_BIAS_GELU)
                sum = 0.5 * sum * (1 + tanh(sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
            c[row * s->columns + column] = sum;
        }
    return c;
}

/* Makes a factor in the GPU's memory, in the type of the precision. */
static void *factor(gw_precision precision, const float *values, size_t count) {
    float *wide = gpu_copy_of(values, count * sizeof *values, 0);
    if (precision != GW_PRECISION_BF16) return wide;
    uint16_t *narrow = gpu_take(count * sizeof *narrow, 0);
    GPU(gw_cuda_to_bf16(count, wide, narrow, NULL));
    GPU(cudaDeviceSynchronize());
    return narrow;
}

/* ‖values − expected‖, of values on the GPU. */
static double distance(const void *values, bool narrow, const double *expected, size_t count) {
    double difference = 0;
    float *got = malloc(count * sizeof *got);
    uint16_t *bits = malloc(count * sizeof *bits);
    gpu_fetch(narrow ? (void *)bits : got, values, count * (narrow ? sizeof *bits : sizeof *got));
    for (size_t i = 0; i < count; i++) {
        uint32_t wide = (uint32_t)bits[i] << 16;
        if (narrow) memcpy(&got[i], &wide, sizeof wide);
        difference += ((double)got[i] - expected[i]) * ((double)got[i] - expected[i]);
    }
    free(got);
    free(bits);
    return sqrt(difference);
}

static void check(gw_precision precision, double most, const gw_gemm_shape *s) {
    gw_gemm *gemm;
    gw_err err;
    uint32_t plan;
    cudaStream_t stream;
    size_t count = s->rows * s->columns;
    bool narrow = s->factor && precision == GW_PRECISION_BF16;
    float *a = numbers(1, s->rows * s->inner), *b = numbers(2, s->inner * s->columns);
    float *bias = numbers(3, s->columns);
    uint8_t *got = malloc(count * sizeof(float)), *again = malloc(count * sizeof(float));
    double size, *before = calloc(count, sizeof *before), *expected = reference(s, a, b, bias, before, &size);
    cr_assert(gw_gemm_open(&(gw_gpu){0, precision}, &gemm, &err), "%s", err.text);
    cr_assert(gw_gemm_plan(gemm, s, &plan, &err), "%s", err.text);
    gw_gemm_operands product = {.a = factor(precision, a, s->rows * s->inner),
                                .b = factor(precision, b, s->inner * s->columns),
                                .c = gpu_take(count * sizeof(float), 0)};
    if (s->finish != GW_GEMM_PLAIN)
        product.bias = factor(narrow ? precision : GW_PRECISION_FP32, bias, s->columns);
    if (s->finish == GW_GEMM_BIAS_GELU) product.before = gpu_take(count * sizeof(float), 0);
    void *workspace = gpu_take(GW_GEMM_WORKSPACE, 0);
    GPU(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 2; round++) {
        cr_assert(gw_gemm_run(gemm, plan, &product, workspace, stream, &err), "%s", err.text);
        gpu_fetch(round == 0 ? got : again, product.c, count * (narrow ? sizeof(uint16_t) : sizeof(float)));
    }
    cr_assert_eq(memcmp(got, again, count * (narrow ? sizeof(uint16_t) : sizeof(float))), 0);
    double far = distance(product.c, narrow, expected, count);
    if (s->finish == GW_GEMM_PLAIN) {
        for (size_t i = 0; i < count; i++) expected[i] *= 2;
        product.add = true;
        cr_assert(gw_gemm_run(gemm, plan, &product, workspace, stream, &err), "%s", err.text);
        GPU(cudaStreamSynchronize(stream));
        far += distance(product.c, narrow, expected, count) / 2;
    }
    if (product.before != NULL) far += distance(product.before, narrow, before, count);
    cr_assert(far <= most * sqrt(size),
              "precision %d, [%llu, %llu] x [%llu, %llu], transposed %d %d, finish %d, factor %d: %g",
              (int)precision, (unsigned long long)s->rows, (unsigned long long)s->inner,
              (unsigned long long)s->inner, (unsigned long long)s->columns, s->a_transposed, s->b_transposed,
              (int)s->finish, s->factor, far / sqrt(size));
    gw_gemm_close(gemm);
    GPU(cudaStreamDestroy(stream));
    GPU(cudaFree(workspace));
    free(a);
    free(b);
    free(bias);
    free(got);
    free(again);
    free(before);
    free(expected);
}

Test(gpu_gemm, products_at_awkward_sizes) {
    need_library();
    static const uint64_t sizes[][3] = {{1, 1, 1},      {1, 10, 128},   {3, 5, 7},       {24, 10, 33},
                                        {40, 128, 784}, {127, 129, 65}, {200, 10, 1000}, {10, 300, 257}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int kind = 0; kind < 12; kind++) {
                gw_gemm_shape shape = {.rows = sizes[s][0], .columns = sizes[s][1], .inner = sizes[s][2]};
                shape.finish = kind % 6 < 4 ? (gw_gemm_finish)(kind % 6) : GW_GEMM_PLAIN;
                shape.a_transposed = kind % 6 == 4;
                shape.b_transposed = kind % 6 == 5;
                shape.factor = kind >= 6;
                check(cases[c].precision, cases[c].most, &shape);
            }
}

enum { ASKED = 20 };

/* Shapes of all kinds: large, short, wide and tiny. */
static void plan_all(gw_gemm *gemm, char text[GW_GPU_PLAN_TEXT]) {
    static const uint64_t sizes[][3] = {{2048, 8192, 784},  {1000, 8192, 784},  {16384, 2304, 768},
                                        {8192, 50304, 768}, {768, 3072, 16384}, {38, 96, 32},
                                        {38, 256, 32},      {256, 32, 38}};
    gw_err err;
    uint32_t plan, again, before = UINT32_MAX;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int kind = 0; kind < 4; kind++) {
            gw_gemm_shape shape = {.rows = sizes[s][0],
                                   .columns = sizes[s][1],
                                   .inner = sizes[s][2],
                                   .a_transposed = kind == 2,
                                   .b_transposed = kind == 3,
                                   .factor = kind != 2,
                                   .finish = kind == 1 ? GW_GEMM_BIAS : GW_GEMM_PLAIN};
            cr_assert(gw_gemm_plan(gemm, &shape, &plan, &err), "%s", err.text);
            cr_assert(gw_gemm_plan(gemm, &shape, &again, &err), "%s", err.text);
            cr_assert_eq(plan, again);
            cr_assert_neq(plan, before);
            before = plan;
        }
    gw_gemm_text(gemm, text);
}

/* Peers ask cuBLASLt the same question and must get the same answer. */
Test(gpu_gemm, plans_are_the_same_every_time) {
    need_library();
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char first[GW_GPU_PLAN_TEXT], text[GW_GPU_PLAN_TEXT];
        for (int i = 0; i < ASKED; i++) {
            gw_gemm *gemm;
            gw_err err;
            cr_assert(gw_gemm_open(&(gw_gpu){0, cases[c].precision}, &gemm, &err), "%s", err.text);
            plan_all(gemm, text);
            if (i == 0) strcpy(first, text);
            cr_assert_str_eq(text, first);
            gw_gemm_close(gemm);
        }
    }
}

/* The product of GPT-2's hidden layer, which is large enough that a GPU computes tiles in several waves; some
 * rows are compared. */
Test(gpu_gemm, a_short_product_of_many_tiles) {
    need_library();
    const gw_gemm_shape shape = {.rows = 1536, .columns = 3072, .inner = 768, .factor = true};
    enum { LOOK_EACH = 113 };
    gw_gemm *gemm;
    gw_err err;
    uint32_t plan;
    float *a = numbers(1, shape.rows * shape.inner), *b = numbers(2, shape.inner * shape.columns);
    uint16_t *c = malloc(shape.rows * shape.columns * sizeof *c);
    cr_assert(gw_gemm_open(&(gw_gpu){0, GW_PRECISION_BF16}, &gemm, &err), "%s", err.text);
    cr_assert(gw_gemm_plan(gemm, &shape, &plan, &err), "%s", err.text);
    gw_gemm_operands product = {.a = factor(GW_PRECISION_BF16, a, shape.rows * shape.inner),
                                .b = factor(GW_PRECISION_BF16, b, shape.inner * shape.columns),
                                .c = gpu_take(shape.rows * shape.columns * sizeof *c, 0)};
    cr_assert(gw_gemm_run(gemm, plan, &product, gpu_take(GW_GEMM_WORKSPACE, 0), NULL, &err), "%s", err.text);
    gpu_fetch(c, product.c, shape.rows * shape.columns * sizeof *c);
    double size = 0, far = 0;
    for (uint64_t row = 0; row < shape.rows; row += LOOK_EACH)
        for (uint64_t column = 0; column < shape.columns; column += 5) {
            double sum = 0, terms = 0;
            for (uint64_t k = 0; k < shape.inner; k++) {
                double term = (double)a[row * shape.inner + k] * (double)b[k * shape.columns + column];
                sum += term;
                terms += term * term;
            }
            uint32_t bits = (uint32_t)c[row * shape.columns + column] << 16;
            float got;
            memcpy(&got, &bits, sizeof got);
            far += ((double)got - sum) * ((double)got - sum);
            size += terms;
        }
    cr_assert(far <= 1e-4 * size, "%g", sqrt(far / size));
    gw_gemm_close(gemm);
    free(a);
    free(b);
    free(c);
}
