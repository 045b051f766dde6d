/* Control links: at most one between two peers, kept up while it is wanted.
 *
 * The choice among several connections. Both sides may dial at once, and either side may see a connection
 * break before the other does. Therefore the peer with the higher id *offers* one connection at a time, with
 * rising ordinals, and the other peer *takes* every offer whose ordinal is higher than the last one it took,
 * in place of the link it had. The offerer's link is up when its offer is taken, the taker's link when it
 * takes the offer. Thus both always agree, links do not flap, and no message moves from one connection to
 * another. A dialler names the last ordinal it has taken in its handshake (as the stream's label); an offerer
 * that still holds that link learns that it is broken on the other side.
 *
 * Wire format. The offerer's first message on a connection is version u8, 1, ordinal u64; the taker answers
 * version u8, 2, ordinal u64. All later messages are the brain's, and empty ones are heartbeats
 * (GW_HEARTBEAT_NS). A link on which nothing arrives for GW_SILENCE_NS is broken; so is a connection on which
 * a taker that has no link waits that long for an offer.
 *
 * Down. When a link breaks, `down` tells why at once, and if the peer is wanted it is dialled again at every
 * address: at once, or after a pause if the link had not lasted a second. A round of dialling that fails
 * reports `down` again: with GW_CLOSED_REFUSED only if every address refused or was found to belong to
 * another peer (the process is gone: proof of death), otherwise with the failure that leaves most open that
 * the peer lives. An address that leads back to this process tells nothing about the peer and does not count;
 * if there is no other, the reason is GW_CLOSED_UNREACHABLE with GW_FAULT_SELF. Rounds go on, with a growing,
 * jittered pause (10 ms to 1 s), while the peer is wanted. A peer that comes back with a newer incarnation
 * causes a `down` for the old life and an `up` for the new one.
 *
 * Thread: the loop's. Callbacks may call all functions here but gw_links_close. They come from the loop only,
 * never from inside a call. */
#ifndef GODWIT_NET_LINK_LINK_H
#define GODWIT_NET_LINK_LINK_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "net/link/stream.h"
#include "net/loop/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_LINK_ADDRS = 16 }; /* most addresses of one peer */

typedef struct gw_links gw_links;

typedef struct gw_link_events {
    void *context;
    /* A link is up; `remote` is valid until it goes down. */
    void (*up)(void *context, const gw_peer_id *peer, const gw_remote *remote);
    /* A link that was up broke, or a round of dialling failed. The latter is reported for every failed round.
     * `fault` is that of gw_stream_events. gw_links_unwant causes no call. */
    void (*down)(void *context, const gw_peer_id *peer, gw_closed why, gw_fault fault, const char *text);
    void (*message)(void *context, const gw_peer_id *peer, const uint8_t *bytes, size_t count);
} gw_link_events;

/* `local` must outlive the links. NULL on failure. */
gw_links *gw_links_open(gw_loop *loop, const gw_local *local, const gw_link_events *events, gw_err *err);
/* Sets how long the other side of a link may be silent; the default is GW_SILENCE_NS. Called before there are
 * any links. */
void gw_links_set_silence(gw_links *links, uint64_t silence_ns);
/* Closes every link without events. NULL is allowed. */
void gw_links_close(gw_links *links);

/* Keeps a link to `peer` (which is not this peer) from now on, and dials at once if there is none. `addrs`
 * has 1 to GW_LINK_ADDRS addresses, which replace those of an earlier call. Fails only when out of memory. */
bool gw_links_want(gw_links *links, const gw_peer_id *peer, const gw_addr *addrs, size_t count, gw_err *err);
/* Stops keeping the link, and closes it if it is up. The other side may make a new one: links that other
 * peers dial are accepted whether they are wanted or not. */
void gw_links_unwant(gw_links *links, const gw_peer_id *peer);
/* Takes a control stream that a listener accepted. */
void gw_links_adopt(gw_links *links, gw_stream *stream);

/* The identity and claims of the peer at the other side of the link; NULL when no link is up. */
const gw_remote *gw_links_remote(const gw_links *links, const gw_peer_id *peer);
/* Sends a message of 1 to GW_MESSAGE_BYTES bytes. It arrives whole or is lost with its link; the order is
 * kept. Fails with GW_E_NOTFOUND if no link is up, and with GW_E_LIMIT if too much waits unsent. */
bool gw_links_send(gw_links *links, const gw_peer_id *peer, const void *bytes, size_t count, gw_err *err);
/* The bytes that wait unsent on all links; 0 if everything has gone to the kernel. */
size_t gw_links_queued(const gw_links *links);

#endif
