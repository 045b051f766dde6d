#include "kernels/optimizer.h"

#include "core/check.h"
#include "kernels/clones.h"
#include "kernels/vmath.h"

/* Decaying moments of a weight that has no gradient any more would become subnormals, which are slow. */
static const float least_moment = 0x1p-100f;

static inline float settle(float moment) {
    return __builtin_fabsf(moment) < least_moment ? 0.0f : moment;
}

GW_CLONES void gw_optimizer_sgd(const gw_sgd *sgd, size_t count, const int64_t *restrict sum,
                                float *restrict parameters, float *restrict velocity) {
    double scale = sgd->scale;
    float rate = sgd->rate, momentum = sgd->momentum, decay = sgd->decay;
    for (size_t i = 0; i < count; i++) {
        float gradient = (float)(gw_widen(sum[i]) * scale);
        float v = settle(momentum * velocity[i] + (gradient + decay * parameters[i]));
        velocity[i] = v;
        parameters[i] -= rate * v;
    }
}

GW_CLONES void gw_optimizer_adamw(const gw_adamw *adamw, size_t count, const int64_t *restrict sum,
                                  float *restrict parameters, float *restrict first, float *restrict second) {
    double scale = adamw->scale;
    float rate = adamw->rate, beta1 = adamw->beta1, beta2 = adamw->beta2, epsilon = adamw->epsilon;
    float rest1 = 1.0f - beta1, rest2 = 1.0f - beta2, decay = adamw->decay;
    float correction1 = adamw->correction1, correction2 = adamw->correction2;
    for (size_t i = 0; i < count; i++) {
        float gradient = (float)(gw_widen(sum[i]) * scale);
        float m = settle(beta1 * first[i] + rest1 * gradient);
        float v = settle(beta2 * second[i] + rest2 * gradient * gradient);
        first[i] = m;
        second[i] = v;
        float step = correction1 * m / (__builtin_sqrtf(correction2 * v) + epsilon);
        parameters[i] -= rate * (step + decay * parameters[i]);
    }
}
