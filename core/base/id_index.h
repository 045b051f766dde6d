/* An index that finds records by their peer's id: a hash table of record numbers beside an array of records,
 * or of pointers to records. Each record begins with the gw_peer_id by which it is found. All ids are
 * different. The owner of the array may move it. */
#ifndef GODWIT_CORE_BASE_ID_INDEX_H
#define GODWIT_CORE_BASE_ID_INDEX_H

#include "core/base/id.h"
#include "core/base/mix.h"

#include <string.h>

/* A zero-initialised index is empty. */
typedef struct gw_id_index {
    uint32_t *cells; /* a record's number plus 1; 0: the cell is free; owned */
    uint32_t count;  /* number of cells: a power of two, or 0 */
} gw_id_index;

/* The array of records, borrowed. */
typedef struct gw_id_records {
    const void *first;
    size_t stride; /* bytes from one record to the next; 0: an array of pointers to records */
} gw_id_records;

/* Makes room for `capacity` records, of which the first `count` are in the array. Returns false when out of
 * memory; then nothing has changed. */
bool gw_id_index_reserve(gw_id_index *index, gw_id_records records, uint32_t count, uint32_t capacity);
/* Adds record `number`; there is room. */
void gw_id_index_put(gw_id_index *index, gw_id_records records, uint32_t number);
/* Rebuilds the index after the records have changed places; the array has `count`. */
void gw_id_index_rebuild(gw_id_index *index, gw_id_records records, uint32_t count);
void gw_id_index_free(gw_id_index *index);

static inline const gw_peer_id *gw_id_record(gw_id_records records, uint32_t number) {
    if (records.stride == 0) return ((const gw_peer_id *const *)records.first)[number];
    return (const gw_peer_id *)((const char *)records.first + number * records.stride);
}

/* Ids are hashes, but peers choose them; they are mixed so that they do not meet in one cell by accident. */
static inline uint32_t gw_id_index_cell(const gw_id_index *index, const gw_peer_id *id) {
    uint64_t word;
    memcpy(&word, id->bytes, sizeof word);
    return (uint32_t)gw_mix64(word) & (index->count - 1);
}

/* The number of the record with this id; UINT32_MAX: there is none. Inline, because the brain calls it
 * several times for each event. */
static inline uint32_t gw_id_index_find(const gw_id_index *index, gw_id_records records,
                                        const gw_peer_id *id) {
    if (index->count == 0) return UINT32_MAX;
    for (uint32_t cell = gw_id_index_cell(index, id); index->cells[cell] != 0;
         cell = (cell + 1) & (index->count - 1))
        if (gw_peer_id_equal(gw_id_record(records, index->cells[cell] - 1), id))
            return index->cells[cell] - 1;
    return UINT32_MAX;
}

#endif
