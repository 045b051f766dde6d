/* One element of an update (kernels/math/optimizer.h), for processors and GPUs. */
#ifndef GODWIT_KERNELS_MATH_OPTIMIZER_ELEMENT_H
#define GODWIT_KERNELS_MATH_OPTIMIZER_ELEMENT_H

#include "kernels/math/optimizer.h"
#include "kernels/math/vmath.h"

/* Rounds a tiny moment to 0: the decaying moments of a weight without gradient would become subnormals, which
 * are slow. */
GW_ANYWHERE static inline float gw_settle(float moment) {
    return __builtin_fabsf(moment) < 0x1p-100f ? 0.0f : moment;
}

GW_ANYWHERE static inline void gw_sgd_element(gw_sgd sgd, int64_t sum, float *parameter, float *velocity) {
    float gradient = (float)(gw_widen(sum) * sgd.scale);
    float v = gw_settle(sgd.momentum * *velocity + (gradient + sgd.decay * *parameter));
    *velocity = v;
    *parameter -= sgd.rate * v;
}

GW_ANYWHERE static inline void gw_adamw_element(gw_adamw adamw, int64_t sum, float *parameter, float *first,
                                                float *second) {
    float gradient = (float)(gw_widen(sum) * adamw.scale);
    float m = gw_settle(adamw.beta1 * *first + (1.0f - adamw.beta1) * gradient);
    float v = gw_settle(adamw.beta2 * *second + (1.0f - adamw.beta2) * gradient * gradient);
    *first = m;
    *second = v;
    float step = adamw.correction1 * m / (__builtin_sqrtf(adamw.correction2 * v) + adamw.epsilon);
    *parameter -= adamw.rate * (step + adamw.decay * *parameter);
}

#endif
