/* The transport of net/data/transport.h: links over TCP, upgraded by paths (net/rail/path.h).
 *
 * A link to a peer is a set of TCP streams, authenticated and detached by net/link/stream.h: stream 0 for
 * small one-sided operations and what the sides tell each other, stream 1 for large READs and fetches, the
 * rest for collectives, a rail each. Every stream number has a data thread of its own that serves that stream
 * of all peers, so that neither a 64 MiB READ nor a reduction delays a compare-and-swap. With a key, frames
 * travel in records (net/secure/record.h); without one, bare.
 *
 * Who dials: one side of each pair (the node's rule: the lower id), all streams of a link, each with
 * gw_stream_dial(..., GW_STREAM_DATA, gw_fabric_stream_label(attempt, number, gw_fabric_streams(t))). Both
 * sides hand every data stream that is ready to gw_fabric_adopt.
 *
 * When the last of an attempt's streams is in, the two sides settle how the link goes: by the best path that
 * both allow and can have. The one that dialled decides. With a path, all streams but 0 go over it; without
 * one they go over TCP, which is always there to fall back on, unless it is not among the kinds allowed: then
 * the link is ended, and the log says why. Then link_up is called. A path that fails is tried again later. A
 * link that the other side leaves unsettled for GW_HANDSHAKE_NS and four times settle_ns is ended.
 *
 * A fabric that allows TCP alone settles by itself: link_up comes from inside gw_fabric_adopt. */
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
    uint32_t rails;       /* 1 to GW_FABRIC_RAILS; 1 unless there are idle cores and a fast network */
    uint64_t settle_ns;   /* how long a path may take to be established; 0: one second */
    uint64_t retry_ns;    /* until a path that failed is tried again, doubling; 0: 30 seconds */
    uint64_t silence_ns;  /* how long the other side of a sealed stream may be silent; 0: GW_SILENCE_NS */
    gw_rdma_options rdma; /* which device, when RDMA is allowed */
    gw_transport_events events;
    gw_fetch_provider provider; /* find NULL: nothing is found here */
} gw_fabric_options;

/* What is called "auto" (everything), "tcp", "shm" or "rdma"; false: nothing is. */
bool gw_fabric_kinds(const char *name, uint32_t *kinds);

/* Starts the threads. The handlers must work until gw_transport_close has returned. Fails also when only
 * kinds are allowed that this machine does not have. */
bool gw_fabric_open(const gw_fabric_options *options, gw_transport **transport, gw_err *err);

/* Streams of a link: 2 + rails. */
uint32_t gw_fabric_streams(const gw_transport *transport);

/* Any thread: since when (gw_now_ns) the data thread (of a stream, or of the paths) that has been at one turn
 * for longest is at it; 0 = all wait for something to do. A turn does not wait for a peer, nor for more than
 * it can do at once. */
uint64_t gw_fabric_busy_since(gw_transport *transport);
/* Any thread: since when (gw_now_ns) `find` of the provider has been at a name that may be in a file; 0 = it
 * is not. It takes as long as the disk does. */
uint64_t gw_fabric_files_since(gw_transport *transport);

/* The word that a dialler names a stream by (gw_stream_dial). `attempt`: above all that the dialler has used
 * for links to this peer, in all its lives, and below 2^48. `number`: 0 to streams - 1. */
uint64_t gw_fabric_stream_label(uint64_t attempt, uint32_t number, uint32_t streams);

/* Takes a data stream (also on failure: then it is closed). When it is the last of a link, that link replaces
 * the peer's older one. Streams of a newer attempt push out those that wait from an older one, whose late
 * ones are closed. Fails on a word that makes no sense here (GW_E_PEER), and out of memory: if a link could
 * not be made, link_down says so, too. */
bool gw_fabric_adopt(gw_transport *transport, gw_detached *stream, gw_err *err);

#endif
