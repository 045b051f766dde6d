/* GPT-2's operations on rows and columns on a GPU, against float64: layer norm with its fused operations,
 * GELU, sums of columns. Sizes lie around the kernels' blocks, batches and parts; some arrays are both
 * argument and result; several orders of blocks and threads must give the same bits. */
#include "tests/gpu/rig.h"

#include "core/rng.h"
#include "kernels/cuda/math/gelu.h"
#include "kernels/cuda/math/layernorm.h"
#include "kernels/math/dropout.h"
#include "kernels/math/layernorm.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 2 };

static double most_of(bool bf16) {
    return bf16 ? 1e-2 : 1e-5;
}

/* Makes a factor of these values, which are rounded to its type. */
static gw_cuda_factor factor_of(float *values, size_t count, bool bf16) {
    for (size_t i = 0; i < count; i++) values[i] = gpu_rounded(bf16, values[i]);
    return gpu_factor(bf16, values, count);
}

static void expect_factor(gw_cuda_factor factor, const double *expected, size_t count, const char *what) {
    float *values = gpu_from_factor(factor, count);
    gpu_expect_close(values, expected, count, most_of(factor.bf16), what);
    free(values);
}

/* Checks that all orders give an array the contents that the first order gave. */
typedef struct kept {
    void *first;
} kept;

static void expect_same(kept *k, const void *gpu, size_t bytes, const char *what) {
    if (k->first == NULL) {
        k->first = malloc(bytes);
        gpu_fetch(k->first, gpu, bytes);
        return;
    }
    gpu_expect_bits(gpu, k->first, bytes, what, bytes);
}

/* Layer norm. */

typedef struct trial {
    size_t rows, channels;
    bool bf16;
    float rate;     /* dropout's rate */
    bool in_place;  /* results overwrite arguments */
    bool add;       /* forward: a branch is added; backward: there is a branch below and a gradient above */
    uint64_t order; /* the argument of gpu_shuffle */
} trial;

static gw_dropout dropout_of(const trial *t) {
    return (gw_dropout){.rate = t->rate, .key = 77, .stream = 5ull << 32 | 2};
}

static gw_cuda_branch branch_of(const trial *t, gw_cuda_factor values) {
    gw_cuda_branch branch = {.values = values, .dropout = dropout_of(t)};
    if (t->rows % 2 == 1) branch.drawn = gpu_drawn(&branch.dropout);
    return branch;
}

typedef struct forward_results {
    kept sum, y, mean, scale;
} forward_results;

static void check_forward(const trial *t, forward_results *results) {
    size_t n = t->rows * t->channels, bytes = n * sizeof(float);
    float *x = gpu_floats(1, n), *branch = gpu_floats(2, n), *weight = gpu_floats(3, t->channels),
          *bias = gpu_floats(4, t->channels);
    gw_dropout dropout = dropout_of(t);
    float *gpu_x = gpu_copy_of(x, bytes, 0);
    gw_cuda_branch gpu_branch = branch_of(t, factor_of(branch, n, t->bf16));
    if (t->add) {
        gw_dropout_apply(&dropout, 0, n, branch);
        for (size_t i = 0; i < n; i++) x[i] += branch[i];
    }
    double *y = malloc(n * sizeof *y), *means = malloc(t->rows * sizeof *means),
           *scales = malloc(t->rows * sizeof *scales);
    for (size_t r = 0; r < t->rows; r++) {
        const float *row = x + r * t->channels;
        double mean = 0, squares = 0, count = (double)t->channels;
        for (size_t c = 0; c < t->channels; c++) mean += (double)row[c] / count;
        for (size_t c = 0; c < t->channels; c++)
            squares += ((double)row[c] - mean) * ((double)row[c] - mean) / count;
        double scale = 1 / sqrt(squares + (double)GW_LAYERNORM_EPSILON);
        for (size_t c = 0; c < t->channels; c++)
            y[r * t->channels + c] = ((double)row[c] - mean) * scale * (double)weight[c] + (double)bias[c];
        means[r] = mean;
        scales[r] = scale;
    }
    gw_cuda_layernorm norm = {
        .rows = t->rows,
        .channels = (uint32_t)t->channels,
        .weight = gpu_copy_of(weight, t->channels * sizeof *weight, 0),
        .bias = gpu_copy_of(bias, t->channels * sizeof *bias, 0),
        .mean = gpu_take(t->rows * sizeof(float), 0),
        .scale = gpu_take(t->rows * sizeof(float), 0),
    };
    gw_cuda_factor to = t->in_place && t->add ? gpu_branch.values : gpu_factor_room(t->bf16, n);
    float *sum = t->in_place ? gpu_x : gpu_take(bytes, 0);
    if (t->add) {
        GPU(gw_cuda_layernorm_add(&norm, gpu_x, &gpu_branch, sum, to, NULL));
        gpu_expect_bits(sum, x, bytes, "sum", n);
        expect_same(&results->sum, sum, bytes, "sum in another order");
    } else {
        GPU(gw_cuda_layernorm_forward(&norm, gpu_x, to, NULL));
        gpu_expect_bits(gpu_x, x, bytes, "x", n);
    }
    expect_factor(to, y, n, "normalised");
    gpu_expect_near(norm.mean, means, t->rows, 1e-5, "means");
    gpu_expect_near(norm.scale, scales, t->rows, 1e-5, "scales");
    expect_same(&results->y, to.values, gpu_factor_bytes(t->bf16, n), "normalised in another order");
    expect_same(&results->mean, norm.mean, t->rows * sizeof(float), "means in another order");
    expect_same(&results->scale, norm.scale, t->rows * sizeof(float), "scales in another order");
    void *all[] = {x, branch, weight, bias, y, means, scales};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

typedef struct backward_results {
    kept delta, branch, weight, bias, column;
} backward_results;

/* Computes the results of backward in float64. */
typedef struct backward_expected {
    double *delta, *branch, *weight, *bias, *column;
} backward_expected;

static backward_expected expect_backward(const trial *t, const float *x, const float *weight,
                                         const float *mean, const float *scale, const float *dy,
                                         const float *above) {
    size_t n = t->rows * t->channels, channels = t->channels;
    backward_expected e = {calloc(n, sizeof(double)), calloc(n, sizeof(double)),
                           calloc(channels, sizeof(double)), calloc(channels, sizeof(double)),
                           calloc(channels, sizeof(double))};
    gw_dropout dropout = dropout_of(t);
    float *mask = malloc(n * sizeof *mask);
    for (size_t i = 0; i < n; i++) mask[i] = 1.0f;
    gw_dropout_apply(&dropout, 0, n, mask);
    for (size_t r = 0; r < t->rows; r++) {
        double alone = 0, along = 0, count = (double)channels;
        for (size_t c = 0; c < channels; c++) {
            size_t i = r * channels + c;
            double unit = ((double)x[i] - (double)mean[r]) * (double)scale[r];
            alone += (double)dy[i] * (double)weight[c] / count;
            along += (double)dy[i] * (double)weight[c] * unit / count;
            e.weight[c] += (double)dy[i] * unit;
            e.bias[c] += (double)dy[i];
        }
        for (size_t c = 0; c < channels; c++) {
            size_t i = r * channels + c;
            double unit = ((double)x[i] - (double)mean[r]) * (double)scale[r];
            e.delta[i] = (above != NULL ? (double)above[i] : 0) +
                         ((double)dy[i] * (double)weight[c] - alone - unit * along) * (double)scale[r];
            e.branch[i] = e.delta[i] * (double)mask[i];
            e.column[c] += e.branch[i];
        }
    }
    free(mask);
    return e;
}

static void check_backward(const trial *t, backward_results *results) {
    size_t n = t->rows * t->channels, bytes = n * sizeof(float), row_bytes = t->rows * sizeof(float),
           column_bytes = t->channels * sizeof(float);
    float *x = gpu_floats(1, n), *dy = gpu_floats(2, n), *above = gpu_floats(3, n),
          *weight = gpu_floats(4, t->channels), *mean = gpu_floats(5, t->rows),
          *scale = gpu_floats(6, t->rows);
    gw_cuda_factor gpu_dy = factor_of(dy, n, t->bf16);
    backward_expected e = expect_backward(t, x, weight, mean, scale, dy, t->add ? above : NULL);
    gw_cuda_layernorm norm = {
        .rows = t->rows,
        .channels = (uint32_t)t->channels,
        .weight = gpu_copy_of(weight, column_bytes, 0),
        .mean = gpu_copy_of(mean, row_bytes, 0),
        .scale = gpu_copy_of(scale, row_bytes, 0),
    };
    float *gpu_above = gpu_copy_of(above, bytes, 0), *delta = t->in_place ? gpu_above : gpu_take(bytes, 0);
    float *parts = gpu_take(gw_cuda_layernorm_parts(t->rows, norm.channels) * sizeof *parts, 0);
    gw_cuda_branch branch = branch_of(t, t->in_place ? gpu_dy : gpu_factor_room(t->bf16, n));
    gw_cuda_layernorm_sums sums = {gpu_take(column_bytes, 0), gpu_take(column_bytes, 0),
                                   gpu_take(column_bytes, 0)};
    GPU(gw_cuda_layernorm_backward(&norm, gpu_copy_of(x, bytes, 0), gpu_dy, t->add ? gpu_above : NULL, delta,
                                   t->add ? &branch : NULL, parts, &sums, NULL));
    gpu_expect_near(delta, e.delta, n, 1e-5, "delta");
    gpu_expect_near(sums.weight, e.weight, t->channels, 1e-5, "gradient of the weights");
    gpu_expect_near(sums.bias, e.bias, t->channels, 1e-5, "gradient of the bias");
    expect_same(&results->delta, delta, bytes, "delta in another order");
    expect_same(&results->weight, sums.weight, column_bytes, "weights in another order");
    expect_same(&results->bias, sums.bias, column_bytes, "bias in another order");
    if (t->add) {
        expect_factor(branch.values, e.branch, n, "gradient of the branch");
        gpu_expect_near(sums.branch, e.column, t->channels, 1e-5, "its columns");
        expect_same(&results->branch, branch.values.values, gpu_factor_bytes(t->bf16, n),
                    "the branch, shuffled");
        expect_same(&results->column, sums.branch, column_bytes, "its columns, shuffled");
    }
    void *all[] = {x, dy, above, weight, mean, scale, e.delta, e.branch, e.weight, e.bias, e.column};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static const size_t norm_shapes[][2] = {{1, 1},    {3, 7},    {5, 128},  {9, 100},   {2, 768},
                                        {66, 36},  {130, 33}, {7, 2052}, {65, 2300}, {3, 1030},
                                        {4, 2047}, {5, 4096}, {2, 4091}};
enum { NORM_SHAPES = sizeof norm_shapes / sizeof norm_shapes[0] };

/* Each shape in both types, plain and with all fused operations. */
static trial norm_trial(size_t shape, int kind) {
    return (trial){.rows = norm_shapes[shape][0],
                   .channels = norm_shapes[shape][1],
                   .bf16 = kind % 2 == 1,
                   .rate = kind / 2 == 2 ? 0.2f : 0.0f,
                   .in_place = kind / 2 == 2,
                   .add = kind / 2 > 0};
}
enum { NORM_KINDS = 6 };

Test(gpu_gpt_rows, layer_norm_forward) {
    gpu_need();
    for (size_t s = 0; s < NORM_SHAPES; s++)
        for (int kind = 0; kind < NORM_KINDS; kind++) {
            forward_results results = {0};
            trial t = norm_trial(s, kind);
            for (uint64_t order = 0; order < ORDERS; order++) {
                gpu_shuffle(order);
                check_forward(&t, &results);
            }
        }
}

Test(gpu_gpt_rows, layer_norm_backward) {
    gpu_need();
    for (size_t s = 0; s < NORM_SHAPES; s++)
        for (int kind = 0; kind < NORM_KINDS; kind++) {
            backward_results results = {0};
            trial t = norm_trial(s, kind);
            for (uint64_t order = 0; order < ORDERS; order++) {
                gpu_shuffle(order);
                check_backward(&t, &results);
            }
        }
}

Test(gpu_gpt_rows, layer_norm_refuses_rows_that_no_block_holds) {
    gpu_need();
    gw_cuda_layernorm norm = {.rows = 1, .channels = GW_CUDA_LAYERNORM_CHANNELS + 1};
    gw_cuda_layernorm_sums sums = {NULL, NULL, NULL};
    cr_assert_eq(gw_cuda_layernorm_forward(&norm, NULL, (gw_cuda_factor){NULL, false}, NULL),
                 cudaErrorInvalidValue);
    cr_assert_eq(gw_cuda_layernorm_backward(&norm, NULL, (gw_cuda_factor){NULL, true}, NULL, NULL, NULL, NULL,
                                            &sums, NULL),
                 cudaErrorInvalidValue);
}

/* Columns and GELU. */

static const uint64_t column_shapes[][2] = {{1, 1},    {1, 512}, {3, 8},   {4, 513}, {63, 12},
                                            {64, 520}, {65, 9},  {67, 16}, {600, 7}, {521, 24}};
enum { COLUMN_SHAPES = sizeof column_shapes / sizeof column_shapes[0] };

Test(gpu_gpt_rows, columns_are_summed) {
    gpu_need();
    for (size_t s = 0; s < 2 * COLUMN_SHAPES; s++) {
        uint64_t rows = column_shapes[s / 2][0], columns = column_shapes[s / 2][1], n = rows * columns;
        float *values = gpu_floats(s, n), *parts = gpu_take(gw_cuda_parts(rows) * columns * sizeof *parts, 0);
        float *sum = gpu_take(columns * sizeof *sum, 0);
        double *expected = calloc(columns, sizeof *expected);
        gw_cuda_factor factor = factor_of(values, n, s % 2 == 1);
        for (uint64_t i = 0; i < n; i++) expected[i % columns] += (double)values[i];
        kept first = {NULL};
        for (uint64_t order = 0; order < ORDERS; order++) {
            gpu_shuffle(order);
            GPU(gw_cuda_sum_columns(rows, columns, factor, parts, sum, NULL));
            gpu_expect_near(sum, expected, columns, 1e-5, "sums of columns");
            expect_same(&first, sum, columns * sizeof *sum, "sums of columns in another order");
        }
        free(values);
        free(expected);
    }
}

Test(gpu_gpt_rows, arrays_of_parts_are_added_side_by_side) {
    gpu_need();
    enum { PARTS = 21, COLUMNS = 37, ALL = GW_CUDA_COLUMN_ARRAYS * PARTS * COLUMNS };
    float *parts = gpu_floats(4, ALL), *sums[GW_CUDA_COLUMN_ARRAYS];
    for (int a = 0; a < GW_CUDA_COLUMN_ARRAYS; a++) sums[a] = gpu_take(COLUMNS * sizeof(float), 0);
    GPU(gw_cuda_add_parts(PARTS, COLUMNS, gpu_copy_of(parts, ALL * sizeof *parts, 0), GW_CUDA_COLUMN_ARRAYS,
                          sums, NULL));
    for (int a = 0; a < GW_CUDA_COLUMN_ARRAYS; a++) {
        double expected[COLUMNS] = {0};
        for (int i = 0; i < PARTS * COLUMNS; i++)
            expected[i % COLUMNS] += (double)parts[a * PARTS * COLUMNS + i];
        gpu_expect_near(sums[a], expected, COLUMNS, 1e-5, "sums of parts");
    }
    cr_assert_eq(gw_cuda_add_parts(1, 1, NULL, GW_CUDA_COLUMN_ARRAYS + 1, sums, NULL), cudaErrorInvalidValue);
    free(parts);
}

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x) {
    double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = tanh(u);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

/* Values over the range where GELU is curved, and some far outside it. */
static float *gelu_inputs(size_t count) {
    float *x = gpu_floats(9, count);
    for (size_t i = 0; i < count; i++) {
        if (i % 3 == 0) x[i] = (float)(gw_mix64(i) % 24000) * 1e-3f - 12.0f;
        if (i % 101 == 100) x[i] *= 1e4f;
    }
    return x;
}

Test(gpu_gpt_rows, gelu_forward) {
    gpu_need();
    static const size_t counts[] = {1, 3, 4, 8, 9, 2047, 2048, 2057, 12345};
    for (size_t c = 0; c < 4 * sizeof counts / sizeof counts[0]; c++) {
        size_t n = counts[c / 4];
        bool bf16 = c % 2 == 1, in_place = c / 2 % 2 == 1;
        float *values = gelu_inputs(n);
        gw_cuda_factor x = factor_of(values, n, bf16), y = in_place ? x : gpu_factor_room(bf16, n);
        double *expected = malloc(n * sizeof *expected);
        for (size_t i = 0; i < n; i++) expected[i] = gelu((double)values[i]);
        GPU(gw_cuda_gelu_forward(n, x, y, NULL));
        expect_factor(y, expected, n, "GELU");
        free(values);
        free(expected);
    }
}

Test(gpu_gpt_rows, gelu_backward) {
    gpu_need();
    for (size_t s = 0; s < 2 * COLUMN_SHAPES; s++) {
        uint64_t rows = column_shapes[s / 2][0], columns = column_shapes[s / 2][1], n = rows * columns;
        bool bf16 = s % 2 == 1;
        float *values = gelu_inputs(n), *dy = gpu_floats(s, n);
        float *parts = gpu_take(gw_cuda_parts(rows) * columns * sizeof *parts, 0);
        gw_cuda_factor x = factor_of(values, n, bf16);
        double *expected = malloc(n * sizeof *expected), *sums = calloc(columns, sizeof *sums);
        kept gradient_first = {NULL}, sum_first = {NULL};
        for (uint64_t order = 0; order < ORDERS; order++) {
            gpu_shuffle(order);
            gw_cuda_factor gradient = factor_of(dy, n, bf16);
            float *sum = gpu_take(columns * sizeof *sum, 0);
            for (uint64_t i = 0; order == 0 && i < n; i++) {
                expected[i] = (double)dy[i] * gelu_slope((double)values[i]);
                sums[i % columns] += expected[i];
            }
            GPU(gw_cuda_gelu_backward(rows, columns, x, gradient, parts, sum, NULL));
            expect_factor(gradient, expected, n, "gradient through GELU");
            gpu_expect_near(sum, sums, columns, 1e-5, "its columns");
            expect_same(&gradient_first, gradient.values, gpu_factor_bytes(bf16, n), "gradient, shuffled");
            expect_same(&sum_first, sum, columns * sizeof *sum, "its columns, shuffled");
        }
        free(values);
        free(dy);
        free(expected);
        free(sums);
    }
}

/* Compares each value by itself, since a small wrong value would not show beside large ones. */
Test(gpu_gpt_rows, gelu_is_right_where_it_is_small_and_where_it_is_not_a_number) {
    gpu_need();
    enum { N = 4000 };
    float x[N], y[N], slope[N], one[N];
    for (int i = 0; i < N; i++) {
        x[i] = ((float)i - N / 2) * 5e-3f;
        one[i] = 1.0f;
    }
    x[0] = NAN;
    x[1] = 1e6f;
    x[2] = -1e6f;
    gw_cuda_factor gpu_x = factor_of(x, N, false), gradient = factor_of(one, N, false),
                   gpu_y = gpu_factor_room(false, N);
    float *parts = gpu_take(gw_cuda_parts(1) * N * sizeof *parts, 0), *sum = gpu_take(sizeof y, 0);
    GPU(gw_cuda_gelu_forward(N, gpu_x, gpu_y, NULL));
    GPU(gw_cuda_gelu_backward(1, N, gpu_x, gradient, parts, sum, NULL));
    gpu_fetch(y, gpu_y.values, sizeof y);
    gpu_fetch(slope, gradient.values, sizeof slope);
    cr_assert(isnan(y[0]) && isnan(slope[0]));
    cr_assert(y[1] == 1e6f && slope[1] == 1.0f);
    cr_assert_float_eq((double)y[2], 0.0, 1e-7);
    cr_assert_float_eq((double)slope[2], 0.0, 1e-7);
    for (int i = 3; i < N; i++) {
        double expected = gelu((double)x[i]);
        /* 1 + tanh cancels in the reference where tanh is near -1, so values below 1e-12 are not compared. */
        cr_assert_float_eq((double)y[i], expected, 3e-6 * fabs(expected) + 1e-12, "%g", (double)x[i]);
        cr_assert_float_eq((double)slope[i], gelu_slope((double)x[i]), 2e-6, "%g", (double)x[i]);
    }
}
