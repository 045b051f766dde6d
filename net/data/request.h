/* The headers of one-sided operations over TCP (each GW_RAIL_HEADER bytes, little-endian):
 *
 *   request  1 | kind u8 | region u8 | 0 | bytes u32 | id u64 |
 *              epoch u64 | view 16 | offset u64 | expected u64 | operand u64      or, FETCH:
 *              name 32 | capacity u64 | 0 u64
 *            payload: what a WRITE writes
 *   reply    2 | kind u8 | status u8 | last u8 | 0 u32 | id u64 | value u64 | offset u64 | 24 zeros
 *            payload: what a READ or FETCH has read; a FETCH is answered by several replies, the last marked
 */
#ifndef GODWIT_NET_DATA_REQUEST_H
#define GODWIT_NET_DATA_REQUEST_H

#include "net/data/rail.h"

enum {
    GW_PIECE_BYTES = 256 * 1024, /* bytes of the pieces in which large READs and FETCHes go */
    GW_SMALL_BYTES = 4096,       /* READs of up to this many bytes take the rail of small operations */
};

typedef struct gw_request {
    gw_op_kind kind;
    uint32_t region, bytes;
    uint64_t id;
    gw_fence fence;
    uint64_t offset, expected, operand;
    gw_hash name;
    uint64_t capacity;
} gw_request;

typedef struct gw_reply {
    gw_op_kind kind;
    gw_op_status status;
    bool last;
    uint64_t id, value;
    uint64_t offset; /* FETCH: the offset of this piece; value is the whole length, the same in every piece */
} gw_reply;

typedef enum gw_header_type { GW_HEADER_BAD, GW_HEADER_REQUEST, GW_HEADER_REPLY } gw_header_type;

void gw_request_encode(const gw_request *request, uint8_t header[GW_RAIL_HEADER]);
void gw_reply_encode(const gw_reply *reply, uint8_t header[GW_RAIL_HEADER]);
/* Decodes a header into the structure for the type that it returns. */
gw_header_type gw_header_decode(const uint8_t header[GW_RAIL_HEADER], gw_request *request, gw_reply *reply);

#endif
