/* Adds vectors at memory speed, with checksums of what is read and of what is written, so that bits that
 * change between two additions, in memory or on the way, are noticed. */
#ifndef GODWIT_NET_COLLECTIVE_REDUCE_H
#define GODWIT_NET_COLLECTIVE_REDUCE_H

#include "net/collective/collective.h"

/* The bytes of an element. */
uint64_t gw_sum_bytes(gw_sum_type type);

enum { GW_CHECKSUM_ROW = 32 }; /* bytes that are added at a time */

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

/* Computes out[i] = theirs[i] + in[i] for i < count; int64 wraps. Float elements are added one by one, so the
 * result does not depend on the instruction set. All arrays are aligned to the element; `theirs` is `out`, or
 * all are disjoint. `before` takes the elements of theirs and `after` the sums, each as it is in the
 * registers in which it is added: memory is read into them once and written from them once. */
void gw_sum_into(gw_sum_type type, void *out, const void *in, const void *theirs, uint64_t count,
                 gw_checksum *before, gw_checksum *after);

#endif
