/* Questions about this peer that every room of the brain asks. */
#ifndef GODWIT_CORE_BRAIN_SELF_H
#define GODWIT_CORE_BRAIN_SELF_H

#include "core/brain/peer.h"

#define GW_MS UINT64_C(1000000) /* nanoseconds */

/* A duration of the protocol in nanoseconds, scaled for slow machines. */
uint64_t gw_peer_ms(const gw_peer *p, uint64_t milliseconds);
/* This peer's rank in the installed view; -1 = it is in none. */
int gw_peer_own_rank(const gw_peer *p);
/* Whether this peer leads the installed view. */
bool gw_peer_is_leader(const gw_peer *p);
/* Whether this peer has voted for this view, which the peer `proposer` has proposed, and is frozen until it is
 * installed. */
bool gw_peer_awaits_view(const gw_peer *p, const gw_peer_id *proposer, const gw_view_name *view);

#endif
