#include "core/vector/pack.h"

#include "core/base/assert.h"
#include "core/vector/inside.h"

#include <string.h>

enum {
    LINE_ELEMENTS = GW_VECTOR_LINE / 8,
    ELEMENT_VALUES = 2, /* 32-bit values of a checksum in an element */
};

static uint64_t lines_of(uint64_t count) {
    return (count + LINE_ELEMENTS - 1) / LINE_ELEMENTS;
}

static uint64_t blocks_of(uint64_t count) {
    return (count + GW_PACK_BLOCK - 1) / GW_PACK_BLOCK;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

uint64_t gw_pack_head(uint64_t count) {
    return (blocks_of(count) + GW_PACK_LINE - 1) / GW_PACK_LINE * GW_PACK_LINE;
}

uint64_t gw_pack_block_bytes(uint64_t count, uint32_t width) {
    return (lines_of(count) * width + 63) / 64 * GW_VECTOR_LINE;
}

uint64_t gw_pack_most(uint64_t count) {
    return gw_pack_head(count) + lines_of(count) * GW_VECTOR_LINE;
}

static bool begins_row(const gw_checksum *checksum) {
    return checksum == NULL || checksum->values % (GW_CHECKSUM_ROW / sizeof(uint32_t)) == 0;
}

static void count_values(gw_checksum *checksum, uint64_t elements) {
    if (checksum != NULL) checksum->values += elements * ELEMENT_VALUES;
}

/* Whole lines of a block. */

static void pack_lines(const gw_vector_path *path, const int64_t *elements, uint32_t lines, uint32_t width,
                       uint8_t *to, gw_checksum *checksum) {
    if (width > 0 && width < GW_PACK_WIDTH) {
        path->pack(elements, lines, width, to, checksum);
    } else {
        if (width > 0) memcpy(to, elements, lines * (size_t)GW_VECTOR_LINE); /* little-endian */
        if (checksum != NULL) path->take(checksum, elements, lines);
    }
    count_values(checksum, lines * (uint64_t)LINE_ELEMENTS);
}

static void unpack_lines(const gw_vector_path *path, const uint8_t *from, uint32_t lines, uint32_t width,
                         const int64_t *ours, int64_t *out, gw_checksum *before, gw_checksum *after) {
    static const uint8_t zeros[GW_VECTOR_LINE]; /* a block of no bits, in one */
    if (width == 0) {
        path->unpack(zeros, lines, 1, ours, out, before, after);
    } else if (width < GW_PACK_WIDTH) {
        path->unpack(from, lines, width, ours, out, before, after);
    } else if (ours != NULL) {
        gw_checksum unused[2] = {{.values = 0}, {.values = 0}};
        path->add(GW_SUM_I64, out, ours, from, lines, before != NULL ? before : &unused[0],
                  after != NULL ? after : &unused[1]);
    } else {
        memcpy(out, from, lines * (size_t)GW_VECTOR_LINE);
        if (before != NULL) path->take(before, out, lines);
    }
    count_values(before, lines * (uint64_t)LINE_ELEMENTS);
    count_values(after, lines * (uint64_t)LINE_ELEMENTS);
}

/* Blocks. */

static uint64_t pack_block(const gw_vector_path *path, const int64_t *elements, uint32_t count,
                           uint8_t *width, uint8_t *to, gw_checksum *checksum) {
    int64_t filled[GW_PACK_BLOCK];
    uint32_t lines = (uint32_t)lines_of(count);
    if (count % LINE_ELEMENTS != 0) {
        memcpy(filled, elements, count * sizeof *elements);
        memset(filled + count, 0, (lines * LINE_ELEMENTS - count) * sizeof *filled);
        if (checksum != NULL) gw_checksum_add(checksum, filled, count * sizeof *filled);
        checksum = NULL;
        elements = filled;
    }
    uint64_t changing = path->width(elements, lines);
    *width = (uint8_t)(changing == 0 ? 0 : 64 - __builtin_clzll(changing));
    pack_lines(path, elements, lines, *width, to, checksum);
    return gw_pack_block_bytes(count, *width);
}

/* Unpacks a last block whose last line is not full. */
static void unpack_last(const gw_vector_path *path, const uint8_t *from, uint32_t count, uint32_t width,
                        const int64_t *ours, int64_t *out, gw_checksum *before, gw_checksum *after) {
    int64_t filled[GW_PACK_BLOCK];
    gw_checksum unused[2] = {{.values = 0}, {.values = 0}};
    unpack_lines(path, from, (uint32_t)lines_of(count), width, NULL, filled, NULL, NULL);
    if (ours != NULL) {
        gw_sum_into(GW_SUM_I64, out, ours, filled, count, before != NULL ? before : &unused[0],
                    after != NULL ? after : &unused[1]);
    } else {
        if (before != NULL) gw_checksum_add(before, filled, count * sizeof *filled);
        memcpy(out, filled, count * sizeof *filled);
    }
}

/* Whether a block can be written past the caches. */
static bool can_go_past(uint32_t count, uint32_t width, const int64_t *out) {
    return count % LINE_ELEMENTS == 0 && width > 0 && width < GW_PACK_WIDTH &&
           (uintptr_t)out % GW_VECTOR_ALIGN == 0;
}

static uint64_t unpack_block(const gw_vector_path *path, const uint8_t *from, uint32_t count, uint32_t width,
                             const int64_t *ours, int64_t *out, bool past, gw_checksum *before,
                             gw_checksum *after) {
    if (past && can_go_past(count, width, out)) {
        path->unpack_past(from, count / LINE_ELEMENTS, width, out, before);
        count_values(before, count);
    } else if (count % LINE_ELEMENTS == 0) {
        unpack_lines(path, from, count / LINE_ELEMENTS, width, ours, out, before, after);
    } else {
        unpack_last(path, from, count, width, ours, out, before, after);
    }
    return gw_pack_block_bytes(count, width);
}

/* Ranges of blocks. */

uint64_t gw_pack_blocks(const gw_vector_path *path, const int64_t *elements, uint64_t count, uint8_t *widths,
                        uint8_t *to, gw_checksum *checksum) {
    GW_ASSERT(begins_row(checksum));
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i += GW_PACK_BLOCK)
        bytes += pack_block(path, elements + i, (uint32_t)least(count - i, GW_PACK_BLOCK), widths++,
                            to + bytes, checksum);
    return bytes;
}

uint64_t gw_pack(const gw_vector_path *path, const int64_t *elements, uint64_t count, void *packed,
                 gw_checksum *checksum) {
    uint64_t head = gw_pack_head(count), blocks = blocks_of(count);
    uint8_t *widths = packed;
    memset(widths + blocks, 0, head - blocks);
    return head + gw_pack_blocks(path, elements, count, widths, widths + head, checksum);
}

bool gw_packed_check(const void *packed, uint64_t bytes, uint64_t count, gw_err *err) {
    const uint8_t *widths = packed;
    uint64_t head = gw_pack_head(count), blocks = blocks_of(count), right = head;
    if (bytes < head)
        return gw_fail(err, GW_E_INVALID, "core/vector: %llu bytes end in the %llu widths of a packed vector",
                       (unsigned long long)bytes, (unsigned long long)blocks);
    for (uint64_t b = 0; b < blocks; b++) {
        if (widths[b] > GW_PACK_WIDTH)
            return gw_fail(err, GW_E_INVALID,
                           "core/vector: block %llu of a packed vector has %u bits an element",
                           (unsigned long long)b, widths[b]);
        right += gw_pack_block_bytes(least(count - b * GW_PACK_BLOCK, GW_PACK_BLOCK), widths[b]);
    }
    for (uint64_t b = blocks; b < head; b++)
        if (widths[b] != 0)
            return gw_fail(err, GW_E_INVALID,
                           "core/vector: a packed vector of %llu blocks has the width of another one",
                           (unsigned long long)blocks);
    if (bytes != right)
        return gw_fail(err, GW_E_INVALID,
                       "core/vector: a packed vector of %llu elements has %llu bytes, not %llu",
                       (unsigned long long)count, (unsigned long long)bytes, (unsigned long long)right);
    return true;
}

bool gw_packed_is_least(const gw_vector_path *path, const void *packed, uint64_t count) {
    const uint8_t *widths = packed, *from = widths + gw_pack_head(count);
    for (uint64_t i = 0; i < count; i += GW_PACK_BLOCK, widths++) {
        int64_t elements[GW_PACK_BLOCK];
        uint8_t again[GW_PACK_BLOCK * sizeof *elements], width;
        uint64_t here = least(count - i, GW_PACK_BLOCK);
        uint64_t bytes = gw_unpack_blocks(path, widths, from, here, elements, NULL);
        if (gw_pack_blocks(path, elements, here, &width, again, NULL) != bytes || width != *widths)
            return false;
        if (memcmp(again, from, bytes) != 0) return false;
        from += bytes;
    }
    return true;
}

static uint64_t unpack_range(const gw_vector_path *path, const uint8_t *widths, const uint8_t *from,
                             uint64_t count, const int64_t *ours, int64_t *out, bool past,
                             gw_checksum *before, gw_checksum *after) {
    GW_ASSERT(begins_row(before) && begins_row(after));
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i += GW_PACK_BLOCK) {
        GW_ASSERT(*widths <= GW_PACK_WIDTH);
        bytes += unpack_block(path, from + bytes, (uint32_t)least(count - i, GW_PACK_BLOCK), *widths++,
                              ours != NULL ? ours + i : NULL, out + i, past, before, after);
    }
    return bytes;
}

uint64_t gw_unpack_blocks(const gw_vector_path *path, const uint8_t *widths, const uint8_t *from,
                          uint64_t count, int64_t *out, gw_checksum *checksum) {
    return unpack_range(path, widths, from, count, NULL, out, false, checksum, NULL);
}

uint64_t gw_unpack_past_caches(const gw_vector_path *path, const uint8_t *widths, const uint8_t *from,
                               uint64_t count, int64_t *out, gw_checksum *checksum) {
    uint64_t bytes = unpack_range(path, widths, from, count, NULL, out, true, checksum, NULL);
    gw_vector_fence();
    return bytes;
}

void gw_copy_past_caches(const gw_vector_path *path, const int64_t *elements, uint64_t count, int64_t *out) {
    uint64_t lines = (uintptr_t)out % GW_VECTOR_ALIGN == 0 ? count / LINE_ELEMENTS : 0;
    uint64_t past = lines * LINE_ELEMENTS;
    path->copy_past(elements, lines, out);
    gw_vector_fence();
    memcpy(out + past, elements + past, (count - past) * sizeof *out);
}

uint64_t gw_unpack_add(const gw_vector_path *path, const uint8_t *widths, const uint8_t *from, uint64_t count,
                       const int64_t *ours, int64_t *out, gw_checksum *before, gw_checksum *after) {
    GW_ASSERT((before == NULL) == (after == NULL) && (before == NULL || before->values == after->values));
    return unpack_range(path, widths, from, count, ours, out, false, before, after);
}
