/* A channel on a socket: frames, bare or in sealed records, read straight into the places that the rail's
 * user names.
 *
 * A message is a frame (net/rail/frame.h) and the payload. Between messages there may be empty records:
 * heartbeats (GW_HEARTBEAT_NS). A side that reads, and has had neither these nor anything else for
 * GW_SILENCE_NS, ends a channel in records; bare frames have no heartbeats. */
#ifndef GODWIT_NET_RAIL_TCP_CHANNEL_H
#define GODWIT_NET_RAIL_TCP_CHANNEL_H

#include "net/link/stream.h"
#include "net/rail/channel.h"

/* Takes the socket, ciphers and bytes of `stream` (also on failure: then all is closed and freed). Buffers
 * are made for messages of up to `payload_most` bytes of payload. `link`: the number of the link it belongs
 * to. */
gw_channel *gw_tcp_channel_open(gw_detached *stream, uint32_t rail, uint32_t payload_most, gw_err *err);

/* Closes and frees what a detached stream holds. No-op for one that was taken. */
void gw_detached_close(gw_detached *stream);

#endif
