#include "net/data/request.h"

#include "core/base/assert.h"

#include <string.h>

void gw_request_encode(const gw_request *request, uint8_t header[GW_RAIL_HEADER]) {
    memset(header, 0, GW_RAIL_HEADER);
    gw_writer w = gw_writer_on(header, GW_RAIL_HEADER);
    gw_put_u8(&w, GW_HEADER_REQUEST);
    gw_put_u8(&w, (uint8_t)request->kind);
    gw_put_u8(&w, (uint8_t)request->region);
    gw_put_u8(&w, 0);
    gw_put_u32(&w, request->bytes);
    gw_put_u64(&w, request->id);
    if (request->kind == GW_OP_FETCH) {
        gw_put_hash(&w, &request->name);
        gw_put_u64(&w, request->capacity);
    } else {
        gw_put_u64(&w, request->fence.epoch);
        gw_put_view_name(&w, &request->fence.view);
        gw_put_u64(&w, request->offset);
        gw_put_u64(&w, request->expected);
        gw_put_u64(&w, request->operand);
    }
    GW_ASSERT(!w.failed);
}

void gw_reply_encode(const gw_reply *reply, uint8_t header[GW_RAIL_HEADER]) {
    memset(header, 0, GW_RAIL_HEADER);
    gw_writer w = gw_writer_on(header, GW_RAIL_HEADER);
    gw_put_u8(&w, GW_HEADER_REPLY);
    gw_put_u8(&w, (uint8_t)reply->kind);
    gw_put_u8(&w, (uint8_t)reply->status);
    gw_put_u8(&w, reply->last ? 1 : 0);
    gw_put_u32(&w, 0);
    gw_put_u64(&w, reply->id);
    gw_put_u64(&w, reply->value);
    gw_put_u64(&w, reply->offset);
    GW_ASSERT(!w.failed);
}

static bool decode_request(gw_reader *r, gw_request *request) {
    *request = (gw_request){.kind = (gw_op_kind)gw_get_u8(r)};
    request->region = gw_get_u8(r);
    gw_get_u8(r);
    request->bytes = gw_get_u32(r);
    request->id = gw_get_u64(r);
    if (request->kind == GW_OP_FETCH) {
        gw_get_hash(r, &request->name);
        request->capacity = gw_get_u64(r);
    } else {
        request->fence.epoch = gw_get_u64(r);
        gw_get_view_name(r, &request->fence.view);
        request->offset = gw_get_u64(r);
        request->expected = gw_get_u64(r);
        request->operand = gw_get_u64(r);
    }
    return request->kind >= GW_OP_READ && request->kind <= GW_OP_FETCH && request->bytes <= GW_PIECE_BYTES;
}

static bool decode_reply(gw_reader *r, gw_reply *reply) {
    *reply = (gw_reply){.kind = (gw_op_kind)gw_get_u8(r)};
    reply->status = (gw_op_status)gw_get_u8(r);
    uint8_t last = gw_get_u8(r);
    reply->last = last == 1;
    gw_get_u32(r);
    reply->id = gw_get_u64(r);
    reply->value = gw_get_u64(r);
    reply->offset = gw_get_u64(r);
    return reply->kind >= GW_OP_READ && reply->kind <= GW_OP_FETCH && reply->status >= GW_OP_OK &&
           reply->status <= GW_OP_UNAVAILABLE && last <= 1;
}

gw_header_type gw_header_decode(const uint8_t header[GW_RAIL_HEADER], gw_request *request, gw_reply *reply) {
    gw_reader r = gw_reader_on(header, GW_RAIL_HEADER);
    uint8_t type = gw_get_u8(&r);
    if (type == GW_HEADER_REQUEST && decode_request(&r, request)) return GW_HEADER_REQUEST;
    if (type == GW_HEADER_REPLY && decode_reply(&r, reply)) return GW_HEADER_REPLY;
    return GW_HEADER_BAD;
}
