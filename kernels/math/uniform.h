/* Uniform first weights, with the same bits on processors and GPUs. */
#ifndef GODWIT_KERNELS_MATH_UNIFORM_H
#define GODWIT_KERNELS_MATH_UNIFORM_H

#include "core/base/anywhere.h"

#include <stdint.h>

/* A number uniform in (-bound, bound), made of 32 random bits. */
GW_ANYWHERE static inline float gw_uniform_weight(uint32_t word, double bound) {
    return (float)(((double)word + 0.5) * 0x1p-31 * bound - bound);
}

#endif
