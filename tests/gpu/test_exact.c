/* The sum format on a GPU, bit for bit against its definition in core/state/exact.c. */
#include "kernels/cuda/device/exact.h"
#include "tests/gpu/rig.h"

#include "core/rng.h"
#include "core/state/exact.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRAC = 40, SHARDS = 120, TENSOR = 3 };

/* Sizes around the kernel's pair, round and tile, and far beyond. */
static const uint64_t sizes[] = {1, 2, 3, 255, 256, 2047, 2048, 2049, 16383, 16384, 16385, 100003, 1 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

typedef struct arrays {
    float *values;
    int64_t *sum, *expected, *result;
} arrays;

static arrays open_arrays(uint64_t seed, uint64_t count) {
    arrays a = {.values = malloc(count * sizeof *a.values),
                .sum = malloc(count * sizeof *a.sum),
                .expected = malloc(count * sizeof *a.expected),
                .result = malloc(count * sizeof *a.result)};
    cr_assert(a.values && a.sum && a.expected && a.result);
    gpu_random_floats(seed, count, -60, 15, a.values);
    gw_rng rng = gw_rng_seeded(seed + 1);
    for (uint64_t i = 0; i < count; i++) a.sum[i] = (int64_t)gw_rng_next(&rng);
    memcpy(a.expected, a.sum, count * sizeof *a.sum);
    return a;
}

static void close_arrays(const arrays *a) {
    free(a->values);
    free(a->sum);
    free(a->expected);
    free(a->result);
}

typedef struct outcome {
    gw_cuda_found found, of_shard;
    unsigned long long least;
} outcome;

/* Adds on the GPU, with values and sums that lie so many elements behind aligned addresses; *a->result
 * becomes the sum. */
static outcome add(const arrays *a, gw_exact_format format, uint64_t first, uint64_t count,
                   gw_cuda_adding adding, size_t value_shift, size_t sum_shift) {
    outcome start = {.least = GW_CUDA_NO_PLACE};
    outcome *at = gpu_copy_of(&start, sizeof start, 0);
    float *values = gpu_copy_of(a->values, count * sizeof *values, value_shift * sizeof *values);
    int64_t *sum = gpu_copy_of(a->sum, count * sizeof *sum, sum_shift * sizeof *sum);
    gw_cuda_piece piece = {.format = format,
                           .first = first,
                           .count = count,
                           .place = GW_CUDA_PLACE(TENSOR, 1000),
                           .found = &at->found,
                           .of_shard = &at->of_shard,
                           .least = &at->least};
    GPU(gw_cuda_add_floats(&piece, adding, values, adding == GW_CUDA_PROBE ? NULL : sum, NULL));
    gpu_fetch(&start, at, sizeof start);
    gpu_fetch(a->result, sum, count * sizeof *sum);
    return start;
}

static void expect_equal(const arrays *a, uint64_t count, const outcome *got, const gw_exact_part *expected) {
    cr_assert_eq(memcmp(a->result, a->expected, count * sizeof *a->result), 0, "%llu elements",
                 (unsigned long long)count);
    cr_assert_eq(got->found.fingerprint, expected->fingerprint);
    cr_assert_eq(got->found.bad, expected->bad);
    cr_assert_eq(got->of_shard.fingerprint, expected->fingerprint);
    cr_assert_eq(got->of_shard.bad, expected->bad);
}

Test(gpu_exact, adds_the_bits_of_the_definition) {
    gpu_need();
    gw_exact_format format = gw_exact_format_of(FRAC, SHARDS);
    for (int s = 0; s < SIZES; s++)
        for (size_t shift = 0; shift < 4; shift++) {
            arrays a = open_arrays(sizes[s] + shift, sizes[s]);
            gw_exact_part part = {0, 0};
            gw_exact_add(&format, 77 + shift, sizes[s], a.values, a.expected, &part);
            outcome got = add(&a, format, 77 + shift, sizes[s], GW_CUDA_ADD, shift, shift / 2);
            expect_equal(&a, sizes[s], &got, &part);
            cr_assert_eq(got.least, GW_CUDA_NO_PLACE);
            close_arrays(&a);
        }
}

Test(gpu_exact, stores_over_what_was_there) {
    gpu_need();
    gw_exact_format format = gw_exact_format_of(FRAC, SHARDS);
    for (int s = 0; s < SIZES; s++) {
        arrays a = open_arrays(sizes[s], sizes[s]);
        gw_exact_part part = {0, 0};
        memset(a.expected, 0, sizes[s] * sizeof *a.expected);
        gw_exact_add(&format, 5, sizes[s], a.values, a.expected, &part);
        outcome got = add(&a, format, 5, sizes[s], GW_CUDA_STORE, 0, 0);
        expect_equal(&a, sizes[s], &got, &part);
        close_arrays(&a);
    }
}

Test(gpu_exact, looks_and_leaves_the_sum_alone) {
    gpu_need();
    gw_exact_format format = gw_exact_format_of(FRAC, SHARDS);
    arrays a = open_arrays(9, 100003);
    gw_exact_part part = {0, 0};
    gw_exact_add(&format, 5, 100003, a.values, a.expected, &part);
    memcpy(a.expected, a.sum, 100003 * sizeof *a.sum);
    outcome got = add(&a, format, 5, 100003, GW_CUDA_PROBE, 0, 0);
    expect_equal(&a, 100003, &got, &part);
    close_arrays(&a);
}

/* The edges of the format: ties, the last good value, the first bad one, infinities and NaN. */
Test(gpu_exact, edges_and_bad_values) {
    gpu_need();
    static const uint32_t fracs[] = {0, 20, 40, 52};
    for (int f = 0; f < 4; f++) {
        gw_exact_format format = gw_exact_format_of(fracs[f], SHARDS);
        float unit = (float)ldexp(1.0, -(int)fracs[f]);
        const float edges[] = {0.0f,
                               -0.0f,
                               unit,
                               0.5f * unit,
                               1.5f * unit,
                               2.5f * unit,
                               -0.5f * unit,
                               -1.5f * unit,
                               0x1p-149f,
                               -0x1p-149f,
                               format.limit,
                               -format.limit,
                               NAN,
                               INFINITY,
                               -INFINITY,
                               nextafterf(format.limit, 0),
                               -nextafterf(format.limit, 0),
                               0x1.fffffep126f};
        enum { EDGES = sizeof edges / sizeof edges[0], COUNT = 5000 };
        arrays a = open_arrays((uint64_t)f, COUNT);
        for (int i = 0; i < COUNT; i++)
            if (i % 3 == 1) a.values[i] = edges[i / 3 % EDGES];
        gw_exact_part part = {0, 0};
        gw_exact_add(&format, 0, COUNT, a.values, a.expected, &part);
        outcome got = add(&a, format, 0, COUNT, GW_CUDA_ADD, 0, 0);
        expect_equal(&a, COUNT, &got, &part);
        uint64_t first = 0;
        int64_t q;
        while (gw_exact_round(&format, a.values[first], &q)) first++;
        cr_assert_eq(got.least, GW_CUDA_PLACE(TENSOR, 1000 + first));
        close_arrays(&a);
    }
}

Test(gpu_exact, integers) {
    gpu_need();
    static const uint32_t fracs[] = {0, 20, 52};
    enum { COUNT = 3001 };
    for (int f = 0; f < 3; f++) {
        gw_exact_format format = gw_exact_format_of(fracs[f], SHARDS);
        int64_t values[COUNT], expected[COUNT], result[COUNT];
        gw_rng rng = gw_rng_seeded(fracs[f]);
        for (int i = 0; i < COUNT; i++) values[i] = (int64_t)(gw_rng_next(&rng) >> (i % 64));
        for (int i = 0; i < COUNT; i += 7) values[i] = -values[i];
        const int64_t edges[] = {
            0, 1, -1, INT64_MAX, INT64_MIN, format.most >> fracs[f], -(format.most >> fracs[f])};
        memcpy(values, edges, sizeof edges);
        memset(expected, 0, sizeof expected);
        gw_exact_part part = {0, 0};
        gw_exact_add_integers(&format, 9, COUNT, values, expected, &part);
        outcome got = {.least = GW_CUDA_NO_PLACE};
        outcome *at = gpu_copy_of(&got, sizeof got, 0);
        int64_t *gpu_values = gpu_copy_of(values, sizeof values, 0), *sum = gpu_take(sizeof values, 8);
        gw_cuda_piece piece = {
            .format = format, .first = 9, .count = COUNT, .found = &at->found, .least = &at->least};
        GPU(gw_cuda_add_integers(&piece, GW_CUDA_STORE, gpu_values, sum, NULL));
        gpu_fetch(&got, at, sizeof got);
        gpu_fetch(result, sum, sizeof result);
        cr_assert_arr_eq(result, expected, sizeof expected);
        cr_assert_eq(got.found.fingerprint, part.fingerprint);
        cr_assert_eq(got.found.bad, part.bad);
        cr_assert_gt(part.bad, 0);
    }
}

Test(gpu_exact, fingerprints) {
    gpu_need();
    for (int s = 0; s < SIZES; s++) {
        arrays a = open_arrays(sizes[s], sizes[s]);
        unsigned long long start = 12345, *total = gpu_copy_of(&start, sizeof start, 0);
        int64_t *words = gpu_copy_of(a.sum, sizes[s] * sizeof *words, 0);
        GPU(gw_cuda_fingerprint(UINT32_MAX - 50, sizes[s], words, total, NULL)); /* the tensor's keys wrap */
        unsigned long long got;
        gpu_fetch(&got, total, sizeof got);
        cr_assert_eq(got, start + gw_exact_fingerprint(UINT32_MAX - 50, sizes[s], a.sum));
        close_arrays(&a);
    }
}

/* Many tensors at once, as many as fill several blocks and fewer than a warp, with and without one total. */
Test(gpu_exact, fingerprints_of_a_table) {
    gpu_need();
    enum { MOST = 1000, WORDS = 1 << 16 };
    static const uint32_t counts[] = {0, 1, 7, 33, MOST};
    arrays a = open_arrays(9, WORDS);
    const int64_t *words = gpu_copy_of(a.sum, WORDS * sizeof *words, 0);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (uint32_t without = 0; without <= 2; without++) {
            gw_cuda_printed table[MOST];
            unsigned long long expected[2] = {12345, 54321}, got[2];
            unsigned long long *totals = gpu_copy_of(expected, sizeof expected, 0);
            for (uint32_t i = 0; i < counts[c]; i++) {
                uint64_t at = (uint64_t)i * 61 % 1000 * 2, count = 1 + i * 37 % 5000;
                table[i] = (gw_cuda_printed){
                    .first = UINT32_MAX - 50 + i, .count = count, .words = words + at, .total = i % 3 == 0};
                if (table[i].total != without)
                    expected[table[i].total] +=
                        gw_exact_state_fingerprint(table[i].first, count * sizeof *words, a.sum + at);
            }
            const gw_cuda_printed *there = gpu_copy_of(table, counts[c] * sizeof *table, 0);
            GPU(gw_cuda_state_fingerprints(there, counts[c], without, totals, NULL));
            gpu_fetch(got, totals, sizeof got);
            cr_assert(got[0] == expected[0] && got[1] == expected[1], "%u tensors without %u", counts[c],
                      without);
        }
    }
    close_arrays(&a);
}

Test(gpu_exact, back_to_floats) {
    gpu_need();
    enum { COUNT = 70001 };
    arrays a = open_arrays(4, COUNT);
    float *expected = malloc(COUNT * sizeof *expected), *result = malloc(COUNT * sizeof *result);
    for (uint64_t i = 0; i < COUNT; i++) a.sum[i] >>= i % 64;
    static const uint32_t fracs[] = {0, 20, 40, 52};
    int64_t *sum = gpu_copy_of(a.sum, COUNT * sizeof *sum, 0);
    float *values = gpu_take(COUNT * sizeof *values, 4);
    for (int f = 0; f < 4; f++) {
        gw_exact_to_float(fracs[f], COUNT, a.sum, expected);
        GPU(gw_cuda_to_floats(fracs[f], COUNT, sum, values, NULL));
        gpu_fetch(result, values, COUNT * sizeof *result);
        cr_assert_eq(memcmp(result, expected, COUNT * sizeof *result), 0);
    }
    free(expected);
    free(result);
    close_arrays(&a);
}

Test(gpu_exact, code_is_of_this_build) {
    gpu_need();
    uint32_t made_for = 0;
    int compiled = 2;
    struct cudaDeviceProp properties;
    GPU(gw_cuda_code(&made_for, &compiled));
    GPU(cudaGetDeviceProperties(&properties, 0));
    cr_assert(compiled == 0 || compiled == 1);
    cr_assert_eq(made_for / 10, (uint32_t)properties.major);
    if (properties.major == 9) cr_assert_eq(compiled, 0);
}
