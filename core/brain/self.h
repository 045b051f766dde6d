/* What a peer knows of itself: questions that every room of the brain asks. */
#ifndef GODWIT_CORE_BRAIN_SELF_H
#define GODWIT_CORE_BRAIN_SELF_H

#include "core/brain/peer.h"

#define GW_MS UINT64_C(1000000) /* nanoseconds */

/* Returns a duration of the protocol in nanoseconds, scaled for slow machines (time_scale_percent). */
uint64_t gw_peer_ms(const gw_peer *p, uint64_t milliseconds);
/* Returns this peer's rank in the installed view, or -1 if it is in none. */
int gw_peer_own_rank(const gw_peer *p);
/* Whether this peer leads the installed view. */
bool gw_peer_is_leader(const gw_peer *p);
/* Whether this peer has voted for this view of that proposer and waits, frozen, for it to be installed. */
bool gw_peer_awaits_view(const gw_peer *p, const gw_peer_id *proposer, const gw_view_name *view);

#endif
