/* Exact sums as training has them, for measurements.
 *
 * What gw_gradient_draw draws follows the accumulators of a run: gpt, model nano, on the works of Shakespeare, step
 * 50, the sums of one of two peers, as recorded in November 2026: 834,392 elements with 40 bits behind the point,
 * which take 3.99 bytes each when packed (core/vector/pack.h). For each block of 512 elements the root of the mean
 * square was noted; the table has sixteen steps through them, in order, by their binary logarithm. A drawn block takes
 * its root from that table, and its elements are Laplace-distributed, whose kurtosis (6) is near what was recorded
 * (half of the blocks are between 3.5 and 7): they take 3.9 to 4 bytes each. */
#ifndef GODWIT_TOOLS_BENCH_GRADIENT_H
#define GODWIT_TOOLS_BENCH_GRADIENT_H

#include <stdint.h>

enum { GW_GRADIENT_BLOCK = 512 };

/* Draws `count` elements; the same ones for the same seed. */
void gw_gradient_draw(int64_t *out, uint64_t count, uint64_t seed);
/* Draws elements whose 64 bits are all random: no sum takes more bytes. */
void gw_gradient_draw_full(int64_t *out, uint64_t count, uint64_t seed);

#endif
