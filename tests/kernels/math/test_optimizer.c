/* Optimizers compared with scalar ones in double, on ranges, and at the bounds of the sum format. */
#include "kernels/math/optimizer.h"

#include "core/base/id.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1003, UPDATES = 60 };

static int64_t sum[COUNT];
static float parameters[COUNT], first[COUNT], second[COUNT];

static void start(void) {
    gw_rng rng = gw_rng_seeded(5);
    for (int i = 0; i < COUNT; i++) {
        parameters[i] = (float)(gw_rng_unit(&rng) - 0.5);
        first[i] = second[i] = 0.0f;
    }
}

static void next_sum(int update) {
    gw_rng rng = gw_rng_seeded(100 + (uint64_t)update);
    for (int i = 0; i < COUNT; i++) sum[i] = (int64_t)((gw_rng_unit(&rng) - 0.45) * 0x1p38);
}

static gw_adamw adamw_at(int update) {
    return (gw_adamw){
        .scale = 0x1p-40 * 1.5,
        .rate = 0.01f,
        .beta1 = 0.9f,
        .beta2 = 0.99f,
        .epsilon = 1e-8f,
        .decay = 0.01f,
        .correction1 = (float)(1.0 / (1.0 - pow(0.9, update + 1))),
        .correction2 = (float)(1.0 / (1.0 - pow(0.99, update + 1))),
    };
}

static const gw_sgd sgd = {.scale = 0x1p-40 * 1.5, .rate = 0.05f, .momentum = 0.9f, .decay = 0.001f};

Test(optimizer, adamw_agrees_with_double) {
    static double p[COUNT], m[COUNT], v[COUNT];
    start();
    for (int i = 0; i < COUNT; i++) p[i] = (double)parameters[i];
    for (int update = 0; update < UPDATES; update++) {
        next_sum(update);
        gw_adamw adamw = adamw_at(update);
        gw_optimizer_adamw(&adamw, COUNT, sum, parameters, first, second);
        for (int i = 0; i < COUNT; i++) {
            double gradient = (double)sum[i] * 0x1p-40 * 1.5;
            m[i] = 0.9 * m[i] + 0.1 * gradient;
            v[i] = 0.99 * v[i] + 0.01 * gradient * gradient;
            double step =
                m[i] / (1.0 - pow(0.9, update + 1)) / (sqrt(v[i] / (1.0 - pow(0.99, update + 1))) + 1e-8);
            p[i] -= 0.01 * (step + 0.01 * p[i]);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        cr_assert_float_eq((double)parameters[i], p[i], 2e-5, "element %d", i);
        cr_assert_float_eq((double)first[i], m[i], 1e-6);
        cr_assert_float_eq((double)second[i], v[i], 1e-6);
    }
}

Test(optimizer, sgd_agrees_with_double) {
    static double p[COUNT], v[COUNT];
    start();
    for (int i = 0; i < COUNT; i++) p[i] = (double)parameters[i];
    for (int update = 0; update < UPDATES; update++) {
        next_sum(update);
        gw_optimizer_sgd(&sgd, COUNT, sum, parameters, first);
        for (int i = 0; i < COUNT; i++) {
            v[i] = 0.9 * v[i] + (double)sum[i] * 0x1p-40 * 1.5 + 0.001 * p[i];
            p[i] -= 0.05 * v[i];
        }
    }
    for (int i = 0; i < COUNT; i++) {
        cr_assert_float_eq((double)parameters[i], p[i], 2e-5, "element %d", i);
        cr_assert_float_eq((double)first[i], v[i], 2e-5);
    }
}

/* Checks that an update of all elements and one in pieces of `piece` elements give the same bytes. */
static void check_pieces(int piece) {
    gw_adamw adamw = adamw_at(0);
    start();
    next_sum(0);
    gw_optimizer_adamw(&adamw, COUNT, sum, parameters, first, second);
    gw_optimizer_sgd(&sgd, COUNT, sum, parameters, first);
    float whole[3][COUNT];
    memcpy(whole[0], parameters, sizeof parameters);
    memcpy(whole[1], first, sizeof first);
    memcpy(whole[2], second, sizeof second);
    start();
    for (int from = 0; from < COUNT; from += piece) {
        size_t count = (size_t)(COUNT - from < piece ? COUNT - from : piece);
        gw_optimizer_adamw(&adamw, count, sum + from, parameters + from, first + from, second + from);
        gw_optimizer_sgd(&sgd, count, sum + from, parameters + from, first + from);
    }
    cr_assert_arr_eq(parameters, whole[0], sizeof parameters);
    cr_assert_arr_eq(first, whole[1], sizeof first);
    cr_assert_arr_eq(second, whole[2], sizeof second);
}

Test(optimizer, any_partition_gives_the_same_bytes) {
    check_pieces(1);
    check_pieces(7);
    check_pieces(64);
    check_pieces(1000);
}

Test(optimizer, sums_of_any_size_are_rounded_once) {
    const int64_t hard[] = {0,
                            1,
                            -1,
                            INT64_MAX,
                            INT64_MIN,
                            (1LL << 53) + 1,
                            -(1LL << 53) - 1,
                            1LL << 32,
                            -(1LL << 32),
                            0x7fffffffffffffbf,
                            0x123456789abcdef,
                            -0x123456789abcdef};
    enum { HARD = sizeof hard / sizeof hard[0] };
    float p[HARD] = {0}, v[HARD] = {0};
    const gw_sgd plain = {.scale = 1.0, .rate = 1.0f};
    gw_optimizer_sgd(&plain, HARD, hard, p, v);
    for (int i = 0; i < HARD; i++) cr_assert_eq(p[i], -(float)(double)hard[i], "%lld", (long long)hard[i]);
}

/* The moments of a weight without gradient reach 0 and are never subnormal. */
Test(optimizer, moments_die_out) {
    float p = 0.5f, m = 1e-6f, v = 1e-12f;
    const int64_t none = 0;
    gw_adamw adamw = adamw_at(100);
    for (int i = 0; i < 10000; i++) {
        gw_optimizer_adamw(&adamw, 1, &none, &p, &m, &v);
        cr_assert_neq(fpclassify(m), FP_SUBNORMAL);
        cr_assert_neq(fpclassify(v), FP_SUBNORMAL);
    }
    cr_assert_eq(m, 0.0f);
    cr_assert_eq(v, 0.0f);
}

Test(optimizer, bits_are_pinned) {
    start();
    for (int update = 0; update < UPDATES; update++) {
        next_sum(update);
        gw_adamw adamw = adamw_at(0);
        gw_optimizer_adamw(&adamw, COUNT, sum, parameters, first, second);
        gw_optimizer_sgd(&sgd, COUNT, sum, parameters, first);
    }
    gw_hash hash;
    char text[GW_HASH_TEXT];
    gw_blake2b(parameters, sizeof parameters, &hash, sizeof hash);
    gw_hex(&hash, sizeof hash, text);
    cr_assert_str_eq(text, "0fe18a05c3e5a3392e65142bb984476e0b6ca0e1f231f3f65d017c18bf569501");
}
