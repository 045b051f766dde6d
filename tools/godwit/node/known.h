/* The file of known peers, kept in the state directory: the addresses at which the peers of this job were
 * met. A peer that starts again finds the others even if none of its --join seeds is up. Addresses of
 * another job or cluster are not used: the peer that listens there now may have nothing to do with this
 * one.
 *
 * The file has its own clock, as a wall clock may be wrong, and none advances while all nodes are down.
 * The clock starts at the time of the peer seen last (gw_known_newest) and advances while this peer runs.
 * A peer is forgotten when this one has not seen it for GW_KNOWN_DAYS in which it saw others.
 *
 * Thread: one. The file is written rarely: when a peer is new or has moved, or a day has passed. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_KNOWN_H
#define GODWIT_TOOLS_GODWIT_NODE_KNOWN_H

#include "core/base/id.h"
#include "core/base/wire.h"

#include <stdbool.h>

enum {
    GW_KNOWN_PEERS = 32,                        /* the file keeps the peers seen last */
    GW_KNOWN_DAYS = 30,                         /* a peer that was not seen for so long is forgotten */
    GW_KNOWN_BYTES = 128 + GW_KNOWN_PEERS * 48, /* an upper bound of the file's size */
};

typedef struct gw_known_peer {
    gw_peer_id id;
    gw_addr addr;
    uint64_t seen_s; /* when it was a member last, by the file's clock */
} gw_known_peer;

typedef struct gw_known {
    gw_hash cluster, job;
    uint32_t count;
    gw_known_peer peers[GW_KNOWN_PEERS];
} gw_known;

/* Notes that the peer is a member of this job's view. Returns whether the file should be written: the peer
 * is new, has moved, or was noted a day ago. */
bool gw_known_note(gw_known *known, const gw_peer_id *id, const gw_addr *addr, uint64_t now_s);
/* The time at which the last of the peers was seen, from which the file's clock goes on after a start. */
uint64_t gw_known_newest(const gw_known *known);
/* Encodes the file. */
void gw_known_put(gw_writer *w, const gw_known *known);
/* Decodes the file, whose peers replace those of *known. Peers of another job or cluster than *known says
 * are left out, and those that were seen GW_KNOWN_DAYS before the newest one. Fails the reader on
 * malformed bytes: then *known has no peers. */
void gw_known_get(gw_reader *r, gw_known *known);
/* Does the same for a file of any job and cluster, which *known becomes. */
void gw_known_look(gw_reader *r, gw_known *known);

#endif
