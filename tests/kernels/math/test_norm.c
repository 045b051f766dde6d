#include "kernels/math/norm.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5 * GW_NORM_BLOCK + 1003 };

static int64_t sum[COUNT];

static void fill(double size) {
    gw_rng rng = gw_rng_seeded(3);
    for (int i = 0; i < COUNT; i++) sum[i] = (int64_t)((2.0 * gw_rng_unit(&rng) - 1.0) * size * 0x1p40);
}

Test(norm, agrees_with_a_sum_in_long_double) {
    const double sizes[] = {1e-6, 1.0, 8e6};
    for (int k = 0; k < 3; k++) {
        fill(sizes[k]);
        long double squares = 0.0L;
        for (int i = 0; i < COUNT; i++)
            squares += ldexpl((long double)sum[i], -40) * ldexpl((long double)sum[i], -40);
        gw_norm norm = 0;
        gw_norm_add(&norm, COUNT, sum, 0x1p-40);
        double truth = (double)sqrtl(squares);
        cr_assert_float_eq(gw_norm_value(norm), truth, 1e-6 * truth, "%g, not %g", gw_norm_value(norm),
                           truth);
    }
}

Test(norm, blocks_may_be_added_in_any_order) {
    fill(3.0);
    gw_norm whole = 0, blocks = 0;
    gw_norm_add(&whole, COUNT, sum, 0x1p-40);
    for (int block = COUNT / GW_NORM_BLOCK; block >= 0; block--) {
        int first = block * GW_NORM_BLOCK, left = COUNT - first;
        gw_norm_add(&blocks, (size_t)(left < GW_NORM_BLOCK ? left : GW_NORM_BLOCK), sum + first, 0x1p-40);
    }
    cr_assert(whole == blocks);
}

Test(norm, the_largest_sums_do_not_wrap) {
    for (int i = 0; i < COUNT; i++) sum[i] = INT64_MIN;
    gw_norm norm = 0;
    gw_norm_add(&norm, COUNT, sum, 1.0); /* far above the largest sum of squares */
    cr_assert_float_eq(gw_norm_value(norm), sqrt(6.0) * 0x1p30, 1.0);
}

/* A block's sum is limited, and not a value. */
Test(norm, a_large_value_among_small_ones_counts_in_full) {
    memset(sum, 0, sizeof sum);
    sum[GW_NORM_BLOCK + 5] = 1 << 29;
    gw_norm norm = 0;
    gw_norm_add(&norm, COUNT, sum, 1.0);
    cr_assert_eq(gw_norm_value(norm), 0x1p29);
    sum[GW_NORM_BLOCK + 5] = INT64_C(1) << 31;
    norm = 0;
    gw_norm_add(&norm, COUNT, sum, 1.0);
    cr_assert_eq(gw_norm_value(norm), 0x1p30);
}

Test(norm, bits_are_pinned) {
    fill(0.01);
    gw_norm norm = 0;
    gw_norm_add(&norm, COUNT, sum, 0x1p-40);
    cr_assert_eq(gw_norm_value(norm), 0x1.afb15c83b150cp-1, "%a", gw_norm_value(norm));
}
