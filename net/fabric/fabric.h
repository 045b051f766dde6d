/* The transport of net/data/transport.h: links over TCP, upgraded by paths (net/rail/path.h).
 *
 * A *data link* to a peer is a set of TCP streams that net/link/stream.h has authenticated: stream 0 for
 * small one-sided operations and for messages about paths, stream 1 for large READs and FETCHes, the others
 * for collectives, one rail each. Every stream number has a data thread that serves that stream of all peers,
 * so that neither a 64 MiB READ nor a reduction delays a compare-and-swap. With a key, frames travel in
 * records (net/secure/record.h); without one, bare.
 *
 * One side of each pair (by the node's rule, the lower id) dials all streams of a link, each with
 * gw_stream_dial(..., GW_STREAM_DATA, gw_fabric_stream_label(attempt, number, gw_fabric_streams(t))). Both
 * sides hand every data stream that is ready to gw_fabric_adopt.
 *
 * When the last stream of an attempt has been adopted, the two sides settle which path the link takes: the
 * best one that both allow and have. The side that dialled decides. With a path, all streams but 0 go over
 * it; without one they go over TCP. If TCP is not among the kinds allowed, the link is ended instead, and the
 * log says why. Then link_up is called. A path that fails is tried again later. A link that the other side
 * leaves unsettled for GW_HANDSHAKE_NS and four times settle_ns is ended.
 *
 * A fabric that allows TCP alone settles by itself: link_up comes from inside gw_fabric_adopt.
 *
 * A link that has settled for TCP may get more rails, each by one more stream that the side dials which dialled the
 * others (gw_fabric_extra_label). A side that has no thread for it, or knows no such streams as it is of a build before,
 * closes it. An extra rail that ends does not end the link, and the end of the link is its end. */
#ifndef GODWIT_NET_FABRIC_FABRIC_H
#define GODWIT_NET_FABRIC_FABRIC_H

#include "net/data/transport.h"
#include "net/link/stream.h"
#include "net/rdma/rdma.h"

enum {
    GW_FABRIC_RAILS = 8, /* most rails (streams for collectives) of a link */
    GW_FABRIC_TCP = 1 << GW_PATH_TCP,
    GW_FABRIC_SHM = 1 << GW_PATH_SHM,
    GW_FABRIC_RDMA = 1 << GW_PATH_RDMA,
};

typedef struct gw_fabric_options {
    uint32_t kinds;       /* GW_FABRIC_TCP | ...: the kinds of path that may be used */
    uint32_t rails;       /* of each link, 1 to GW_FABRIC_RAILS; all peers have the same */
    uint32_t extra_rails; /* how many more a link over TCP may have; GW_FABRIC_RAILS are the most in all */
    uint64_t settle_ns;   /* how long a path may take to be established; 0: one second */
    uint64_t retry_ns;    /* until a path that failed is tried again, doubling; 0: 30 seconds */
    uint64_t silence_ns;  /* how long the other side of a sealed stream may be silent; 0: GW_SILENCE_NS */
    gw_rdma_options rdma; /* which device, when RDMA is allowed */
    gw_transport_events events;
    gw_fetch_provider provider; /* find NULL: nothing is found here */
} gw_fabric_options;

/* The kinds of path by the names of --transport: "auto" (all kinds), "tcp", "shm", "rdma". False for any
 * other name. */
bool gw_fabric_kinds(const char *name, uint32_t *kinds);

/* Starts the threads. The handlers must work until gw_transport_close has returned. Fails also when only
 * kinds are allowed that this machine does not have. */
bool gw_fabric_open(const gw_fabric_options *options, gw_transport **transport, gw_err *err);

/* Streams of a link: 2 + rails. */
uint32_t gw_fabric_streams(const gw_transport *transport);
/* Streams of a link over TCP with all extra rails. */
uint32_t gw_fabric_most_streams(const gw_transport *transport);

/* The time (gw_now_ns) at which the oldest present turn of a data thread (of a stream, or of the paths)
 * began; 0 while all of them sleep. A turn never waits for a peer, so an old one means a thread that is
 * stuck. Any thread. */
uint64_t gw_fabric_busy_since(gw_transport *transport);
/* The time (gw_now_ns) at which the provider's `find` began with a name that may be in a file; 0 while it
 * does not run. It takes as long as the disk does. Any thread. */
uint64_t gw_fabric_files_since(gw_transport *transport);

/* The label of a data stream (gw_stream_dial). `attempt` is higher than all that the dialler has used for
 * links to this peer, in all its lives, and below 2^48. `number` is 0 to streams - 1. */
uint64_t gw_fabric_stream_label(uint64_t attempt, uint32_t number, uint32_t streams);
/* The label of a stream for an extra rail of the link that this attempt made. `number` is from gw_fabric_streams to
 * gw_fabric_most_streams - 1. */
uint64_t gw_fabric_extra_label(uint64_t attempt, uint32_t number);

/* Takes a data stream (on failure it is closed). When it is the last stream of an attempt, the new link
 * replaces the peer's older one. Streams of a newer attempt replace those that wait from an older one; late
 * streams of an older attempt are closed. A stream for an extra rail waits until the link of its attempt is
 * settled, and is closed if that is not for TCP, or if there is no such rail here. Fails with GW_E_PEER on a label that does not fit this fabric, and
 * when out of memory. If a link could not be made, link_down is called as well. */
bool gw_fabric_adopt(gw_transport *transport, gw_detached *stream, gw_err *err);

#endif
