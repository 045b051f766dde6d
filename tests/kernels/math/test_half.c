/* Numbers of 16 bits: every one comes back, and what lies between two of them is rounded to the nearer, or
 * to the even one. */
#include "kernels/math/half.h"

#include <criterion/criterion.h>

Test(half, every_number_comes_back) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float half = gw_half_value((uint16_t)bits), bfloat = gw_bfloat_value((uint16_t)bits);
        if (!isnan(half)) cr_assert_eq(gw_half_of((double)half), bits, "%x", bits);
        if (!isnan(bfloat)) cr_assert_eq(gw_bfloat_of((double)bfloat), bits, "%x", bits);
    }
    cr_assert(isnan(gw_half_value(gw_half_of(NAN))) && isnan(gw_bfloat_value(gw_bfloat_of(NAN))));
}

/* Between each two neighbours: the middle goes to the even one, a little less or more to the nearer one. */
Test(half, rounding_is_to_nearest_ties_to_even) {
    for (uint32_t bits = 0; bits < 0x7bff; bits++) {
        double low = (double)gw_half_value((uint16_t)bits),
               high = (double)gw_half_value((uint16_t)(bits + 1));
        double middle = (low + high) / 2;
        cr_assert_eq(gw_half_of(middle), bits + (bits & 1), "%x", bits);
        cr_assert_eq(gw_half_of(nextafter(middle, 0)), bits, "%x", bits);
        cr_assert_eq(gw_half_of(-nextafter(middle, 1e9)), (bits + 1) | 0x8000, "%x", bits);
    }
    for (uint32_t bits = 0; bits < 0x7f7f; bits++) {
        double low = (double)gw_bfloat_value((uint16_t)bits),
               high = (double)gw_bfloat_value((uint16_t)(bits + 1));
        double middle = (low + high) / 2;
        cr_assert_eq(gw_bfloat_of(middle), bits + (bits & 1), "%x", bits);
        cr_assert_eq(gw_bfloat_of(nextafter(middle, 0)), bits, "%x", bits);
        cr_assert_eq(gw_bfloat_of(-nextafter(middle, 1e300)), (bits + 1) | 0x8000, "%x", bits);
    }
}

Test(half, what_is_too_large_is_infinite) {
    cr_assert_eq(gw_half_of(65519.9), 0x7bff);
    cr_assert_eq(gw_half_of(65520), 0x7c00);
    cr_assert_eq(gw_half_of(-1e300), 0xfc00);
    cr_assert_eq(gw_bfloat_of(3.5e38), 0x7f80);
    cr_assert_eq(gw_bfloat_of(-INFINITY), 0xff80);
    cr_assert_eq(gw_half_of(1e-300), 0);
    cr_assert_eq(gw_bfloat_of(-1e-300), 0x8000);
}
