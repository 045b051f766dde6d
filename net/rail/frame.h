/* How a message begins on every kind of channel: payload length u32 | check u32 | header (GW_RAIL_HEADER
 * bytes), little-endian. The check is of length and header: a bit of them that changes on the way, where
 * nothing else would tell (plain TCP, shared memory, RDMA), must not send a message astray, as whoever waits
 * for it would wait for ever. Of the payload its user takes care (net/collective/part.h). */
#ifndef GODWIT_NET_RAIL_FRAME_H
#define GODWIT_NET_RAIL_FRAME_H

#include "net/data/rail.h"

enum { GW_FRAME_BYTES = 8 + GW_RAIL_HEADER };

/* Of message->bytes and message->header. */
void gw_frame_encode(const gw_rail_message *message, uint8_t frame[GW_FRAME_BYTES]);

/* Sets these two, of a frame that somebody may still write to. False: it is none, or another version's, or
 * not what was sent, or the payload is of more than `payload_most` bytes. */
bool gw_frame_decode(const uint8_t frame[GW_FRAME_BYTES], uint32_t payload_most, gw_rail_message *message);

#endif
