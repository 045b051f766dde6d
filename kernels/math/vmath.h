/* Elementary functions with the same result on every machine. libm selects other algorithms where the
 * processor has fused multiply-add, and its results then differ in the last bit; these functions use plain
 * IEEE additions, multiplications and divisions in a fixed order. They have no tables and no branches, so
 * that the compiler vectorises loops over them.
 *
 * Accuracy is stated in units in the last place (ulp); tests/kernels/math/test_vmath.c tests it. The method
 * is range reduction (Cody and Waite, "Software manual for the elementary functions", 1980) and a series. All
 * functions are pure and may be called on any thread. */
#ifndef GODWIT_KERNELS_MATH_VMATH_H
#define GODWIT_KERNELS_MATH_VMATH_H

#include "core/base/anywhere.h"

#include <stdint.h>
#include <string.h>

/* The parts of ln 2. The high part has 32 bits, so that its product with an exponent is exact. */
#define GW_LN2_HIGH 0x1.62e42fee00000p-1
#define GW_LN2_LOW  0x1.a39ef35793c76p-33

GW_ANYWHERE static inline double gw_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

GW_ANYWHERE static inline uint64_t gw_to_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Converts q to a double, rounded once as (double)q is, by operations that every instruction set has for
 * vectors. Each half of q becomes an exact double when it is placed in the mantissa of a power of two. */
GW_ANYWHERE static inline double gw_int_to_double(int64_t q) {
    uint64_t offset = (uint64_t)q ^ UINT64_C(1) << 63;
    double high = gw_from_bits(offset >> 32 | UINT64_C(0x4530000000000000));          /* 2^84 + high 2^32 */
    double low = gw_from_bits((offset & 0xffffffffu) | UINT64_C(0x4330000000000000)); /* 2^52 + low */
    return (high - 0x1.00000801p84) + low; /* subtracts 2^84, the offset 2^63 and 2^52 */
}

/* Returns the integer nearest to x, ties to even, for |x| < 2^51. Adding 1.5 * 2^52 leaves no bits for a
 * fraction. */
GW_ANYWHERE static inline double gw_nearest(double x) {
    return (x + 0x1.8p52) - 0x1.8p52;
}

/* Returns e^x within 2 ulp: infinity above 709.78, and 0, never a subnormal, below -708. NaN stays NaN. */
GW_ANYWHERE static inline double gw_exp(double x) {
    double inside = x > 709.79 ? 709.79 : x;
    inside = inside < -709.0 ? -709.0 : inside;
    double n = gw_nearest(inside * 0x1.71547652b82fep0);
    double r = (inside - n * GW_LN2_HIGH) - n * GW_LN2_LOW;
    double p =
        1.0 / 6227020800.0; /* Taylor series to r^13: the remainder is below 2^-57 for |r| <= ln(2)/2 */
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r * r + r + 1.0;
    /* 2^n is two factors, since n may be 1024. The sum leaves n + 1022 in the low bits of the mantissa. */
    uint64_t exponent = gw_to_bits(n + (0x1.8p52 + 1022.0)) & 0xfffu;
    double y = p * gw_from_bits(exponent << 52) * 2.0;
    return x < -708.0 ? 0.0 : y;
}

/* Returns e^x within 0.51 ulp of float: 0 below -87.3, never a subnormal, since arithmetic on subnormals is
 * slow. NaN stays NaN. */
GW_ANYWHERE static inline float gw_expf(float x) {
    return x < -87.3f ? 0.0f : (float)gw_exp((double)x);
}

/* Returns e^x within 2 ulp of float: infinity above 88.73, and 0, never a subnormal, below -86.6. NaN stays
 * NaN. It computes in float, so that a vector holds twice as many elements as for gw_expf. */
GW_ANYWHERE static inline float gw_expf_quick(float x) {
    float inside = x > 89.0f ? 89.0f : x;
    inside = inside < -87.0f ? -87.0f : inside;
    float shifted = inside * 0x1.715476p0f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    float r = (inside - n * 0x1.63p-1f) + n * 0x1.bd0106p-13f; /* ln 2 = 355/512 - 2.1219e-4 */
    float p = 1.9875691500e-4f; /* the minimax polynomial to r^7 of Cephes' expf */
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    uint32_t exponent; /* the low bits of `shifted` hold n; 2^n is two factors, since n may be 128 */
    memcpy(&exponent, &shifted, sizeof exponent);
    exponent = (exponent + 126u) << 23;
    float power;
    memcpy(&power, &exponent, sizeof power);
    float y = p * power * 2.0f;
    return x < -86.6f ? 0.0f : y;
}

/* Returns the natural logarithm of x within 2 ulp for a normal positive x, minus infinity for 0 and positive
 * subnormals, infinity for infinity, and NaN for negative x and NaN. */
GW_ANYWHERE static inline double gw_log(double x) {
    uint64_t bits = gw_to_bits(x);
    /* Splits x into m * 2^e with m in [sqrt(1/2), sqrt(2)) by integer operations on its bits. */
    uint64_t shifted = bits - 0x3fe6a09e667f3bcdu;
    uint64_t exponent = (shifted >> 52) ^ 0x800u; /* e + 2048, which is positive */
    double e = gw_from_bits(exponent | 0x4330000000000000u) - (0x1p52 + 2048.0);
    double m = gw_from_bits(bits - (shifted & 0xfff0000000000000u));
    double f = m - 1.0, s = f / (2.0 + f), z = s * s;
    double p = 2.0 / 21.0; /* log(m) = 2 atanh(s) with |s| < 0.172; the remainder is below 2^-55 */
    p = p * z + 2.0 / 19.0;
    p = p * z + 2.0 / 17.0;
    p = p * z + 2.0 / 15.0;
    p = p * z + 2.0 / 13.0;
    p = p * z + 2.0 / 11.0;
    p = p * z + 2.0 / 9.0;
    p = p * z + 2.0 / 7.0;
    p = p * z + 2.0 / 5.0;
    p = p * z + 2.0 / 3.0;
    /* In real numbers 2s = f - s * f. Since f is exact, the leading term has no rounding error. */
    double y = e * GW_LN2_HIGH + (f + (s * (z * p - f) + e * GW_LN2_LOW));
    y = x < 0x1p-1022 ? -__builtin_inf() : y;
    y = x > 0x1.fffffffffffffp1023 ? x : y;
    return x >= 0.0 ? y : __builtin_nan("");
}

/* Returns the hyperbolic tangent within 0.51 ulp of float; NaN stays NaN. */
GW_ANYWHERE static inline float gw_tanhf(float x) {
    double wide = (double)x, size = wide < 0.0 ? -wide : wide;
    double e = gw_exp(2.0 * (size < 20.0 ? size : 20.0));
    double far = (e - 1.0) / (e + 1.0);
    double square = wide * wide; /* near zero the difference e - 1 cancels */
    double near = size * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0)));
    double y = size < 0x1p-9 ? near : far;
    y = wide != wide ? wide : y;
    return (float)(wide < 0.0 ? -y : y);
}

/* Computes sine and cosine with an absolute error below 2^-52, for |x| <= 1e5. */
GW_ANYWHERE static inline void gw_sincos(double x, double *sine, double *cosine) {
    double n = gw_nearest(x * 0x1.45f306dc9c883p-1);
    /* pi/2 consists of three parts of 33 bits, so that the product of n and each part is exact. */
    double r = x - n * 0x1.921fb54400000p0;
    r = r - n * 0x1.0b4611a600000p-34;
    r = r - n * 0x1.3198a2e037073p-69;
    double z = r * r;
    double s = 1.0 / 355687428096000.0;
    s = s * z - 1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = r + r * z * s;
    double c = 1.0 / 20922789888000.0;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = 1.0 - (0.5 * z - z * z * c);
    uint64_t quadrant = gw_to_bits(n + 0x1.8p52) & 3u;
    double from_sine = (quadrant & 1u) ? c : s, from_cosine = (quadrant & 1u) ? s : c;
    *sine = (quadrant & 2u) ? -from_sine : from_sine;
    *cosine = ((quadrant + 1u) & 2u) ? -from_cosine : from_cosine;
}

/* Returns x^n by repeated squaring. It serves bias corrections, for which equal results on all machines
 * matter and the last ulp does not. */
GW_ANYWHERE static inline double gw_power(double x, uint64_t n) {
    double y = 1.0;
    for (; n != 0; n >>= 1, x *= x)
        if (n & 1u) y *= x;
    return y;
}

#endif
