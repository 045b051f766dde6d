/* SGD with momentum, and AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019),
 * on a range of elements. Each element depends only on its own values and the numbers below, so that any
 * partition of a tensor into ranges gives the same bytes. */
#ifndef GODWIT_KERNELS_MATH_OPTIMIZER_H
#define GODWIT_KERNELS_MATH_OPTIMIZER_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* The numbers of an update. `scale` converts a fixed-point sum to the mean gradient: 2^-frac_bits times
 * (nominal count / true count). */
typedef struct gw_sgd {
    double scale;
    float rate, momentum, decay;
} gw_sgd;

typedef struct gw_adamw {
    double scale;
    float rate;         /* learning rate of the step, from the schedule */
    float beta1, beta2; /* decay of the first and second moment */
    float epsilon, decay;
    float correction1, correction2; /* 1 / (1 - beta^t), with t = 1 in the first update */
} gw_adamw;

/* Updates `count` elements: the velocity v becomes momentum v + gradient + decay p, and the parameter p
 * becomes p - rate v. The gradient is sum[i] * scale. Any thread; disjoint ranges may run at once. */
void gw_optimizer_sgd(const gw_sgd *sgd, size_t count, const int64_t *sum, float *parameters,
                      float *velocity);

/* Updates `count` elements. The moments m (`first`) and v (`second`) are running means of the gradient and
 * its square; m' and v' are these times their corrections; the parameter p becomes p - rate (m' / (sqrt(v') +
 * epsilon) + decay p). Any thread; disjoint ranges may run at once. */
void gw_optimizer_adamw(const gw_adamw *adamw, size_t count, const int64_t *sum, float *parameters,
                        float *first, float *second);

/* Fails with GW_E_USAGE where epsilon is less than `error`, twice the possible error of the mean gradient.
 * Adam divides by the gradient's size plus epsilon. Where the true gradient is 0, its sum may still be off by
 * half a unit a shard, and a smaller epsilon would turn that rounding into full steps. */
bool gw_adamw_check_epsilon(double epsilon, double error, gw_err *err);

#endif
