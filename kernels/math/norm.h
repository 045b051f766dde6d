/* The norm of a gradient from its exact sums. Blocks of 4096 elements are summed in floating point in a fixed
 * order of lanes, and each block is truncated once to fixed point. The total therefore does not depend on the
 * order in which the blocks are added. */
#ifndef GODWIT_KERNELS_MATH_NORM_H
#define GODWIT_KERNELS_MATH_NORM_H

#include "core/base/anywhere.h"

#include <stddef.h>
#include <stdint.h>

enum { GW_NORM_BLOCK = 4096, GW_NORM_FRAC_BITS = 48 };

/* A sum of squares in units of 2^-48. Fewer than 2^20 blocks fit, whatever their values. */
typedef unsigned __int128 gw_norm;

/* A block's sum of squares in these units: high * 2^54 + low, with low below 2^54. */
typedef struct gw_norm_term {
    uint64_t high, low;
} gw_norm_term;

GW_ANYWHERE static inline gw_norm_term gw_norm_cut(double squares) {
    const double most = 0x1p60; /* as of 4096 values of 2^24 */
    /* 2^60 in these units has 108 bits, so the number is split in two. */
    double units = (squares < most ? squares : most) * 0x1p48;
    gw_norm_term term;
    term.high = (uint64_t)(units * 0x1p-54);
    term.low = (uint64_t)(units - (double)term.high * 0x1p54);
    return term;
}

/* Adds the squares of sum[i] * scale, in blocks counted from sum[0]. A block whose squares make 2^60 or more
 * counts as 2^60. */
void gw_norm_add(gw_norm *norm, size_t count, const int64_t *sum, double scale);

/* The norm from words, each of which counts 2^32 times the one before: the form in which a GPU computes it.
 */
enum { GW_NORM_WORDS = 4 };
gw_norm gw_norm_of_words(const int64_t words[GW_NORM_WORDS]);

/* The square root of the sum. */
double gw_norm_value(gw_norm norm);

#endif
