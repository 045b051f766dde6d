#include "core/map/rows.h"

#include <stdlib.h>

enum { VERSION = 1 };

static int by_id(const void *a, const void *b) {
    return gw_peer_id_compare(a, b);
}

/* Collects the ids of the rows' peers, rising, each once. NULL when memory runs out; the caller frees them. */
static gw_peer_id *collect_peers(const gw_map_row *rows, uint32_t count, uint32_t *peer_count) {
    gw_peer_id *peers = malloc((count > 0 ? count : 1) * sizeof *peers);
    uint32_t kept = 0, given = 0;
    if (peers == NULL) return NULL;
    for (uint32_t i = 0; i < count; i++) /* neighbours are often of one peer */
        if (given == 0 || !gw_peer_id_equal(&peers[given - 1], &rows[i].who)) peers[given++] = rows[i].who;
    qsort(peers, given, sizeof *peers, by_id);
    for (uint32_t i = 0; i < given; i++)
        if (kept == 0 || !gw_peer_id_equal(&peers[kept - 1], &peers[i])) peers[kept++] = peers[i];
    *peer_count = kept;
    return peers;
}

void gw_map_rows_put(gw_writer *w, const gw_map_row *rows, uint32_t count) {
    uint32_t peer_count = 0;
    gw_peer_id *peers = count <= GW_MAP_ROWS_MOST ? collect_peers(rows, count, &peer_count) : NULL;
    if (peers == NULL || peer_count > GW_MAP_PEERS_MOST) {
        free(peers);
        w->failed = true;
        return;
    }
    gw_put_u8(w, VERSION);
    gw_put_u16(w, (uint16_t)peer_count);
    for (uint32_t i = 0; i < peer_count; i++) gw_put_peer_id(w, &peers[i]);
    gw_put_u32(w, count);
    for (uint32_t i = 0; i < count; i++) {
        const gw_map_row *row = &rows[i];
        const gw_peer_id *peer = bsearch(&row->who, peers, peer_count, sizeof *peers, by_id);
        gw_put_u32(w, row->task);
        gw_put_u8(w, (uint8_t)row->outcome);
        gw_put_u32(w, row->attempt);
        gw_put_u16(w, (uint16_t)(peer - peers));
        gw_put_u8(w, row->exit_code);
        gw_put_u8(w, row->signal);
        gw_put_u64(w, row->wall_us);
        gw_put_u32(w, row->rss_kib);
        gw_put_u64(w, row->bytes);
        gw_put_hash(w, &row->hash);
    }
    free(peers);
}

/* Reads a row; false: it is none. */
static bool get_row(gw_reader *r, const uint8_t *peers, uint32_t peer_count, gw_map_row *row, bool *named) {
    row->task = gw_get_u32(r);
    uint8_t outcome = gw_get_u8(r);
    row->outcome = (gw_map_outcome)outcome;
    row->attempt = gw_get_u32(r);
    uint16_t peer = gw_get_u16(r);
    row->exit_code = gw_get_u8(r);
    row->signal = gw_get_u8(r);
    row->wall_us = gw_get_u64(r);
    row->rss_kib = gw_get_u32(r);
    row->bytes = gw_get_u64(r);
    gw_get_hash(r, &row->hash);
    if (r->failed || row->task >= GW_MAP_TASKS_MOST || outcome < GW_MAP_FAILURE || outcome > GW_MAP_SUCCESS ||
        row->attempt == 0 || peer >= peer_count)
        return false;
    memcpy(row->who.bytes, peers + (size_t)peer * sizeof row->who.bytes, sizeof row->who.bytes);
    named[peer] = true;
    return true;
}

/* Reads all rows behind the ids of the peers. */
static bool get_rows(gw_reader *r, const uint8_t *peers, uint32_t peer_count, gw_map_row *rows,
                     uint32_t count) {
    bool named[GW_MAP_PEERS_MOST] = {false};
    for (uint32_t i = 0; i < count; i++)
        if (!get_row(r, peers, peer_count, &rows[i], named)) return false;
    for (uint32_t i = 0; i < peer_count; i++)
        if (!named[i]) return false;
    return true;
}

bool gw_map_rows_get(const void *bytes, size_t length, gw_map_row **rows, uint32_t *count, gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t version = gw_get_u8(&r);
    if (!r.failed && version > VERSION)
        return gw_fail(err, GW_E_UNSUPPORTED, "rows of a map are of version %u; this build reads %d", version,
                       VERSION);
    uint32_t peer_count = gw_get_u16(&r);
    if (peer_count > GW_MAP_PEERS_MOST)
        return gw_fail(err, GW_E_LIMIT, "rows of a map name %u peers; at most %d are read", peer_count,
                       GW_MAP_PEERS_MOST);
    const uint8_t *peers = gw_get_view(&r, (size_t)peer_count * sizeof(gw_peer_id));
    bool good = !r.failed && version == VERSION && peers != NULL;
    for (uint32_t i = 1; good && i < peer_count; i++)
        good = memcmp(peers + (size_t)(i - 1) * sizeof(gw_peer_id), peers + (size_t)i * sizeof(gw_peer_id),
                      sizeof(gw_peer_id)) < 0;
    uint32_t given = gw_get_u32(&r);
    if (good && !r.failed && given > GW_MAP_ROWS_MOST)
        return gw_fail(err, GW_E_LIMIT, "%u rows of a map in one piece; at most %d are read", given,
                       GW_MAP_ROWS_MOST);
    good = good && !r.failed && gw_reader_left(&r) == (size_t)given * GW_MAP_ROWS_ROW_BYTES;
    if (!good) return gw_fail(err, GW_E_INVALID, "rows of a map are malformed at byte %zu", r.position);
    gw_map_row *read = malloc((given > 0 ? given : 1) * sizeof *read);
    if (read == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %u rows of a map", given);
    if (!get_rows(&r, peers, peer_count, read, given)) {
        free(read);
        return gw_fail(err, GW_E_INVALID, "rows of a map are malformed at byte %zu", r.position);
    }
    *rows = read;
    *count = given;
    return true;
}
