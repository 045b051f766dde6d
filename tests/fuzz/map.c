/* The target `map_rows`: rows of a map's table, as a peer sends them to others. */
#include "core/map/rows.h"
#include "tests/fuzz/target.h"

#include <stdlib.h>
#include <string.h>

static void rows_examples(fuzz_add *add, void *context) {
    uint8_t bytes[400];
    gw_map_row rows[4];
    for (uint32_t count = 0; count <= 4; count++) {
        for (uint32_t i = 0; i < count; i++)
            rows[i] = (gw_map_row){.task = 5 * i,
                                   .outcome = i % 2 == 0 ? GW_MAP_SUCCESS : GW_MAP_FAILURE,
                                   .attempt = 1 + i,
                                   .who = {{(uint8_t)(i / 2)}},
                                   .exit_code = i % 2 == 0 ? 0 : 1,
                                   .wall_us = 50000,
                                   .rss_kib = 2000,
                                   .bytes = 10,
                                   .hash = {{(uint8_t)i}}};
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_map_rows_put(&w, rows, count);
        GW_ASSERT(!w.failed);
        add(context, bytes, w.length);
    }
}

/* What is read is written as the same bytes, and a table takes it once. */
static bool take_rows(const uint8_t *bytes, size_t count) {
    gw_map_row *rows, row;
    uint32_t row_count;
    gw_err err;
    if (!gw_map_rows_get(bytes, count, &rows, &row_count, &err)) {
        GW_ASSERT(err.text[0] != '\0');
        return false;
    }
    uint8_t *again = malloc(count);
    GW_ASSERT_MEMORY(again != NULL);
    gw_writer w = gw_writer_on(again, count);
    gw_map_rows_put(&w, rows, row_count);
    GW_ASSERT(!w.failed && w.length == count && memcmp(again, bytes, count) == 0);
    free(again);
    gw_map_table *table = gw_map_table_open(1 << 16, &err);
    GW_ASSERT_MEMORY(table != NULL);
    for (uint32_t i = 0; i < row_count; i++) {
        bool improved = false;
        if (!gw_map_table_join(table, &rows[i], &improved, &err))
            continue; /* of a task that the map has not */
        GW_ASSERT(improved && gw_map_table_find(table, rows[i].task, &row) == rows[i].outcome);
        GW_ASSERT(gw_map_row_compare(&row, &rows[i]) == 0);
        GW_ASSERT(gw_map_table_join(table, &rows[i], &improved, &err) && !improved);
    }
    gw_map_table_close(table);
    free(rows);
    return true;
}

const fuzz_target fuzz_map_rows = {"map_rows", 20000, 1024, rows_examples, NULL, take_rows};
