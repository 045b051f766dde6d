#include "kernels/math/gelu.h"

#include "kernels/math/clones.h"
#include "kernels/math/gelu_element.h"
#include "kernels/math/vmath.h"

GW_CLONES void gw_gelu_forward(size_t count, float *restrict x, float *restrict slope) {
    for (size_t i = 0; i < count; i++) {
        float e = gw_gelu_limited(gw_expf_quick(gw_gelu_exponent(x[i])));
        gw_gelu_point point = gw_gelu_at(x[i], e, 1.0f / (1.0f + e));
        x[i] = point.y;
        slope[i] = point.slope;
    }
}

GW_CLONES void gw_gelu_backward(size_t count, const float *restrict slope, float *restrict gradient) {
    for (size_t i = 0; i < count; i++) gradient[i] *= slope[i];
}
