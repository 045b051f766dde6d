/* Conversions between the widths of floating-point numbers. What is right is computed here from the
 * definition: of all numbers of a narrow kind, the nearest. */
#include "kernels/data/real.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static double widened(gw_real kind, uint32_t bits) {
    double value;
    cr_assert_eq(gw_real_convert(kind, &bits, GW_REAL_F64, &value, 1), 0);
    return value;
}

/* The value of a number from its fields. */
static double defined(int exponent_bits, int fraction_bits, uint32_t bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, exponent = (int)(bits >> fraction_bits) & (2 * bias + 1);
    double fraction = (double)(bits & ((1u << fraction_bits) - 1)),
           sign = bits >> (exponent_bits + fraction_bits) ? -1.0 : 1.0;
    if (exponent == 2 * bias + 1) return fraction == 0.0 ? sign * INFINITY : NAN;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + ldexp(1.0, fraction_bits), exponent - bias - fraction_bits);
}

Test(real, every_half_has_its_value_and_comes_back) {
    static const struct {
        gw_real kind;
        int exponent_bits, fraction_bits;
    } kinds[] = {{GW_REAL_F16, 5, 10}, {GW_REAL_BF16, 8, 7}};
    static const gw_real wider[] = {GW_REAL_F32, GW_REAL_F64};
    for (int k = 0; k < 2; k++)
        for (uint32_t bits = 0; bits < 1 << 16; bits++) {
            double expected = defined(kinds[k].exponent_bits, kinds[k].fraction_bits, bits),
                   value = widened(kinds[k].kind, bits);
            cr_assert(isnan(expected) ? isnan(value)
                                      : value == expected && !signbit(value) == !signbit(expected),
                      "%d %x", k, bits);
            for (int w = 0; w < 2; w++) {
                uint64_t wide = 0;
                uint16_t back = 0;
                cr_assert_eq(gw_real_convert(kinds[k].kind, &bits, wider[w], &wide, 1), 0);
                cr_assert_eq(gw_real_convert(wider[w], &wide, kinds[k].kind, &back, 1), 0);
                if (isnan(expected))
                    cr_assert(isnan(widened(kinds[k].kind, back)), "%d %x", k, bits);
                else
                    cr_assert_eq(back, bits, "%d %x", k, bits);
            }
        }
}

/* Between two neighbours the nearer one is taken, and in the middle the one with the last bit 0; also for
 * numbers that are next to the middle in binary64, which a conversion by way of binary32 would take for
 * the middle. */
static void check_between(gw_real kind, uint16_t low) {
    double one = widened(kind, low), other = widened(kind, low + 1u), middle = one + (other - one) / 2;
    const double values[] = {nextafter(middle, one), middle, nextafter(middle, other),
                             one + (other - one) / 4};
    const uint16_t expected[] = {low, (uint16_t)(low + (low & 1)), (uint16_t)(low + 1), low};
    uint16_t got[4], negative[4];
    double minus[4];
    for (int i = 0; i < 4; i++) minus[i] = -values[i];
    gw_real_convert(GW_REAL_F64, values, kind, got, 4);
    gw_real_convert(GW_REAL_F64, minus, kind, negative, 4);
    for (int i = 0; i < 4; i++)
        cr_assert(got[i] == expected[i] && negative[i] == (expected[i] | 0x8000), "%d: %x %d %x", kind, low,
                  i, got[i]);
    float narrow = (float)middle; /* exact */
    gw_real_convert(GW_REAL_F32, &narrow, kind, got, 1);
    cr_assert((double)narrow == middle && got[0] == expected[1], "%d: %x", kind, low);
}

Test(real, numbers_are_rounded_to_the_nearest_even) {
    for (uint32_t low = 0; low < 0x7BFF; low++) check_between(GW_REAL_F16, (uint16_t)low);
    for (uint32_t low = 0; low < 0x7F7F; low++)
        if (low > 1)
            check_between(GW_REAL_BF16, (uint16_t)low); /* below, the middles are no normal binary32 */
}

/* The processor rounds binary64 to binary32. */
Test(real, binary32_is_what_the_processor_makes_of_binary64) {
    gw_rng rng = gw_rng_seeded(5);
    for (int i = 0; i < 1000000; i++) {
        uint64_t bits = gw_rng_next(&rng);
        if (i % 2 == 0) bits = (bits & ~(UINT64_C(2047) << 52)) | (860 + (bits >> 32) % 300) << 52;
        double value;
        memcpy(&value, &bits, sizeof value);
        float expected = (float)value, got;
        uint64_t overflows = gw_real_convert(GW_REAL_F64, &value, GW_REAL_F32, &got, 1);
        cr_assert(isnan(expected) ? isnan(got) : memcmp(&got, &expected, sizeof got) == 0, "%a: %a, not %a",
                  value, (double)got, (double)expected);
        cr_assert_eq(overflows, isfinite(value) && isinf(expected));
    }
}

Test(real, numbers_that_are_too_large_become_infinite_and_are_counted) {
    const float values[] = {65504.0f, 65519.99f, 65520.0f, -1e6f, INFINITY, -INFINITY, NAN, 0x1.fffffep127f};
    uint16_t got[8];
    cr_assert_eq(gw_real_convert(GW_REAL_F32, values, GW_REAL_F16, got, 8), 3);
    static const uint16_t half[] = {0x7BFF, 0x7BFF, 0x7C00, 0xFC00, 0x7C00, 0xFC00, 0x7E00, 0x7C00};
    cr_assert_arr_eq(got, half, sizeof half);
    cr_assert_eq(gw_real_convert(GW_REAL_F32, values, GW_REAL_BF16, got, 8), 1);
    static const uint16_t brain[] = {0x4780, 0x4780, 0x4780, 0xC974, 0x7F80, 0xFF80, 0x7FC0, 0x7F80};
    cr_assert_arr_eq(got, brain, sizeof brain);
    cr_assert_eq(widened(GW_REAL_F16, 0x7BFF), gw_real_largest(GW_REAL_F16));
    cr_assert_eq(widened(GW_REAL_BF16, 0x7F7F), gw_real_largest(GW_REAL_BF16));
    /* a NaN whose upper bits are zeros does not become an infinity */
    const uint32_t quiet = 0x7F800001;
    gw_real_convert(GW_REAL_F32, &quiet, GW_REAL_BF16, got, 1);
    cr_assert(isnan(widened(GW_REAL_BF16, got[0])));
    gw_real_convert(GW_REAL_F32, &quiet, GW_REAL_F16, got, 1);
    cr_assert(isnan(widened(GW_REAL_F16, got[0])));
}

Test(real, kinds_have_the_names_of_safetensors) {
    for (gw_real kind = 0; kind < GW_REALS; kind++) cr_expect_eq(gw_real_named(gw_real_name(kind)), kind);
    cr_expect_eq(gw_real_named("I32"), GW_REALS);
    cr_expect(gw_real_bytes(GW_REAL_F64) == 8 && gw_real_bytes(GW_REAL_BF16) == 2);
}
