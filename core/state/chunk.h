/* How a job's state is named by hashes. The functions are pure, and nothing depends on the cluster.
 *
 * The *state image* is the state tensors' bytes, concatenated in declared order without padding. It is cut
 * into chunks of GW_CHUNK_BYTES (the last one may be shorter). A chunk's name is the BLAKE2b-256 of its bytes
 * (what `b2sum -l 256` prints). One root is computed over the names, in a tree of two levels:
 *
 *   layout = BLAKE2b-256("godwit layout 1" || for each state tensor:
 *                           name as a wire string, dtype u8, rank u8, dims u64)
 *   root   = BLAKE2b-256("godwit state 1" || layout || state_bytes u64 || chunk_count u32 || chunk names)
 *
 * with the numbers little-endian and the two texts without a terminator. The root is the state hash that
 * people see: equal roots, equal bytes. The step, the job, group numbers and the wall clock do not
 * enter it. */
#ifndef GODWIT_CORE_STATE_CHUNK_H
#define GODWIT_CORE_STATE_CHUNK_H

#include "core/base/id.h"
#include "core/godwit.h"

#include <stdint.h>

enum {
    GW_CHUNK_BYTES = 4 << 20,
    GW_MAX_STATE_CHUNKS = 1 << 20, /* a state of at most 4 TiB */
};
#define GW_MAX_STATE_BYTES ((uint64_t)GW_CHUNK_BYTES * GW_MAX_STATE_CHUNKS)

/* How many chunks a state of `state_bytes` (at most GW_MAX_STATE_BYTES) has; 0 for an empty state. */
uint32_t gw_chunk_count(uint64_t state_bytes);
/* The bytes in chunk `index`, which must be below gw_chunk_count. */
uint32_t gw_chunk_length(uint64_t state_bytes, uint32_t index);
/* The bytes of the largest chunk of such a state; at least 1, so that malloc fails only for want of
 * memory. */
uint32_t gw_chunk_room(uint64_t state_bytes);
/* Where chunk `index` begins in the image. */
uint64_t gw_chunk_offset(uint32_t index);

/* Computes the size of the state image, the sum over the GW_STATE tensors of the list. Tensors of other roles
 * are passed over, so that the list of a gw_plan may be given as it is. Fails with GW_E_LIMIT if the sum or a
 * tensor is over GW_MAX_STATE_BYTES. */
bool gw_chunk_state_bytes(const gw_tensor *tensors, uint32_t count, uint64_t *state_bytes, gw_err *err);
/* Computes the hash `layout` of the formula above, of the GW_STATE tensors of the list. Names have at most
 * GW_MAX_TENSOR_NAME bytes. */
void gw_chunk_layout_hash(const gw_tensor *tensors, uint32_t count, gw_hash *layout);

/* Computes the root over the names of all chunks, which are in the order of their indices. */
void gw_chunk_root(const gw_hash *layout, uint64_t state_bytes, const gw_hash *chunks, uint32_t chunk_count,
                   gw_hash *root);

#endif
