/* The norm of a gradient from its exact sums. Blocks of 4096 elements are summed in floating point, in a
 * fixed order of lanes, and each block is cut once to fixed point: the total is the same in whatever
 * order and by whomever the blocks are added. */
#ifndef GODWIT_KERNELS_NORM_H
#define GODWIT_KERNELS_NORM_H

#include <stddef.h>
#include <stdint.h>

enum { GW_NORM_BLOCK = 4096, GW_NORM_FRAC_BITS = 48 };

/* A sum of squares in units of 2^-48. Of values below 2^24, 2^40 of them fit. */
typedef unsigned __int128 gw_norm;

/* Adds the squares of sum[i] * scale, blocks counted from sum[0]. Values of 2^24 or more count as that. */
void gw_norm_add(gw_norm *norm, size_t count, const int64_t *sum, double scale);

/* The square root of the sum. */
double gw_norm_value(gw_norm norm);

#endif
