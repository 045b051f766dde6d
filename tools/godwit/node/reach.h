/* Finds out why another peer is not met, and logs it with what to do.
 *
 * Gossip tells only that no datagram of a seed arrives, and a control link only that it cannot be made. This
 * part asks further, beside the brain, which waits no longer for it and does not depend on it:
 *   - the addresses themselves: a peer that listens on loopback, or in one address family only, cannot reach
 *     a seed elsewhere. This is logged as soon as the seed's address is known;
 *   - a handshake over TCP, which gw_stream_ask breaks off before it makes a connection, with every seed that
 *     gossip has not met, and with some of the living peers to which there is no link. It tells a peer that
 *     answers (of a seed, it is UDP that fails) from one of another key, cluster or protocol, from another
 *     program, from a port where nobody listens, and from silence.
 *   - connections that are made, and on which then nothing arrives of what is sent, while gossip hears the peer:
 *     small packets pass, and large ones do not.
 * A sentence is logged when its cause is established, in one line for all that have it in common, and again
 * after growing pauses while it lasts. What is ordinary before the other peers have been started (nobody
 * listens, nothing answers) is logged only while this peer has met nobody, and not in its first seconds.
 *
 * Thread: the loop's. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_REACH_H
#define GODWIT_TOOLS_GODWIT_NODE_REACH_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "net/loop/loop.h"
#include "net/secure/secure.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gw_reach gw_reach;

typedef struct gw_reach_options {
    gw_loop *loop;
    const gw_local *local;   /* outlives the gw_reach, as do the texts */
    gw_addr listen;          /* the address that this peer's sockets are bound to */
    const char *listen_text; /* --listen as it was given */
    bool has_key;            /* a key is in use */
    /* a name of --join that is not resolved yet, and is none of loopback's; NULL: there is none */
    const char *unresolved;
    /* a name of --join is that of a service, which may lead to this peer alone before others are there */
    bool followed;
    uint32_t time_scale_percent;
    /* Finds the first living peer from *index on to which there is no link, though gossip hears it; then it
     * fills in the id and the address and sets *index behind it. False: there is none. */
    bool (*find_unlinked)(void *context, uint32_t *index, gw_peer_id *id, gw_addr *addr);
    /* Whether gossip knows a living peer that has this address, or this id if it is not zeros; with neither
     * (`addr` NULL), whether it knows any living peer but this one. */
    bool (*is_met)(void *context, const gw_addr *addr, const gw_peer_id *id);
    /* Whether gossip hears this peer, and suspects nothing; then it fills in the address. */
    bool (*find_alive)(void *context, const gw_peer_id *id, gw_addr *addr);
    /* Tells, when it changes, why no seed is met, in words that a sentence may begin with; NULL: one is met, or
     * nothing is known. `for_good`: a seed is there that turns this peer away or cannot be met, so that waiting
     * does not help. */
    void (*tell_unmet)(void *context, const char *why, bool for_good);
    void *context;
} gw_reach_options;

/* Begins to look after `seeds`, which are copied; at most GW_MAX_SEEDS (asserted), and possibly none yet.
 * NULL when out of memory. */
gw_reach *gw_reach_open(const gw_reach_options *options, const gw_addr *seeds, uint32_t count, gw_err *err);
/* Replaces the seeds. */
void gw_reach_seek(gw_reach *reach, const gw_addr *seeds, uint32_t count);
/* A data link to a peer stands, or does not; `unheard` is how many have ended so far as the peer did not
 * acknowledge what was sent. */
void gw_reach_note_data_link(gw_reach *reach, const gw_peer_id *id, bool stands, uint32_t unheard);
/* A control link to a peer that stood has ended for the same reason. */
void gw_reach_note_unheard(gw_reach *reach, const gw_peer_id *id);
/* NULL is allowed. */
void gw_reach_close(gw_reach *reach);

#endif
