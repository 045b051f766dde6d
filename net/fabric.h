/* The TCP backend of net/transport.h.
 *
 * A link to a peer is a set of streams, authenticated and detached by net/stream.h: stream 0 for small
 * one-sided operations, stream 1 for large READs and fetches, the rest for collectives, a lane each. Every
 * stream number has a data thread of its own that serves that stream of all peers, so that neither a 64 MiB
 * READ nor a reduction delays a compare-and-swap. With a key, frames travel in records (net/record.h);
 * without one, bare.
 *
 * Who dials: one side of each pair (the node's rule: the higher id), all streams of a link, each with
 * gw_stream_dial(..., GW_STREAM_DATA, gw_fabric_stream_word(attempt, number, gw_fabric_streams(t))). Both
 * sides hand every data stream that is ready to gw_fabric_adopt; the link stands when the last of an
 * attempt's streams is in.
 *
 * Frame: version u8, 3 zero bytes, payload length u32, header of GW_LANE_HEADER bytes, payload. */
#ifndef GODWIT_NET_FABRIC_H
#define GODWIT_NET_FABRIC_H

#include "net/stream.h"
#include "net/transport.h"

enum { GW_FABRIC_LANES = 8 }; /* most lanes (streams for collectives) of a link */

typedef struct gw_fabric_options {
    uint32_t lanes; /* 1 to GW_FABRIC_LANES; 1 unless there are idle cores and a fast network */
    gw_transport_events events;
    gw_fetch_provider provider; /* find NULL: nothing is found here */
} gw_fabric_options;

/* Starts the data threads. The handlers must work until gw_transport_close has returned. */
bool gw_fabric_open(const gw_fabric_options *options, gw_transport **transport, gw_err *err);

/* Streams of a link: 2 + lanes. */
uint32_t gw_fabric_streams(const gw_transport *transport);

/* The word that a dialler names a stream by (gw_stream_dial). `attempt`: a number that the dialler has not
 * used for a link to this peer yet, below 2^48, such as a count. `number`: 0 to streams - 1. */
uint64_t gw_fabric_stream_word(uint64_t attempt, uint32_t number, uint32_t streams);

/* Takes a data stream (also on failure: then it is closed). When it completes a link, that link replaces the
 * peer's older one, and link_up is called from inside this call. Streams of a new attempt push out those that
 * wait from an older one. Fails on a word that makes no sense here (GW_E_PEER). */
bool gw_fabric_adopt(gw_transport *transport, gw_detached *stream, gw_err *err);

#endif
