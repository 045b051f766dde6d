#include "kernels/optimizer.h"

#include "core/check.h"
#include "kernels/clones.h"
#include "kernels/vmath.h"

/* Decaying moments of a weight that has no gradient any more would become subnormals, which are slow. */
static const float least_moment = 0x1p-100f;

/* (double)q, rounded once, by operations that every instruction set can do on vectors: the upper and the
 * lower half each become a double exactly by being put into the mantissa of a power of two. */
static inline double widen(int64_t q) {
    uint64_t offset = (uint64_t)q ^ UINT64_C(1) << 63;
    double high = gw_from_bits(offset >> 32 | UINT64_C(0x4530000000000000));          /* 2^84 + high 2^32 */
    double low = gw_from_bits((offset & 0xffffffffu) | UINT64_C(0x4330000000000000)); /* 2^52 + low */
    return (high - 0x1.00000801p84) + low; /* minus 2^84, minus the offset 2^63, minus 2^52 */
}

static inline float settle(float moment) {
    return __builtin_fabsf(moment) < least_moment ? 0.0f : moment;
}

GW_CLONES void gw_optimizer_sgd(const gw_sgd *sgd, size_t count, const int64_t *restrict sum,
                                float *restrict parameters, float *restrict velocity) {
    double scale = sgd->scale;
    float rate = sgd->rate, momentum = sgd->momentum, decay = sgd->decay;
    for (size_t i = 0; i < count; i++) {
        float gradient = (float)(widen(sum[i]) * scale);
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
        float gradient = (float)(widen(sum[i]) * scale);
        float m = settle(beta1 * first[i] + rest1 * gradient);
        float v = settle(beta2 * second[i] + rest2 * gradient * gradient);
        first[i] = m;
        second[i] = v;
        float step = correction1 * m / (__builtin_sqrtf(correction2 * v) + epsilon);
        parameters[i] -= rate * (step + decay * parameters[i]);
    }
}
