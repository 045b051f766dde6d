/* Adding vectors at memory speed, with checksums of what is read and of what is written, so that bits which
 * change between two additions, in memory or on their way, do not stay unnoticed. */
#ifndef GODWIT_NET_REDUCE_H
#define GODWIT_NET_REDUCE_H

#include "net/collective.h"

/* Bytes of an element. */
uint64_t gw_sum_bytes(gw_sum_type type);

enum { GW_CHECKSUM_ROW = 64 }; /* bytes that are taken at a time */

/* Of elements, in their order, however many are given at a time: one sum of them and one of its partial sums,
 * as in Fletcher, "An arithmetic checksum for serial transmissions" (1982), for each place in a row. One
 * element that is another one always shows, as do two that have changed places in a row's column. */
typedef struct gw_checksum {
    gw_sum_type type;
    uint64_t elements;                                                          /* so far */
    uint8_t sums[2][GW_CHECKSUM_ROW] __attribute__((aligned(GW_CHECKSUM_ROW))); /* plain, partial: elements */
} gw_checksum;

gw_checksum gw_checksum_start(gw_sum_type type);
void gw_checksum_add(gw_checksum *checksum, const void *elements, uint64_t count);
uint64_t gw_checksum_end(const gw_checksum *checksum);

/* out[i] = theirs[i] + in[i] for i < count; int64 wraps. Float lanes are added one by one, so that the result
 * does not depend on the instruction set. All aligned to the element; theirs is out, or all are disjoint.
 * `before` takes theirs, `after` what was added up, as it is before it lies in memory. */
void gw_sum_into(void *out, const void *in, const void *theirs, uint64_t count, gw_checksum *before,
                 gw_checksum *after);

#endif
