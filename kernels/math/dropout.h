/* Dropout (Srivastava et al., 2014) whose mask is computed where it is needed and never stored. Word i of a
 * counter-based generator (core/rng.h) decides over element i of a site, so that forward and backward pass
 * agree, and every peer drops the same elements of a shard. Any thread. */
#ifndef GODWIT_KERNELS_MATH_DROPOUT_H
#define GODWIT_KERNELS_MATH_DROPOUT_H

#include "core/base/anywhere.h"

#include <stddef.h>
#include <stdint.h>

typedef struct gw_dropout {
    float rate;      /* the fraction that is dropped, in [0, 1); with 0 the other fields are ignored */
    uint64_t key;    /* key of the generator */
    uint64_t stream; /* upper half of the generator's counter: the shard and the site */
} gw_dropout;

/* For a rate above 0: elements whose word is below the threshold are dropped, and the others are multiplied
 * by the scale. */
GW_ANYWHERE static inline uint32_t gw_dropout_threshold(float rate) {
    return (uint32_t)((double)rate * 0x1p32);
}

GW_ANYWHERE static inline float gw_dropout_scale(float rate) {
    return 1.0f / (1.0f - rate);
}

/* Multiplies values[0 .. count), which are elements first .. first + count of the site, by 0 or 1 / (1 -
 * rate). */
void gw_dropout_apply(const gw_dropout *dropout, uint64_t first, size_t count, float *values);

#endif
