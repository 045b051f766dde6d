/* SGD with momentum, and AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019),
 * on a range of elements. Each element is a function of its own values and the numbers below, so any
 * partition of a tensor into ranges gives the same bytes. */
#ifndef GODWIT_KERNELS_MATH_OPTIMIZER_H
#define GODWIT_KERNELS_MATH_OPTIMIZER_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* What an update needs besides arrays. `scale` turns a fixed-point sum into the mean gradient: 2^-frac_bits
 * times (nominal count / true count). */
typedef struct gw_sgd {
    double scale;
    float rate, momentum, decay;
} gw_sgd;

typedef struct gw_adamw {
    double scale;
    float rate;         /* of the step, any schedule included */
    float beta1, beta2; /* decay of the first and second moment */
    float epsilon, decay;
    float correction1, correction2; /* 1 / (1 - beta^t), t = 1 in the first update */
} gw_adamw;

/* v = momentum v + gradient + decay p; p -= rate v. Any thread, disjoint ranges at once. */
void gw_optimizer_sgd(const gw_sgd *sgd, size_t count, const int64_t *sum, float *parameters,
                      float *velocity);

/* m, v: running means of the gradient and its square; p -= rate (m^ / (sqrt(v^) + epsilon) + decay p). */
void gw_optimizer_adamw(const gw_adamw *adamw, size_t count, const int64_t *sum, float *parameters,
                        float *first, float *second);

/* Adam divides by the gradient's size plus epsilon. Where the true gradient is 0 its sum may still be off by
 * half a unit a shard; an epsilon below that would turn rounding into steps of full length. `error`: twice
 * what the mean gradient may be off by. GW_E_USAGE: epsilon is less. */
bool gw_adamw_check_epsilon(double epsilon, double error, gw_err *err);

#endif
