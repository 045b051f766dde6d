/* Which peers keep which chunk: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to
 * increase hit rates", IEEE/ACM Trans. Networking 6(1), 1998). Every member scores every chunk; the R highest
 * scores hold it. Each member holds R/N of the chunks on average, everybody computes the same answer without
 * talking, and when a member goes only the chunks that it held get a new holder. Pure.
 *
 * A chunk is placed by its index in the state image, not by its name: a peer must know what to copy before
 * anything is hashed, and a chunk that did not change since the last checkpoint then lies where it is needed.
 */
#ifndef GODWIT_CORE_STATE_PLACEMENT_H
#define GODWIT_CORE_STATE_PLACEMENT_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_MAX_REPLICAS = 16 };

/* How much `member` is the one to hold chunk (or block) `index`: the highest score holds it. */
uint64_t gw_placement_score(uint32_t index, const gw_peer_id *member);

/* The holders of chunk `index`: positions in `members` (distinct ids, in any order; the answer is the same
 * set of ids), best first. `replicas` is 1 to GW_MAX_REPLICAS. Returns min(replicas, member_count) and writes
 * as many to `holders`. */
uint32_t gw_placement_holders(uint32_t index, const gw_peer_id *members, uint32_t member_count,
                              uint32_t replicas, uint32_t *holders);

/* Whether `peer` is one of them; false when it is not a member. */
bool gw_placement_holds(uint32_t index, const gw_peer_id *members, uint32_t member_count, uint32_t replicas,
                        const gw_peer_id *peer);

/* All chunks of 0..chunk_count that `peer` holds, rising, into `indices` (room for chunk_count). Returns how
 * many. */
uint32_t gw_placement_list(uint32_t chunk_count, const gw_peer_id *members, uint32_t member_count,
                           uint32_t replicas, const gw_peer_id *peer, uint32_t *indices);

#endif
