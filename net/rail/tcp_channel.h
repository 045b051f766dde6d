/* A channel on a socket. Frames, bare or in sealed records, are read straight into the places that the rail's
 * user names.
 *
 * A message is a frame (net/rail/frame.h) and the payload. Between messages there may be empty records, which
 * are heartbeats (GW_HEARTBEAT_NS). A reader of records to which nothing has come for GW_SILENCE_NS ends the
 * channel; bare frames have no heartbeats. */
#ifndef GODWIT_NET_RAIL_TCP_CHANNEL_H
#define GODWIT_NET_RAIL_TCP_CHANNEL_H

#include "net/link/stream.h"
#include "net/rail/channel.h"

/* Opens a channel with the socket, ciphers and bytes of `stream`, which it takes (on failure too: then
 * everything is closed and freed). Buffers have room for messages of up to `payload_most` bytes of
 * payload. */
gw_channel *gw_tcp_channel_open(gw_detached *stream, uint32_t rail, uint32_t payload_most, gw_err *err);

#endif
