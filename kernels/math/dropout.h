/* Dropout (Srivastava et al., 2014) whose mask is computed where it is needed and never kept: element i of a
 * site is dropped by word i of a counter-based generator (core/rng.h), so forward and backward agree, and
 * whoever computes a shard drops the same. Any thread. */
#ifndef GODWIT_KERNELS_MATH_DROPOUT_H
#define GODWIT_KERNELS_MATH_DROPOUT_H

#include "core/base/anywhere.h"

#include <stddef.h>
#include <stdint.h>

typedef struct gw_dropout {
    float rate;      /* the part that is dropped, in [0, 1); at 0 nothing below matters */
    uint64_t key;    /* of the generator */
    uint64_t stream; /* of this shard and site: the counter's upper half */
} gw_dropout;

/* Words below it drop their element; the others are multiplied by the scale. Of a rate above 0. */
GW_ANYWHERE static inline uint32_t gw_dropout_threshold(float rate) {
    return (uint32_t)((double)rate * 0x1p32);
}

GW_ANYWHERE static inline float gw_dropout_scale(float rate) {
    return 1.0f / (1.0f - rate);
}

/* Multiplies values[0 .. count) by 0 or 1 / (1 - rate); they are elements first .. first + count of the site.
 */
void gw_dropout_apply(const gw_dropout *dropout, uint64_t first, size_t count, float *values);

#endif
