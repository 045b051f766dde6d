/* The update of one element (kernels/math/optimizer.h), for processors and GPUs. */
#ifndef GODWIT_KERNELS_MATH_OPTIMIZER_ELEMENT_H
#define GODWIT_KERNELS_MATH_OPTIMIZER_ELEMENT_H

#include "kernels/math/optimizer.h"
#include "kernels/math/vmath.h"

/* Rounds a moment below 2^-100 to 0. The decaying moments of a weight without gradient would become
 * subnormals, on which arithmetic is slow. */
GW_ANYWHERE static inline float gw_flush_tiny(float moment) {
    return __builtin_fabsf(moment) < 0x1p-100f ? 0.0f : moment;
}

GW_ANYWHERE static inline void gw_sgd_element(gw_sgd sgd, int64_t sum, float *parameter, float *velocity) {
    float gradient = (float)(gw_int_to_double(sum) * sgd.scale);
    float v = gw_flush_tiny(sgd.momentum * *velocity + (gradient + sgd.decay * *parameter));
    *velocity = v;
    *parameter -= sgd.rate * v;
}

GW_ANYWHERE static inline void gw_adamw_element(gw_adamw adamw, int64_t sum, float *parameter, float *first,
                                                float *second) {
    float gradient = (float)(gw_int_to_double(sum) * adamw.scale);
    float m = gw_flush_tiny(adamw.beta1 * *first + (1.0f - adamw.beta1) * gradient);
    float v = gw_flush_tiny(adamw.beta2 * *second + (1.0f - adamw.beta2) * gradient * gradient);
    *first = m;
    *second = v;
    float step = adamw.correction1 * m / (__builtin_sqrtf(adamw.correction2 * v) + adamw.epsilon);
    *parameter -= adamw.rate * (step + adamw.decay * *parameter);
}

#endif
