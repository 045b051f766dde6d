/* The holders of each shard's payload (core/README.md, section 4), and an order of dealing the shards of a
 * step in which as much as possible of each member's share is what it holds. Both depend on the members of
 * the view alone: all members compute the same answer without communication, each view has its own, and
 * nothing needs to be saved.
 *
 * Rendezvous hashing as for chunks (core/state/placement.h), but with quotas: every shard in turn goes to the
 * member that scores it highest among those with room left. Then the shares of the first holders are those of
 * a deal among equals, and an undisturbed step reads nothing from other peers. When a member goes, its shards
 * move, and few others: those that had not found room at their best member. The functions do no I/O. */
#ifndef GODWIT_CORE_SHARD_HOLDERS_H
#define GODWIT_CORE_SHARD_HOLDERS_H

#include "core/base/id.h"
#include "core/base/set.h"

typedef struct gw_holders {
    uint32_t shards, copies; /* copies of each shard, at most the number of members */
    uint8_t *ranks;          /* holders of shard s begin at ranks[s * copies]; NULL: no shard is held */
} gw_holders;

/* Computes the holders. `members`: 1 to GW_MAX_MEMBERS distinct ids in rank order. copies: at least 1. The
 * caller frees the result by gw_holders_free. */
gw_holders gw_holders_of(uint32_t shards, uint32_t copies, const gw_peer_id *members, uint32_t count);
void gw_holders_free(gw_holders *holders);

bool gw_holders_has(const gw_holders *holders, uint32_t shard, uint32_t rank);

/* Returns the shards in the order of a deal's positions, in an array that the caller frees. They are the
 * elements of `list` (NULL: 0 to shards - 1), cuts[count] in number, and member m gets those from cuts[m] to
 * cuts[m + 1] - 1. Each member's share begins with shards that it holds, as many as fit; the remaining shards
 * fill the rest in rising order. Thus the back of a share, where thieves take, consists of shards whose
 * payload must travel anyway. The order depends on the first holders only, so that peers with different
 * `copies` agree. */
uint32_t *gw_holders_order(const gw_holders *holders, uint32_t shards, const gw_set *list,
                           const uint32_t *cuts, uint32_t count);

#endif
