/* Elementary functions: error bounds against long double, edge values, and pinned bits. A build or a machine
 * with other bits would give other trainings. */
#include "kernels/math/vmath.h"

#include "core/base/id.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* The error of y in units in the last place of a double (with `bits` 24, of a float) near the true value. */
static double ulps(long double y, long double truth, int bits) {
    int exponent;
    frexpl(truth, &exponent);
    return (double)(fabsl(y - truth) / ldexpl(1.0L, exponent - bits));
}

/* Arguments are spread evenly, and densely enough to meet every polynomial's largest error. */
enum { POINTS = 200000 };

static double at(double least, double most, int i) {
    return least + (most - least) * ((double)i + 0.37) / POINTS;
}

Test(vmath, exp_is_within_2_ulp) {
    double worst = 0.0;
    for (int i = 0; i < POINTS; i++) {
        double x = at(-707.9, 709.7, i), small = at(-1.0, 1.0, i);
        worst = fmax(worst, ulps(gw_exp(x), expl(x), 53));
        worst = fmax(worst, ulps(gw_exp(small), expl(small), 53));
    }
    cr_assert_lt(worst, 2.0, "%g", worst);
}

Test(vmath, exp_edges) {
    cr_assert_eq(gw_exp(0.0), 1.0);
    cr_assert_eq(gw_exp(710.0), INFINITY);
    cr_assert_eq(gw_exp(INFINITY), INFINITY);
    cr_assert_eq(gw_exp(-708.5), 0.0);
    cr_assert_eq(gw_exp(-INFINITY), 0.0);
    cr_assert(isnan(gw_exp(NAN)));
    cr_assert(isnan(gw_expf(NAN)));
    cr_assert_eq(gw_expf(-87.31f), 0.0f);
    cr_assert_geq(gw_expf(-87.3f), FLT_MIN);
    cr_assert_eq(gw_expf(89.0f), INFINITY);
}

Test(vmath, expf_is_within_half_an_ulp) {
    double worst = 0.0;
    for (int i = 0; i < POINTS; i++) {
        float x = (float)at(-87.3, 88.7, i);
        worst = fmax(worst, ulps((long double)gw_expf(x), expl((long double)x), 24));
    }
    cr_assert_lt(worst, 0.51, "%g", worst);
}

Test(vmath, expf_quick_is_within_2_ulp) {
    double worst = 0.0;
    for (int i = 0; i < POINTS; i++) {
        float x = (float)at(-86.6, 88.7, i), small = (float)at(-1.0, 1.0, i);
        worst = fmax(worst, ulps((long double)gw_expf_quick(x), expl((long double)x), 24));
        worst = fmax(worst, ulps((long double)gw_expf_quick(small), expl((long double)small), 24));
    }
    cr_assert_lt(worst, 2.0, "%g", worst);
    cr_assert_eq(gw_expf_quick(0.0f), 1.0f);
    cr_assert_eq(gw_expf_quick(88.8f), INFINITY);
    cr_assert_eq(gw_expf_quick(INFINITY), INFINITY);
    cr_assert_geq(gw_expf_quick(-86.6f), FLT_MIN);
    cr_assert_eq(gw_expf_quick(-86.7f), 0.0f);
    cr_assert_eq(gw_expf_quick(-INFINITY), 0.0f);
    cr_assert(isnan(gw_expf_quick(NAN)));
}

Test(vmath, log_is_within_2_ulp) {
    double worst = 0.0;
    for (int i = 0; i < POINTS; i++) {
        double wide = ldexp(at(1.0, 2.0, i), i % 2000 - 1000), near = at(0.5, 2.0, i),
               close = 1.0 + at(-1e-6, 1e-6, i);
        worst = fmax(worst, ulps(gw_log(wide), logl(wide), 53));
        worst = fmax(worst, ulps(gw_log(near), logl(near), 53));
        worst = fmax(worst, ulps(gw_log(close), logl(close), 53));
    }
    cr_assert_lt(worst, 2.0, "%g", worst);
}

Test(vmath, log_edges) {
    cr_assert_eq(gw_log(1.0), 0.0);
    cr_assert_eq(gw_log(0.0), -INFINITY);
    cr_assert_eq(gw_log(INFINITY), INFINITY);
    cr_assert(isnan(gw_log(-1.0)));
    cr_assert(isnan(gw_log(NAN)));
}

Test(vmath, tanhf_is_within_half_an_ulp) {
    double worst = 0.0;
    for (int i = 0; i < POINTS; i++) {
        float x = (float)at(-10.0, 10.0, i), small = (float)at(-0.01, 0.01, i);
        worst = fmax(worst, ulps((long double)gw_tanhf(x), tanhl((long double)x), 24));
        worst = fmax(worst, ulps((long double)gw_tanhf(small), tanhl((long double)small), 24));
    }
    cr_assert_lt(worst, 0.51, "%g", worst);
    cr_assert_eq(gw_tanhf(0.0f), 0.0f);
    cr_assert_eq(gw_tanhf(INFINITY), 1.0f);
    cr_assert_eq(gw_tanhf(-INFINITY), -1.0f);
    cr_assert(isnan(gw_tanhf(NAN)));
}

Test(vmath, sine_and_cosine_are_within_2_to_minus_52) {
    double worst = 0.0, sine, cosine;
    for (int i = 0; i < POINTS; i++) {
        double list[] = {at(-10.0, 10.0, i), at(-1e5, 1e5, i)};
        for (int k = 0; k < 2; k++) {
            gw_sincos(list[k], &sine, &cosine);
            worst = fmax(worst, (double)fabsl(sine - sinl(list[k])));
            worst = fmax(worst, (double)fabsl(cosine - cosl(list[k])));
        }
    }
    cr_assert_lt(worst, 0x1p-52, "%g", worst);
}

Test(vmath, power_is_a_repeated_product) {
    cr_assert_eq(gw_power(0.9, 0), 1.0);
    cr_assert_eq(gw_power(0.9, 1), 0.9);
    cr_assert_eq(gw_power(2.0, 40), 0x1p40);
    cr_assert_float_eq(gw_power(0.999, 12345), pow(0.999, 12345), 1e-18);
}

Test(vmath, bits_are_pinned) {
    double *values = malloc(7 * POINTS * sizeof *values);
    for (int i = 0; i < POINTS; i++) {
        double *v = values + 7 * i, x = at(-20.0, 20.0, i);
        v[0] = gw_exp(x);
        v[1] = gw_log(at(1e-3, 1e3, i));
        v[2] = (double)gw_tanhf((float)x);
        v[3] = (double)gw_expf((float)x);
        gw_sincos(x, &v[4], &v[5]);
        v[6] = gw_power(0.99, (uint64_t)i);
    }
    gw_hash hash;
    char text[GW_HASH_TEXT];
    gw_blake2b(values, 7 * POINTS * sizeof *values, &hash, sizeof hash);
    gw_hex(&hash, sizeof hash, text);
    cr_assert_str_eq(text, "a728081a2cdeb8cfd0435aaf43f2e7098dae723eb4f3401321e844c6b1a396cc");
    free(values);
}
