/* A position in the parts of a message's payload (net/data/rail.h). Plain values; the parts are somebody
 * else's.
 */
#ifndef GODWIT_NET_RAIL_CURSOR_H
#define GODWIT_NET_RAIL_CURSOR_H

#include "net/data/rail.h"

typedef struct gw_cursor {
    const struct iovec *parts;
    uint32_t part_count, part;
    size_t offset; /* in that part */
    size_t left;   /* bytes until the payload's end */
} gw_cursor;

gw_cursor gw_cursor_on(const gw_rail_message *message);
/* At most `left`. */
void gw_cursor_advance(gw_cursor *c, size_t bytes);
/* The next bytes as parts for a system call; returns how many parts, and their sum in *bytes. */
uint32_t gw_cursor_parts(const gw_cursor *c, struct iovec *out, uint32_t most, size_t *bytes);
/* The next `bytes` bytes where they lie, or NULL when they are not in one part. */
uint8_t *gw_cursor_contiguous(gw_cursor *c, size_t bytes);
/* Moves `count` bytes and the position: from the parts to `bytes` (gather), or the other way. */
void gw_cursor_copy(gw_cursor *c, uint8_t *bytes, size_t count, bool gather);

#endif
