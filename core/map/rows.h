/* Rows of a map's table (table.h) as bytes, as a peer writes them to its log and sends them to others. Little-endian
 * (core/base/wire.h):
 *
 *   version u8 | peers u16 | their ids, 16 bytes each, rising | rows u32 | rows, each:
 *     task u32 | outcome u8 | attempt u32 | peer u16, its place among the ids | exit code u8 | signal u8 | wall us u64 |
 *     resident set KiB u32 | bytes u64 | hash 32
 *
 * Every id is that of a row. Thus a list of rows has one encoding. Pure; any thread. */
#ifndef GODWIT_CORE_MAP_ROWS_H
#define GODWIT_CORE_MAP_ROWS_H

#include "core/map/table.h"

enum {
    GW_MAP_ROWS_MOST = 1 << 14, /* in one piece */
    GW_MAP_ROWS_ROW_BYTES = 65, /* of a row, but for the id of its peer */
    /* of a piece, at most */
    GW_MAP_ROWS_BYTES = 7 + 16 * GW_MAP_PEERS_MOST + GW_MAP_ROWS_MOST * GW_MAP_ROWS_ROW_BYTES,
};

/* Writes at most GW_MAP_ROWS_MOST rows; fails the writer where it has no room, or where there are more
 * rows, or more peers than GW_MAP_PEERS_MOST. */
void gw_map_rows_put(gw_writer *w, const gw_map_row *rows, uint32_t count);

/* Reads rows into an array that the caller frees. Fails with GW_E_INVALID where the bytes are not the one encoding of
 * rows, with GW_E_LIMIT where there are too many, with GW_E_UNSUPPORTED where the version is a later one, and with
 * GW_E_NOMEM. */
bool gw_map_rows_get(const void *bytes, size_t length, gw_map_row **rows, uint32_t *count, gw_err *err);

#endif
