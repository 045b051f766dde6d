#include "kernels/gelu.h"

#include "kernels/clones.h"
#include "kernels/vmath.h"

/* (1 + tanh u) / 2 is the logistic function of 2u, which loses no digits anywhere. */
static const float twice = 1.5957691216f; /* 2 sqrt(2/pi) */
static const float cubic = 0.044715f;

GW_CLONES void gw_gelu_forward(size_t count, float *restrict x, float *restrict slope) {
    for (size_t i = 0; i < count; i++) {
        float v = x[i], square = v * v;
        float e = gw_expf_quick(-(twice * v * (1.0f + cubic * square)));
        float big = e < 0x1p126f ? e : 0x1p126f; /* its inverse is not subnormal, and no infinity meets a 0 */
        big = e != e ? e : big;
        float s = 1.0f / (1.0f + big), rest = big * s; /* s + rest = 1 */
        x[i] = v * s;
        slope[i] = s + v * s * rest * (twice * (1.0f + 3.0f * cubic * square));
    }
}

GW_CLONES void gw_gelu_backward(size_t count, const float *restrict slope, float *restrict gradient) {
    for (size_t i = 0; i < count; i++) gradient[i] *= slope[i];
}
