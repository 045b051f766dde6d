/* The links that a member keeps to others: to all in a small flock; in a larger one to the next one by id, so that nobody is
 * left out, and to those that come first by a hash of both ids, which is the same for both, so that each has some ten.
 * Others are reached on demand, by a link that ends when it has not been used for a while.
 *
 * Pure; any thread. */
#ifndef GODWIT_CORE_FLOCK_LINKS_H
#define GODWIT_CORE_FLOCK_LINKS_H

#include "core/base/id.h"

enum {
    GW_FLOCK_LINKS = 8,      /* that a member keeps in a large flock */
    GW_FLOCK_LINKS_ALL = 32, /* others, to which a member keeps links to all of them */
};

#define GW_FLOCK_LINKS_IDLE_NS                                                                               \
    UINT64_C(60000000000) /* a link on demand ends when it is not used for so long */

/* Chooses among `others`, in any order and without the member itself: fills `chosen`, which has room for
 * GW_FLOCK_LINKS_ALL, with indices. Returns how many. */
uint32_t gw_flock_links_choose(const gw_peer_id *member, const gw_peer_id *others, uint32_t count,
                               uint32_t chosen[GW_FLOCK_LINKS_ALL]);

/* The first `most` (at most GW_FLOCK_LINKS_ALL) of others in that order. */
uint32_t gw_flock_links_first(const gw_peer_id *member, const gw_peer_id *others, uint32_t count,
                              uint32_t most, uint32_t chosen[GW_FLOCK_LINKS_ALL]);

#endif
