/* How the `digits` job draws a weight, on processors and GPUs. */
#ifndef GODWIT_KERNELS_MATH_DIGITS_WEIGHT_H
#define GODWIT_KERNELS_MATH_DIGITS_WEIGHT_H

#include "core/base/anywhere.h"

#include <stdint.h>

/* Uniform in (-bound, bound), from 32 random bits. */
GW_ANYWHERE static inline float digits_weight(uint32_t word, double bound) {
    return (float)(((double)word + 0.5) * 0x1p-31 * bound - bound);
}

#endif
