/* A checksum of 32-bit values in their order, at memory speed. The value is part of what peers tell each other: every
 * processor computes the same one. Pure; any thread. */
#ifndef GODWIT_CORE_VECTOR_CHECKSUM_H
#define GODWIT_CORE_VECTOR_CHECKSUM_H

#include <stdint.h>

enum { GW_CHECKSUM_ROW = 32 }; /* bytes of a row */

/* A checksum of 32-bit values in their order, which may be given in pieces of any size; all zeros is the
 * checksum of no values. It has, for each place in a row, the sum of the values at that place and the sum of
 * their partial sums, as in Fletcher, "An arithmetic checksum for serial transmissions" (1982). The sums do
 * not wrap within 2 MiB: up to that length it always detects one or two values that differ, and any number of
 * values in which bits are stuck; beyond that almost always. (The sums of lower halves are computed from
 * those of 64-bit pairs by subtracting 2^32 times those of upper halves, which is cheaper than splitting
 * every pair.) */
typedef struct gw_checksum {
    uint64_t values; /* values so far */
    struct {
        uint64_t pairs[GW_CHECKSUM_ROW / 8], upper[GW_CHECKSUM_ROW / 8];
    } plain, partial;
} gw_checksum;

/* Add bytes to a checksum (a multiple of 4), and give its present value. */
void gw_checksum_add(gw_checksum *checksum, const void *values, uint64_t bytes);
uint64_t gw_checksum_end(const gw_checksum *checksum);

#endif
