#include "core/base/id_index.h"

#include "core/base/assert.h"

#include <stdlib.h>

static void put(gw_id_index *index, gw_id_records records, uint32_t number) {
    uint32_t cell = gw_id_index_cell(index, gw_id_record(records, number));
    while (index->cells[cell] != 0) cell = (cell + 1) & (index->count - 1);
    index->cells[cell] = number + 1;
}

void gw_id_index_put(gw_id_index *index, gw_id_records records, uint32_t number) {
    GW_ASSERT(number + 1 < index->count); /* at least one free cell, which ends every search */
    put(index, records, number);
}

void gw_id_index_rebuild(gw_id_index *index, gw_id_records records, uint32_t count) {
    GW_ASSERT(count < index->count);
    memset(index->cells, 0, index->count * sizeof *index->cells);
    for (uint32_t i = 0; i < count; i++) put(index, records, i);
}

bool gw_id_index_reserve(gw_id_index *index, gw_id_records records, uint32_t count, uint32_t capacity) {
    uint32_t cells = 16;
    while (cells < capacity + capacity / 2) cells *= 2;
    if (cells <= index->count) return true;
    uint32_t *grown = realloc(index->cells, cells * sizeof *grown);
    if (grown == NULL) return false;
    index->cells = grown;
    index->count = cells;
    gw_id_index_rebuild(index, records, count);
    return true;
}

void gw_id_index_free(gw_id_index *index) {
    free(index->cells);
    *index = (gw_id_index){0};
}
