#include "net/rail/cursor.h"

#include "core/base/assert.h"

#include <string.h>

gw_cursor gw_cursor_on(const gw_rail_message *message) {
    return (gw_cursor){.parts = message->parts, .part_count = message->part_count, .left = message->bytes};
}

void gw_cursor_advance(gw_cursor *c, size_t bytes) {
    GW_ASSERT(bytes <= c->left);
    c->left -= bytes;
    while (bytes > 0) {
        GW_ASSERT(c->part < c->part_count);
        size_t here = c->parts[c->part].iov_len - c->offset;
        if (bytes < here) {
            c->offset += bytes;
            return;
        }
        bytes -= here;
        c->part++;
        c->offset = 0;
    }
}

uint32_t gw_cursor_parts(const gw_cursor *c, struct iovec *out, uint32_t most, size_t *bytes) {
    uint32_t count = 0;
    size_t offset = c->offset;
    *bytes = 0;
    for (uint32_t i = c->part; i < c->part_count && count < most && *bytes < c->left; i++, offset = 0) {
        size_t length = c->parts[i].iov_len - offset;
        if (length == 0) continue;
        out[count++] = (struct iovec){(uint8_t *)c->parts[i].iov_base + offset, length};
        *bytes += length;
    }
    return count;
}

uint8_t *gw_cursor_contiguous(gw_cursor *c, size_t bytes) {
    while (c->part < c->part_count && c->offset == c->parts[c->part].iov_len) {
        c->part++;
        c->offset = 0;
    }
    if (c->part == c->part_count || c->parts[c->part].iov_len - c->offset < bytes) return NULL;
    return (uint8_t *)c->parts[c->part].iov_base + c->offset;
}

void gw_cursor_copy(gw_cursor *c, uint8_t *bytes, size_t count, bool gather) {
    while (count > 0) {
        struct iovec part;
        size_t here;
        GW_ASSERT(gw_cursor_parts(c, &part, 1, &here) == 1);
        if (here > count) here = count;
        if (gather)
            memcpy(bytes, part.iov_base, here);
        else
            memcpy(part.iov_base, bytes, here);
        gw_cursor_advance(c, here);
        bytes += here;
        count -= here;
    }
}
