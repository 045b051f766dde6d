#include "net/collective/part.h"

#include "core/base/assert.h"

#include <string.h>

void gw_part_encode(const gw_part *part, gw_part_message type, uint32_t index, uint64_t checksum,
                    uint8_t header[GW_RAIL_HEADER]) {
    const gw_collective_call *is = &part->call->is;
    gw_writer w = gw_writer_on(header, GW_RAIL_HEADER);
    gw_put_u8(&w, (uint8_t)type);
    gw_put_u8(&w, (uint8_t)is->type);
    gw_put_u16(&w, (uint16_t)is->member_count);
    gw_put_u32(&w, index);
    gw_put_u64(&w, is->tag.fence.epoch);
    gw_put_view_name(&w, &is->tag.fence.view);
    gw_put_u64(&w, is->tag.step);
    gw_put_u32(&w, is->tag.attempt);
    gw_put_u32(&w, is->tag.bucket);
    gw_put_u64(&w, part->call->elements);
    gw_put_u64(&w, checksum);
    GW_ASSERT(!w.failed && w.length == GW_RAIL_HEADER);
}

bool gw_part_decode(const uint8_t bytes[GW_RAIL_HEADER], gw_part_header *header) {
    gw_reader r = gw_reader_on(bytes, GW_RAIL_HEADER);
    header->type = (gw_part_message)gw_get_u8(&r);
    header->sum = (gw_sum_type)gw_get_u8(&r);
    header->members = gw_get_u16(&r);
    header->index = gw_get_u32(&r);
    header->tag.fence.epoch = gw_get_u64(&r);
    gw_get_view_name(&r, &header->tag.fence.view);
    header->tag.step = gw_get_u64(&r);
    header->tag.attempt = gw_get_u32(&r);
    header->tag.bucket = gw_get_u32(&r);
    header->elements = gw_get_u64(&r);
    header->checksum = gw_get_u64(&r);
    return gw_reader_done(&r) && header->type >= GW_PART_ENTER && header->type <= GW_PART_ROUND;
}

/* The piece that holds element `first`, never an empty one of several. */
static uint32_t piece_at(const gw_call *call, uint64_t first) {
    uint32_t low = 0, high = call->is.piece_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (call->starts[middle] <= first)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The part of [first, first + count) that lies in piece i: returns its length, and its offset in the
 * piece. */
static uint64_t within(const gw_call *call, uint32_t i, uint64_t first, uint64_t count, uint64_t *offset) {
    uint64_t end = call->starts[i + 1] < first + count ? call->starts[i + 1] : first + count;
    *offset = first - call->starts[i];
    return end > first ? end - first : 0;
}

uint32_t gw_call_gather(const gw_call *call, bool out, uint64_t first, uint64_t count, struct iovec *list) {
    GW_ASSERT(first + count <= call->elements);
    uint64_t size = gw_sum_bytes(call->is.type);
    uint32_t parts = 0;
    for (uint32_t i = piece_at(call, first); count > 0; i++) {
        const gw_collective_piece *s = &call->is.pieces[i];
        uint64_t offset, length = within(call, i, first, count, &offset);
        if (length == 0) continue;
        uint8_t *memory = out ? s->out : (uint8_t *)(uintptr_t)s->in;
        list[parts++] = (struct iovec){memory + offset * size, length * size};
        first += length;
        count -= length;
    }
    return parts;
}

void gw_call_fold(const gw_call *call, uint64_t first, uint64_t count, const void *theirs,
                  gw_checksum *before, gw_checksum *after) {
    uint64_t size = gw_sum_bytes(call->is.type);
    const uint8_t *at = theirs;
    for (uint32_t i = piece_at(call, first); count > 0; i++) {
        const gw_collective_piece *s = &call->is.pieces[i];
        uint64_t offset, length = within(call, i, first, count, &offset);
        if (length == 0) continue;
        uint8_t *out = (uint8_t *)s->out + offset * size;
        gw_sum_into(call->is.type, out, (const uint8_t *)s->in + offset * size, theirs == NULL ? out : at,
                    length, before, after);
        if (theirs != NULL) at += length * size;
        first += length;
        count -= length;
    }
}

uint64_t gw_call_checksum(const gw_call *call, bool out, uint64_t first, uint64_t count) {
    gw_checksum checksum = {0};
    uint64_t size = gw_sum_bytes(call->is.type);
    for (uint32_t i = piece_at(call, first); count > 0; i++) {
        const gw_collective_piece *s = &call->is.pieces[i];
        uint64_t offset, length = within(call, i, first, count, &offset);
        if (length == 0) continue;
        gw_checksum_add(&checksum, (const uint8_t *)(out ? s->out : s->in) + offset * size, length * size);
        first += length;
        count -= length;
    }
    return gw_checksum_end(&checksum);
}
