#include "core/map/table.h"

#include "core/base/assert.h"
#include "core/base/id_index.h"

#include <sodium.h>
#include <stdlib.h>

enum { CHUNK_ROWS = 4096, FIRST_PEERS = 16 };

/* A row as it is kept; `peer` is the index of its peer. All zeros: there is no row. */
typedef struct kept {
    gw_hash hash;
    uint64_t wall_us, bytes;
    uint32_t attempt, rss_kib;
    uint16_t peer;
    uint8_t outcome, exit_code, signal;
} kept;

_Static_assert(sizeof(kept) == 64, "a row takes 64 bytes");

struct gw_map_table {
    kept **chunks; /* of CHUNK_ROWS rows each; NULL: one without rows */
    uint32_t chunk_count;
    uint32_t most, tasks;
    uint32_t counts[GW_MAP_SUCCESS + 1];
    gw_peer_id *peers;
    uint32_t peer_count, peer_room;
    gw_id_index index; /* of `peers` */
};

gw_map_table *gw_map_table_open(uint32_t most, gw_err *err) {
    gw_map_table *table = calloc(1, sizeof *table);
    GW_ASSERT(most <= GW_MAP_TASKS_MOST);
    if (table != NULL)
        table->most = most;
    else
        gw_fail(err, GW_E_NOMEM, "no memory for the table of a map");
    return table;
}

void gw_map_table_close(gw_map_table *table) {
    if (table == NULL) return;
    for (uint32_t i = 0; i < table->chunk_count; i++) free(table->chunks[i]);
    free(table->chunks);
    free(table->peers);
    gw_id_index_free(&table->index);
    free(table);
}

#define COMPARE(a, b)                                                                                        \
    if ((a) != (b)) return (a) < (b) ? -1 : 1

int gw_map_row_compare(const gw_map_row *a, const gw_map_row *b) {
    COMPARE(b->outcome, a->outcome); /* the higher outcome is the better one */
    COMPARE(a->attempt, b->attempt);
    int order = gw_peer_id_compare(&a->who, &b->who);
    if (order != 0) return order < 0 ? -1 : 1;
    COMPARE(a->exit_code, b->exit_code);
    COMPARE(a->signal, b->signal);
    COMPARE(a->wall_us, b->wall_us);
    COMPARE(a->rss_kib, b->rss_kib);
    COMPARE(a->bytes, b->bytes);
    order = memcmp(a->hash.bytes, b->hash.bytes, sizeof a->hash.bytes);
    return (order > 0) - (order < 0);
}

static gw_id_records records_of(const gw_map_table *table) {
    return (gw_id_records){table->peers, sizeof *table->peers};
}

/* The index of a peer's id, which is added where it is new. */
static bool find_peer(gw_map_table *table, const gw_peer_id *id, uint16_t *index, gw_err *err) {
    uint32_t found = gw_id_index_find(&table->index, records_of(table), id);
    if (found == UINT32_MAX) {
        if (table->peer_count == GW_MAP_PEERS_MOST)
            return gw_fail(err, GW_E_LIMIT, "the rows of a map name more than %d peers", GW_MAP_PEERS_MOST);
        if (table->peer_count == table->peer_room) {
            uint32_t room = table->peer_room > 0 ? 2 * table->peer_room : FIRST_PEERS;
            gw_peer_id *peers = realloc(table->peers, room * sizeof *peers);
            if (peers != NULL) table->peers = peers;
            if (peers == NULL ||
                !gw_id_index_reserve(&table->index, records_of(table), table->peer_count, room))
                return gw_fail(err, GW_E_NOMEM, "no memory for the peers of a map");
            table->peer_room = room;
        }
        found = table->peer_count++;
        table->peers[found] = *id;
        gw_id_index_put(&table->index, records_of(table), found);
    }
    *index = (uint16_t)found;
    return true;
}

/* The place of a task's row, which is made where there is none. NULL when memory runs out. */
static kept *make_place(gw_map_table *table, uint32_t task) {
    uint32_t chunk = task / CHUNK_ROWS;
    if (chunk >= table->chunk_count) {
        uint32_t count = chunk + 1 + chunk / 2;
        kept **chunks = realloc(table->chunks, count * sizeof(kept *));
        if (chunks == NULL) return NULL;
        for (uint32_t i = table->chunk_count; i < count; i++) chunks[i] = NULL;
        table->chunks = chunks;
        table->chunk_count = count;
    }
    if (table->chunks[chunk] == NULL) table->chunks[chunk] = calloc(CHUNK_ROWS, sizeof(kept));
    return table->chunks[chunk] != NULL ? &table->chunks[chunk][task % CHUNK_ROWS] : NULL;
}

static const kept *place_of(const gw_map_table *table, uint32_t task) {
    uint32_t chunk = task / CHUNK_ROWS;
    if (chunk >= table->chunk_count || table->chunks[chunk] == NULL) return NULL;
    return &table->chunks[chunk][task % CHUNK_ROWS];
}

static gw_map_row row_of(const gw_map_table *table, uint32_t task, const kept *place) {
    return (gw_map_row){.task = task,
                        .outcome = (gw_map_outcome)place->outcome,
                        .attempt = place->attempt,
                        .who = table->peers[place->peer],
                        .exit_code = place->exit_code,
                        .signal = place->signal,
                        .wall_us = place->wall_us,
                        .rss_kib = place->rss_kib,
                        .bytes = place->bytes,
                        .hash = place->hash};
}

bool gw_map_table_join(gw_map_table *table, const gw_map_row *row, bool *improved, gw_err *err) {
    if ((row->outcome != GW_MAP_FAILURE && row->outcome != GW_MAP_SUCCESS) || row->attempt == 0)
        return gw_fail(err, GW_E_INVALID, "task %u: this is no row of a map", row->task);
    if (row->task >= table->most)
        return gw_fail(err, GW_E_LIMIT, "task %u: the map has %u tasks at most", row->task, table->most);
    kept *place = make_place(table, row->task);
    if (place == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the rows of a map");
    if (place->outcome != GW_MAP_NOTHING) {
        gw_map_row before = row_of(table, row->task, place);
        if (gw_map_row_compare(row, &before) >= 0) {
            *improved = false;
            return true;
        }
    }
    uint16_t peer = 0;
    if (!find_peer(table, &row->who, &peer, err)) return false;
    if (place->outcome != GW_MAP_NOTHING) table->counts[place->outcome]--;
    table->counts[row->outcome]++;
    if (row->task >= table->tasks) table->tasks = row->task + 1;
    *place = (kept){.hash = row->hash,
                    .wall_us = row->wall_us,
                    .bytes = row->bytes,
                    .attempt = row->attempt,
                    .rss_kib = row->rss_kib,
                    .peer = peer,
                    .outcome = (uint8_t)row->outcome,
                    .exit_code = row->exit_code,
                    .signal = row->signal};
    *improved = true;
    return true;
}

gw_map_outcome gw_map_table_find(const gw_map_table *table, uint32_t task, gw_map_row *row) {
    const kept *place = place_of(table, task);
    if (place == NULL || place->outcome == GW_MAP_NOTHING) return GW_MAP_NOTHING;
    *row = row_of(table, task, place);
    return row->outcome;
}

uint32_t gw_map_table_count(const gw_map_table *table, gw_map_outcome outcome) {
    if (outcome == GW_MAP_NOTHING)
        return table->tasks - table->counts[GW_MAP_FAILURE] - table->counts[GW_MAP_SUCCESS];
    return table->counts[outcome];
}

uint32_t gw_map_table_tasks(const gw_map_table *table) {
    return table->tasks;
}

static void absorb(crypto_generichash_state *state, const void *bytes, size_t length) {
    int failed = crypto_generichash_update(state, bytes, length);
    GW_ASSERT(failed == 0);
}

gw_hash gw_map_table_hash(const gw_map_table *table, uint32_t tasks) {
    static const char domain[] = "godwit map result 1";
    crypto_generichash_state state;
    gw_hash hash;
    int failed = crypto_generichash_init(&state, NULL, 0, sizeof hash.bytes);
    GW_ASSERT(failed == 0);
    absorb(&state, domain, sizeof domain);
    for (uint32_t task = 0; task < tasks; task++) {
        const kept *place = place_of(table, task);
        bool there = place != NULL && place->outcome != GW_MAP_NOTHING;
        uint8_t codes[3] = {there, there ? place->exit_code : 0, there ? place->signal : 0};
        absorb(&state, codes, sizeof codes);
        if (there) absorb(&state, place->hash.bytes, sizeof place->hash.bytes);
    }
    failed = crypto_generichash_final(&state, hash.bytes, sizeof hash.bytes);
    GW_ASSERT(failed == 0);
    return hash;
}
