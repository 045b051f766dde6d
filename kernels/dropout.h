/* Dropout (Srivastava et al., 2014) whose mask is computed where it is needed and never kept: element i of a
 * site is dropped by word i of a counter-based generator (core/rng.h), so forward and backward agree, and
 * whoever computes a shard drops the same. Any thread. */
#ifndef GODWIT_KERNELS_DROPOUT_H
#define GODWIT_KERNELS_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

typedef struct gw_dropout {
    float rate;      /* the part that is dropped, in [0, 1); at 0 nothing below matters */
    uint64_t key;    /* of the generator */
    uint64_t stream; /* of this shard and site: the counter's upper half */
} gw_dropout;

/* Multiplies values[0 .. count) by 0 or 1 / (1 - rate); they are elements first .. first + count of the site.
 */
void gw_dropout_apply(const gw_dropout *dropout, uint64_t first, size_t count, float *values);

#endif
