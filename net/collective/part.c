#include "net/collective/part.h"

#include "core/base/assert.h"
#include "core/vector/pack.h"

#include <stdalign.h>
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
    return gw_reader_done(&r) && header->type >= GW_PART_ENTER && header->type <= GW_PART_PACKED;
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

/* Packed vectors. */

/* The longest run of elements from `first` on, at most `count`, that lies in one piece. */
static uint64_t run_of(const gw_call *call, uint64_t first, uint64_t count, const int64_t **in,
                       int64_t **out) {
    for (uint32_t i = piece_at(call, first);; i++) {
        uint64_t offset, length = within(call, i, first, count, &offset);
        if (length == 0) continue;
        *in = (const int64_t *)call->is.pieces[i].in + offset;
        *out = (int64_t *)call->is.pieces[i].out + offset;
        return length;
    }
}

/* How many of `count` elements, of which `run` lie in one piece, are whole blocks there; 0: the first block
 * lies in several. */
static uint64_t blocks_of(uint64_t run, uint64_t count) {
    return run == count ? count : run / GW_PACK_BLOCK * GW_PACK_BLOCK;
}

/* Copies a block that lies in several pieces to or from one buffer. */
static void copy_block(const gw_call *call, bool of_out, bool gather, uint64_t first, uint64_t count,
                       int64_t *block) {
    while (count > 0) {
        const int64_t *in;
        int64_t *out;
        uint64_t run = run_of(call, first, count, &in, &out);
        if (gather)
            memcpy(block, of_out ? out : in, run * sizeof *block);
        else
            memcpy(out, block, run * sizeof *block);
        block += run;
        first += run;
        count -= run;
    }
}

static uint64_t block_at_most(uint64_t count) {
    return count < GW_PACK_BLOCK ? count : GW_PACK_BLOCK;
}

uint64_t gw_call_pack(const gw_call *call, bool of_out, uint64_t first, uint64_t count, uint8_t *packed,
                      gw_checksum *checksum) {
    const gw_vector_path *path = gw_vector_path_best();
    uint64_t bytes = gw_pack_head(count);
    uint8_t *widths = packed;
    memset(widths, 0, bytes);
    for (uint64_t done; count > 0;
         first += done, count -= done, widths += (done + GW_PACK_BLOCK - 1) / GW_PACK_BLOCK) {
        int64_t block[GW_PACK_BLOCK], *out;
        const int64_t *in, *from;
        done = blocks_of(run_of(call, first, count, &in, &out), count);
        from = of_out ? out : in;
        if (done == 0) {
            done = block_at_most(count);
            copy_block(call, of_out, true, first, done, block);
            from = block;
        }
        bytes += gw_pack_blocks(path, from, done, widths, packed + bytes, checksum);
    }
    return bytes;
}

/* Unpacks a block that lies in several pieces; returns the bytes read. */
static uint64_t unpack_cut_block(const gw_call *call, uint64_t first, uint64_t count, const uint8_t *width,
                                 const uint8_t *from, gw_checksum *before, gw_checksum *after) {
    const gw_vector_path *path = gw_vector_path_best();
    int64_t block[GW_PACK_BLOCK];
    uint64_t bytes;
    if (after != NULL) {
        copy_block(call, false, true, first, count, block);
        bytes = gw_unpack_add(path, width, from, count, block, block, before, after);
    } else {
        bytes = gw_unpack_blocks(path, width, from, count, block, before);
    }
    copy_block(call, true, false, first, count, block);
    return bytes;
}

void gw_call_unpack(const gw_call *call, uint64_t first, uint64_t count, const uint8_t *packed,
                    gw_checksum *before, gw_checksum *after) {
    const gw_vector_path *path = gw_vector_path_best();
    const uint8_t *widths = packed, *from = packed + gw_pack_head(count);
    for (uint64_t done; count > 0;
         first += done, count -= done, widths += (done + GW_PACK_BLOCK - 1) / GW_PACK_BLOCK) {
        const int64_t *in;
        int64_t *out;
        done = blocks_of(run_of(call, first, count, &in, &out), count);
        if (done == 0) {
            done = block_at_most(count);
            from += unpack_cut_block(call, first, done, widths, from, before, after);
        } else if (after != NULL) {
            from += gw_unpack_add(path, widths, from, done, in, out, before, after);
        } else if (call->elements > GW_PART_CACHED) {
            from += gw_unpack_past_caches(path, widths, from, done, out, before);
        } else {
            from += gw_unpack_blocks(path, widths, from, done, out, before);
        }
    }
}

uint64_t gw_call_relay(const gw_call *call, uint64_t first, uint64_t count, const uint8_t *packed, bool keep,
                       uint8_t *sums_packed, gw_checksum *before, gw_checksum *after) {
    const gw_vector_path *path = gw_vector_path_best();
    uint64_t head = gw_pack_head(count), bytes = head;
    const uint8_t *widths = packed, *from = packed + head;
    uint8_t *sum_widths = sums_packed;
    memset(sum_widths, 0, head);
    for (uint64_t done; count > 0; first += done, count -= done, widths++, sum_widths++) {
        alignas(64) int64_t sums[GW_PACK_BLOCK];
        const int64_t *in;
        int64_t *out;
        done = block_at_most(count);
        bool cut = run_of(call, first, count, &in, &out) < done;
        if (cut) {
            copy_block(call, false, true, first, done, sums);
            in = sums;
        }
        from += gw_unpack_add(path, widths, from, done, in, sums, before, after);
        bytes += gw_pack_blocks(path, sums, done, sum_widths, sums_packed + bytes, NULL);
        if (keep && cut)
            copy_block(call, true, false, first, done, sums);
        else if (keep && call->elements > GW_PART_CACHED)
            gw_copy_past_caches(path, sums, done, out);
        else if (keep)
            memcpy(out, sums, done * sizeof *out);
    }
    return bytes;
}
