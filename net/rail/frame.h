/* The frame that begins a message on every kind of channel, little-endian: payload length u32 | checksum u32
 * | header (GW_RAIL_HEADER bytes). The checksum covers length and header. Where no cipher detects a bit that
 * changes on the way (plain TCP, shared memory, RDMA), it keeps a message from being taken for another one,
 * which would leave its receiver waiting for ever. The users of a rail protect the payload
 * (net/collective/part.h). */
#ifndef GODWIT_NET_RAIL_FRAME_H
#define GODWIT_NET_RAIL_FRAME_H

#include "net/data/rail.h"

enum { GW_FRAME_BYTES = 8 + GW_RAIL_HEADER };

/* Encodes message->bytes and message->header. */
void gw_frame_encode(const gw_rail_message *message, uint8_t frame[GW_FRAME_BYTES]);

/* Decodes a frame into message->bytes and message->header. The frame may lie in memory that another process
 * can write, so it is read once. False if the checksum does not match, which includes frames of another
 * version, or if the payload exceeds `payload_most` bytes. */
bool gw_frame_decode(const uint8_t frame[GW_FRAME_BYTES], uint32_t payload_most, gw_rail_message *message);

#endif
