/* How a job's state is named by hashes. Pure; nothing here depends on the cluster.
 *
 * The *state image* is the state tensors' bytes, concatenated in declared order without padding. It is cut
 * into chunks of GW_CHUNK_BYTES (the last one may be shorter). A chunk's name is the BLAKE2b-256 of its bytes
 * (what `b2sum -l 256` prints). Over the names stands one root, a tree of two levels:
 *
 *   layout = BLAKE2b-256("godwit layout 1" || for each state tensor: name as a wire string, dtype u8, rank
 * u8, dims u64)
 *   root   = BLAKE2b-256("godwit state 1" || layout || state_bytes u64 || chunk_count u32 || chunk names)
 *
 * with the numbers little-endian and the two texts without a terminator. The root is the state hash that
 * people see: equal roots, equal bytes. Neither step, job, group numbers nor the wall clock enter it. */
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
/* Room for any chunk of it; at least 1, so that malloc of it fails only without memory. */
uint32_t gw_chunk_room(uint64_t state_bytes);
/* Where chunk `index` begins in the image. */
uint64_t gw_chunk_offset(uint32_t index);

/* The image's size: the sum over the GW_STATE tensors of the list; the others are passed over, so that a
 * gw_plan's list may be given as it is. False when the sum or a tensor is over GW_MAX_STATE_BYTES. */
bool gw_chunk_state_bytes(const gw_tensor *tensors, uint32_t count, uint64_t *state_bytes, gw_err *err);
/* The layout's hash as above, of the GW_STATE tensors of the list. Names are at most 63 bytes. */
void gw_chunk_layout_hash(const gw_tensor *tensors, uint32_t count, gw_hash *layout);

/* The root over all the chunks' names, which lie in order of index. */
void gw_chunk_root(const gw_hash *layout, uint64_t state_bytes, const gw_hash *chunks, uint32_t chunk_count,
                   gw_hash *root);

#endif
