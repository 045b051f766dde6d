/* Adding vectors at memory speed. */
#ifndef GODWIT_NET_REDUCE_H
#define GODWIT_NET_REDUCE_H

#include "net/collective.h"

/* Bytes of an element. */
uint64_t gw_sum_bytes(gw_sum_type type);

/* out[i] += in[i] for i < count; int64 wraps. Float lanes are added one by one, so that the result does not
 * depend on the instruction set. Both aligned to the element, disjoint. */
void gw_sum_add(gw_sum_type type, void *out, const void *in, uint64_t count);
/* out[i] = theirs[i] + in[i]: the same bytes as when theirs had been copied to out first. */
void gw_sum_into(gw_sum_type type, void *out, const void *in, const void *theirs, uint64_t count);

#endif
