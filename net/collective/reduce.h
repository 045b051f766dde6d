/* Adding vectors at memory speed, with checksums of what is read and of what is written, so that bits which
 * change between two additions, in memory or on their way, do not stay unnoticed. */
#ifndef GODWIT_NET_COLLECTIVE_REDUCE_H
#define GODWIT_NET_COLLECTIVE_REDUCE_H

#include "net/collective/collective.h"

/* Bytes of an element. */
uint64_t gw_sum_bytes(gw_sum_type type);

enum { GW_CHECKSUM_ROW = 32 }; /* bytes that are taken at a time */

/* A checksum of 32-bit words in their order, which may be given in pieces of any size; all zeros is the checksum of no words.
 * It has, for each place in a row, the sum of the words at that place and the sum of their partial sums, as in Fletcher, "An
 * arithmetic checksum for serial transmissions" (1982). The sums do not wrap within 2 MiB: up to that length it always detects
 * one or two words that differ, and any number of words in which bits are stuck; beyond that almost always. (The sums of lower
 * words are computed from those of 64-bit pairs by subtracting 2^32 times those of upper words, which is cheaper than splitting
 * every pair.) */
typedef struct gw_checksum {
    uint64_t words; /* so far */
    struct {
        uint64_t pairs[GW_CHECKSUM_ROW / 8], upper[GW_CHECKSUM_ROW / 8];
    } plain, partial;
} gw_checksum;

/* `bytes` is a multiple of 4. */
void gw_checksum_add(gw_checksum *checksum, const void *words, uint64_t bytes);
uint64_t gw_checksum_end(const gw_checksum *checksum);

/* out[i] = theirs[i] + in[i] for i < count; int64 wraps. Float elements are added one by one, so that the result
 * does not depend on the instruction set. All aligned to the element; theirs is out, or all are disjoint.
 * `before` takes theirs, `after` what was added up: each element as it is in the registers that it is added
 * up in, which memory is read into once and written from once. */
void gw_sum_into(gw_sum_type type, void *out, const void *in, const void *theirs, uint64_t count,
                 gw_checksum *before, gw_checksum *after);

#endif
