/* Adds vectors at memory speed, with checksums of what is read and of what is written, so that bits that
 * change between two additions, in memory or on the way, are noticed. Pure; any thread. */
#ifndef GODWIT_CORE_VECTOR_SUM_H
#define GODWIT_CORE_VECTOR_SUM_H

#include "core/vector/checksum.h"

typedef enum gw_sum_type { GW_SUM_I64 = 1, GW_SUM_F32 } gw_sum_type;

/* The bytes of an element. */
uint64_t gw_sum_bytes(gw_sum_type type);

/* Computes out[i] = theirs[i] + in[i] for i < count; int64 wraps. Float elements are added one by one, so the
 * result does not depend on the instruction set. All arrays are aligned to the element; `theirs` is `out`, or
 * all are disjoint. `before` takes the elements of theirs and `after` the sums, each as it is in the
 * registers in which it is added: memory is read into them once and written from them once. */
void gw_sum_into(gw_sum_type type, void *out, const void *in, const void *theirs, uint64_t count,
                 gw_checksum *before, gw_checksum *after);

#endif
