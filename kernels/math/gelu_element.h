/* One element of GELU (kernels/math/gelu.h), for processors and GPUs. The caller supplies the exponential and
 * the reciprocal, which GPUs have in hardware. */
#ifndef GODWIT_KERNELS_MATH_GELU_ELEMENT_H
#define GODWIT_KERNELS_MATH_GELU_ELEMENT_H

#include "core/base/anywhere.h"

/* (1 + tanh u) / 2 is the logistic function of 2u, which loses no digits for any u. */
#define GW_GELU_TWICE 1.5957691216f /* 2 sqrt(2/pi) */
#define GW_GELU_CUBIC 0.044715f

/* Returns -2u for x. */
GW_ANYWHERE static inline float gw_gelu_exponent(float x) {
    return -(GW_GELU_TWICE * x * (1.0f + GW_GELU_CUBIC * (x * x)));
}

typedef struct gw_gelu_point {
    float y, slope;
} gw_gelu_point;

/* Limits e^(-2u) so that its reciprocal is not subnormal and no infinity is multiplied by 0. NaN stays NaN.
 */
GW_ANYWHERE static inline float gw_gelu_limited(float e) {
    float limited = e < 0x1p126f ? e : 0x1p126f;
    return e != e ? e : limited;
}

/* GELU at x, from e = gw_gelu_limited(e^(-2u)) and s = 1 / (1 + e). `slope` is dy/dx. */
GW_ANYWHERE static inline gw_gelu_point gw_gelu_at(float x, float e, float s) {
    float rest = e * s; /* s + rest = 1 */
    gw_gelu_point point;
    point.y = x * s;
    point.slope = s + x * s * rest * (GW_GELU_TWICE * (1.0f + 3.0f * GW_GELU_CUBIC * (x * x)));
    return point;
}

#endif
