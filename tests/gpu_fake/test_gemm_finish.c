/* Products for which cuBLASLt has no algorithm with their bias, or with bias and ReLU. They are planned plain and finished
 * by a kernel of this program, and their peers are told apart from those where the library does both. The last tests
 * concern the choice among the library's answers. */
#include "tests/gpu/rig.h"
#include "tests/gpu_fake/fake_cublaslt.h"

#include "kernels/cuda/math/gemm.h"
#include "kernels/cuda/math/layer.h"
#include "kernels/cuda/runtime/cuda.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "13.1.0" */
static const char *version_text(size_t version, char text[24]) {
    snprintf(text, 24, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return text;
}

/* The patch level, too, decides. */
Test(gpu_gemm_finish, a_library_that_is_too_old_is_told_with_all_of_both_versions) {
    const size_t older = CUBLAS_VERSION - 1;
    char theirs[24], ours[24];
    gw_err err;
    fake_cublaslt_version(older);
    cr_assert_not(gw_cuda_libraries(&err));
    cr_assert(strstr(err.text, version_text(older, theirs)) &&
                  strstr(err.text, version_text(CUBLAS_VERSION, ours)),
              "%s", err.text);
}

enum { ROWS = 13, COLUMNS = 8, INNER = 5 };

static const void *narrowed(const float *values, uint64_t count) {
    uint16_t *bits = gpu_take(count * sizeof *bits, 0);
    GPU(gw_cuda_to_bf16(count, values, bits, NULL));
    return bits;
}

/* Plans and computes the product, with bfloat16 everywhere if `narrow`; its plan's text and values. */
static void compute(gw_gemm_finish finish, bool narrow, char text[GW_GPU_PLAN_TEXT],
                    float c[ROWS * COLUMNS]) {
    float a[ROWS * INNER], b[INNER * COLUMNS], bias[COLUMNS];
    gw_gemm_shape shape = {
        .rows = ROWS, .columns = COLUMNS, .inner = INNER, .factor = narrow, .finish = finish};
    gw_gemm *gemm;
    gw_err err;
    uint32_t plan;
    gpu_random_floats(1, ROWS * INNER, -3, 3, a);
    gpu_random_floats(2, INNER * COLUMNS, -3, 3, b);
    gpu_random_floats(3, COLUMNS, -3, 3, bias);
    gw_gpu gpu = {0, narrow ? GW_PRECISION_BF16 : GW_PRECISION_FP32};
    cr_assert(gw_gemm_open(&gpu, &gemm, &err), "%s", err.text);
    cr_assert(gw_gemm_plan(gemm, &shape, &plan, &err), "%s", err.text);
    gw_gemm_text(gemm, text);
    void *wide_a = gpu_copy_of(a, sizeof a, 0), *wide_b = gpu_copy_of(b, sizeof b, 0),
         *out = gpu_take(ROWS * COLUMNS * sizeof *c, 0), *before = gpu_take(ROWS * COLUMNS * sizeof *c, 0);
    gw_gemm_operands product = {
        .a = wide_a, .b = wide_b, .bias = gpu_copy_of(bias, sizeof bias, 0), .c = out};
    if (finish == GW_GEMM_PLAIN) product.bias = NULL;
    if (finish == GW_GEMM_BIAS_GELU) product.before = before;
    if (narrow) {
        product.a = narrowed(wide_a, ROWS * INNER);
        product.b = narrowed(wide_b, INNER * COLUMNS);
        if (finish != GW_GEMM_PLAIN) product.bias = narrowed(product.bias, COLUMNS);
    }
    cr_assert(gw_gemm_run(gemm, plan, &product, gpu_take(GW_GEMM_WORKSPACE, 0), NULL, &err), "%s", err.text);
    uint16_t bits[ROWS * COLUMNS];
    gpu_fetch(narrow ? (void *)bits : c, out, ROWS * COLUMNS * (narrow ? sizeof *bits : sizeof *c));
    for (int i = 0; narrow && i < ROWS * COLUMNS; i++) {
        uint32_t wide = (uint32_t)bits[i] << 16;
        memcpy(&c[i], &wide, sizeof wide);
    }
    gw_gemm_close(gemm);
}

static void without(gw_gemm_finish finish, bool narrow, cublasLtEpilogue_t epilogue, cublasStatus_t status) {
    char whole[GW_GPU_PLAN_TEXT], parted[GW_GPU_PLAN_TEXT];
    float expected[ROWS * COLUMNS], got[ROWS * COLUMNS];
    const float most = narrow ? 0x1p-6f : 1e-4f;
    int negative = 0;
    compute(finish, narrow, whole, expected);
    fake_cublaslt_refuse(epilogue, status);
    compute(finish, narrow, parted, got);
    cr_assert_str_neq(whole, parted);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        cr_assert_float_eq(got[i], expected[i], most * (1 + fabsf(expected[i])), "%d: %g, not %g", i,
                           (double)got[i], (double)expected[i]);
        negative += got[i] < -0.5f; /* GELU's least is -0.17 */
    }
    cr_assert_eq(negative > 0, finish == GW_GEMM_BIAS);
}

Test(gpu_gemm_finish, a_bias_that_the_library_cannot_add) {
    without(GW_GEMM_BIAS, false, CUBLASLT_EPILOGUE_BIAS, CUBLAS_STATUS_NOT_SUPPORTED);
}

Test(gpu_gemm_finish, a_bias_with_relu_that_the_library_cannot_do) {
    without(GW_GEMM_BIAS_RELU, false, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLAS_STATUS_SUCCESS);
}

Test(gpu_gemm_finish, a_bias_with_gelu_that_the_library_cannot_do) {
    without(GW_GEMM_BIAS_GELU, true, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLAS_STATUS_INVALID_VALUE);
}

/* What fails otherwise is no reason for another plan; and a product that there is not even plain is said. */
Test(gpu_gemm_finish, what_there_is_no_other_way_for_fails) {
    gw_gemm_shape shape = {.rows = ROWS, .columns = COLUMNS, .inner = INNER, .finish = GW_GEMM_BIAS};
    gw_gemm *gemm;
    gw_err err;
    uint32_t plan;
    cr_assert(gw_gemm_open(&(gw_gpu){0, GW_PRECISION_FP32}, &gemm, &err), "%s", err.text);
    fake_cublaslt_refuse(CUBLASLT_EPILOGUE_BIAS, CUBLAS_STATUS_INTERNAL_ERROR);
    cr_assert_not(gw_gemm_plan(gemm, &shape, &plan, &err));
    cr_assert_eq(err.code, GW_E_IO, "%s", err.text);
    shape.finish = GW_GEMM_BIAS_RELU;
    fake_cublaslt_refuse(CUBLASLT_EPILOGUE_RELU_BIAS, CUBLAS_STATUS_NOT_SUPPORTED);
    fake_cublaslt_refuse(CUBLASLT_EPILOGUE_DEFAULT, CUBLAS_STATUS_NOT_SUPPORTED);
    cr_assert_not(gw_gemm_plan(gemm, &shape, &plan, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED, "%s", err.text);
    cr_assert(strstr(err.text, "[13, 5] and [5, 8]"), "%s", err.text);
    gw_gemm_close(gemm);
}

/* Returns the number of the answer that is taken for a product with this inner dimension. */
static uint64_t taken(gw_precision precision, bool is_factor, uint64_t inner) {
    gw_gemm_shape shape = {.rows = 1, .columns = 1, .inner = inner, .factor = is_factor};
    gw_gemm *gemm;
    gw_err err;
    uint32_t plan;
    cr_assert(gw_gemm_open(&(gw_gpu){0, precision}, &gemm, &err), "%s", err.text);
    cr_assert(gw_gemm_plan(gemm, &shape, &plan, &err), "%s", err.text);
    gw_gemm_operands product = {.a = gpu_take(inner * sizeof(float), 0),
                                .b = gpu_take(inner * sizeof(float), 0),
                                .c = gpu_take(sizeof(float), 0)};
    cr_assert(gw_gemm_run(gemm, plan, &product, gpu_take(GW_GEMM_WORKSPACE, 0), NULL, &err), "%s", err.text);
    GPU(cudaDeviceSynchronize());
    gw_gemm_close(gemm);
    return fake_cublaslt_answer_used();
}

#define ANSWER(...)                                                                                          \
    fake_cublaslt_answer((const fake_cublaslt_algorithm[]){__VA_ARGS__},                                     \
                         sizeof((const fake_cublaslt_algorithm[]){__VA_ARGS__}) /                            \
                             sizeof(fake_cublaslt_algorithm))

/* The first of several answers with as many waves is taken. */
Test(gpu_gemm_finish, short_products_take_the_smallest_tiles) {
    ANSWER({.waves = 2.9f}, {.waves = 2.5f}, {.waves = 5.8f}, {.waves = 5.8f});
    cr_expect_eq(taken(GW_PRECISION_BF16, true, 768), 2);
    cr_expect_eq(taken(GW_PRECISION_BF16, true, 1024), 2);
    ANSWER({.waves = 7.0f});
    cr_expect_eq(taken(GW_PRECISION_BF16, true, 768), 0);
}

/* Where its tiles all run at once, or where the library's reckoning is good: long products, and what is not
 * bfloat16. */
Test(gpu_gemm_finish, other_products_take_the_first_answer) {
    ANSWER({.waves = 2.9f}, {.waves = 5.8f});
    cr_expect_eq(taken(GW_PRECISION_BF16, true, 1025), 0);
    cr_expect_eq(taken(GW_PRECISION_BF16, false, 768), 0);
    cr_expect_eq(taken(GW_PRECISION_TF32, true, 768), 0);
    ANSWER({.waves = 1.0f}, {.waves = 2.8f});
    cr_expect_eq(taken(GW_PRECISION_BF16, true, 768), 0);
}

/* Tiles of next to nothing are not taken either. */
Test(gpu_gemm_finish, products_that_are_split_or_not_there_are_not_taken) {
    ANSWER({.waves = 2.9f}, {.waves = 5.8f, .parts = 2}, {.waves = 5.7f, .broken = true},
           {.waves = 5.6f, .parts = 1});
    cr_expect_eq(taken(GW_PRECISION_BF16, true, 768), 3);
    ANSWER({.waves = 2.9f}, {.waves = 9.0f}, {.waves = 8.6f});
    cr_expect_eq(taken(GW_PRECISION_BF16, true, 768), 2);
}
