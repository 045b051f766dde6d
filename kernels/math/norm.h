/* The norm of a gradient from its exact sums. Blocks of 4096 elements are summed in floating point in a fixed
 * order of 16 partial sums and a tree, and each block is truncated once to fixed point. The total therefore
 * does not depend on the order in which the blocks are added. */
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

/* Truncates a block's sum of squares to fixed point; 2^60 and more counts as 2^60, NaN too. */
GW_ANYWHERE static inline gw_norm_term gw_norm_cut(double squares) {
    const double most = 0x1p60; /* the sum of 4096 squares of values of 2^24 */
    /* 2^60 in these units has 108 bits, so the number is split in two. */
    double units = (squares < most ? squares : most) * 0x1p48;
    gw_norm_term term;
    term.high = (uint64_t)(units * 0x1p-54);
    term.low = (uint64_t)(units - (double)term.high * 0x1p54);
    return term;
}

/* Adds the squares of sum[i] * scale to *norm, in blocks counted from sum[0]. Any thread. */
void gw_norm_add(gw_norm *norm, size_t count, const int64_t *sum, double scale);

/* The norm whose words a GPU has added (kernels/cuda/math/norm.h); each word counts 2^32 times the one
 * before. */
enum { GW_NORM_WORDS = 4 };
gw_norm gw_norm_of_words(const int64_t words[GW_NORM_WORDS]);

/* Returns the norm: the square root of the sum of squares. */
double gw_norm_value(gw_norm norm);

#endif
