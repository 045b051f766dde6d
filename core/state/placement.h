/* The peers that keep each chunk, by rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings
 * to increase hit rates", IEEE/ACM Trans. Networking 6(1), 1998). Every member has a score for every chunk,
 * and the R members with the highest scores hold it. Each member holds R/N of the chunks on average, all
 * peers compute the same answer without communication, and when a member leaves, only the chunks that it held
 * get a new holder. The functions are pure.
 *
 * A chunk is placed by its index in the state image and not by its name: a peer must know what to copy before
 * anything is hashed, and a chunk that has not changed since the last checkpoint is already where it is
 * needed. */
#ifndef GODWIT_CORE_STATE_PLACEMENT_H
#define GODWIT_CORE_STATE_PLACEMENT_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_MAX_REPLICAS = 256 }; /* as many as there may be members: all of them */

/* The score of `member` for chunk (or block) `index`; the members with the highest scores hold it. */
uint64_t gw_placement_score(uint32_t index, const gw_peer_id *member);

/* Writes the holders of chunk `index` to `holders`, as positions in `members`, in falling order of scores,
 * and returns how many: min(replicas, member_count). `members` are distinct ids in any order, on which the
 * set of holders does not depend; `replicas` is 1 to GW_MAX_REPLICAS. */
uint32_t gw_placement_holders(uint32_t index, const gw_peer_id *members, uint32_t member_count,
                              uint32_t replicas, uint32_t *holders);

/* Whether `peer` is a holder of chunk `index`; false if it is not among the members. */
bool gw_placement_holds(uint32_t index, const gw_peer_id *members, uint32_t member_count, uint32_t replicas,
                        const gw_peer_id *peer);

/* Writes the chunks of [0, chunk_count) that `peer` holds to `indices`, which has room for chunk_count, in
 * rising order. Returns how many. */
uint32_t gw_placement_list(uint32_t chunk_count, const gw_peer_id *members, uint32_t member_count,
                           uint32_t replicas, const gw_peer_id *peer, uint32_t *indices);

#endif
