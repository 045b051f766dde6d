/* Numbers of 16 bits: IEEE 754's binary16 ("half"), and bfloat16, the upper half of a float. Conversions to
 * float are exact; those from double round once, to nearest, ties to even. Pure. */
#ifndef GODWIT_KERNELS_MATH_HALF_H
#define GODWIT_KERNELS_MATH_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float gw_half_value(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits >> 15) << 31, exponent = bits >> 10 & 31, fraction = bits & 1023, wide;
    float value;
    if (exponent == 0) { /* a multiple of 2^-24 */
        value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    wide = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline float gw_bfloat_value(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Rounds to a format with `digits` bits of precision, the least exponent `least` and the greatest `most` of a
 * value in [1, 2) * 2^e. What is too large becomes an infinity. */
static inline double gw_round_to_format(double x, int digits, int least, int most) {
    if (x == 0 || !isfinite(x)) return x;
    double rounded;
    if (fabs(x) >=
        ldexp(1.0, least)) { /* drops the lower bits of the fraction; a carry raises the exponent */
        int dropped = 53 - digits;
        uint64_t bits;
        memcpy(&bits, &x, sizeof bits);
        bits += (UINT64_C(1) << (dropped - 1)) - 1 + (bits >> dropped & 1);
        bits &= ~((UINT64_C(1) << dropped) - 1);
        memcpy(&rounded, &bits, sizeof rounded);
    } else {
        double unit = ldexp(1.0, least - digits + 1);
        rounded = copysign(nearbyint(x / unit) * unit, x);
    }
    return fabs(rounded) < ldexp(1.0, most + 1) ? rounded : copysign((double)INFINITY, x);
}

static inline uint16_t gw_half_of(double x) {
    double rounded = gw_round_to_format(x, 11, -14, 15);
    uint16_t sign = signbit(rounded) ? 0x8000 : 0;
    double size = fabs(rounded);
    int exponent;
    if (isnan(size)) return 0x7e00;
    if (isinf(size)) return sign | 0x7c00;
    if (size < 0x1p-14) return (uint16_t)(sign | (unsigned)(size * 0x1p24));
    (void)frexp(size, &exponent);
    return (uint16_t)(sign | (unsigned)(exponent + 14) << 10 | ((unsigned)ldexp(size, 11 - exponent) & 1023));
}

static inline uint16_t gw_bfloat_of(double x) {
    float rounded = (float)gw_round_to_format(x, 8, -126, 127);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return isnan(x) ? 0x7fc0 : (uint16_t)(bits >> 16);
}

#endif
