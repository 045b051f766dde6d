/* The file of known peers, kept in the state directory: where the peers of this job were met. A peer that
 * starts again finds the others also when none of its --join seeds is up. Addresses of another job or cluster
 * are not used: the peer that listens there now may have nothing to do with this one.
 *
 * The file has its own clock, as a wall clock may be wrong, and none advances while all nodes are down. The
 * clock starts at the time of the peer seen last (gw_known_newest) and advances while this peer runs. A peer
 * is forgotten when this one has not seen it for GW_KNOWN_DAYS in which it saw others.
 *
 * Thread: one. The file is written rarely: when a peer is new or has moved, or a day has passed. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_KNOWN_H
#define GODWIT_TOOLS_GODWIT_NODE_KNOWN_H

#include "core/base/id.h"
#include "core/base/wire.h"

#include <stdbool.h>

enum {
    GW_KNOWN_PEERS = 32,                        /* the ones seen last */
    GW_KNOWN_DAYS = 30,                         /* then they are forgotten */
    GW_KNOWN_BYTES = 128 + GW_KNOWN_PEERS * 48, /* more than a file has */
};

typedef struct gw_known_peer {
    gw_peer_id id;
    gw_addr addr;
    uint64_t seen_s; /* by the file's clock, when it was a member last */
} gw_known_peer;

typedef struct gw_known {
    gw_hash cluster, job;
    uint32_t count;
    gw_known_peer peers[GW_KNOWN_PEERS];
} gw_known;

/* The peer is a member of this job's view. True when that is worth a write. */
bool gw_known_note(gw_known *known, const gw_peer_id *id, const gw_addr *addr, uint64_t now_s);
/* When the last of them was seen: where the file's clock goes on from after a start. */
uint64_t gw_known_newest(const gw_known *known);
void gw_known_put(gw_writer *w, const gw_known *known);
/* Takes the peers of `bytes` over, unless they are of another job or cluster than *known says, or were seen
 * too long before the newest of them. Fails the reader on malformed bytes: then *known has none. */
void gw_known_get(gw_reader *r, gw_known *known);

#endif
