/* Tells which life of each peer took part in the job last, as this peer has seen it. A life that is
 * refused, since it runs another job or has other options, says farewell as one that leaves does. The peer
 * whose earlier life was lost has not left then: it is dead, as before. Pure; one thread. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_LIVES_H
#define GODWIT_TOOLS_GODWIT_SHOW_LIVES_H

#include "core/base/id.h"
#include "tools/godwit/show/snapshot.h"

/* The life of a peer that took part. */
typedef struct gw_lived {
    gw_peer_id id;
    uint64_t view, boot; /* the last view of which it was a member, and the life that was */
    bool left;           /* that life has said farewell */
    double gone;         /* since when it is gone, in seconds since 1970; 0: not known */
} gw_lived;

typedef struct gw_lives {
    gw_lived list[GW_SNAPSHOT_PEERS];
    uint32_t count; /* peers beyond the list are shown as gossip tells of them */
} gw_lives;

/* A life of a peer has said farewell. */
void gw_lives_left(gw_lives *lives, const gw_peer_id *id, uint64_t boot);

/* Takes what gossip tells of a peer, in the view of this number, and corrects it: where a later life than
 * the one that took part has ended without taking part, the peer's state becomes "dead", since the time of
 * that loss, and peer->in_vain is set. */
void gw_lives_look(gw_lives *lives, gw_snapshot_peer *peer, uint64_t view);

#endif
