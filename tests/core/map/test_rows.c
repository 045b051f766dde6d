/* Rows of a map as bytes: they are read back as they were, and nothing else is read. */
#include "core/map/rows.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5, BYTES = 1000 };

static gw_map_row example(uint32_t i) {
    return (gw_map_row){.task = 3 * i,
                        .outcome = i % 2 == 0 ? GW_MAP_SUCCESS : GW_MAP_FAILURE,
                        .attempt = 1 + i,
                        .who = {{(uint8_t)(9 - i % 3)}},
                        .exit_code = i % 2 == 0 ? 0 : 200,
                        .signal = i == 3 ? 9 : 0,
                        .wall_us = 1ull << (8 * i),
                        .rss_kib = 77 * i,
                        .bytes = 1ull << 40,
                        .hash = {{1, 2, (uint8_t)i}}};
}

static size_t encode(uint8_t bytes[BYTES]) {
    gw_map_row rows[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) rows[i] = example(i);
    gw_writer w = gw_writer_on(bytes, BYTES);
    gw_map_rows_put(&w, rows, COUNT);
    cr_assert(!w.failed);
    return w.length;
}

static bool is_read(const uint8_t *bytes, size_t length, gw_err *err) {
    gw_map_row *rows;
    uint32_t count;
    if (!gw_map_rows_get(bytes, length, &rows, &count, err)) return false;
    free(rows);
    return true;
}

Test(rows, rows_are_read_back) {
    uint8_t bytes[BYTES];
    size_t length = encode(bytes);
    gw_map_row *rows;
    uint32_t count;
    gw_err err;
    cr_assert_eq(length, 7 + 3 * 16 + COUNT * GW_MAP_ROWS_ROW_BYTES, "each peer's id is there once");
    cr_assert(gw_map_rows_get(bytes, length, &rows, &count, &err), "%s", err.text);
    cr_assert_eq(count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        gw_map_row row = example(i);
        cr_assert_eq(rows[i].task, row.task);
        cr_assert_eq(gw_map_row_compare(&rows[i], &row), 0);
    }
    free(rows);
    gw_writer w = gw_writer_on(bytes, BYTES);
    gw_map_rows_put(&w, NULL, 0);
    cr_assert(!w.failed && is_read(bytes, w.length, &err));
}

Test(rows, what_is_no_encoding_of_rows_is_refused) {
    uint8_t good[BYTES], bytes[BYTES];
    size_t length = encode(good);
    gw_err err;
    for (size_t cut = 0; cut < length; cut++) cr_assert(!is_read(good, cut, &err), "%zu bytes", cut);
    enum { PEERS = 3, FIRST_ROW = 7 + 16 * PEERS };
    const struct {
        size_t at;
        uint8_t value;
        gw_code code;
    } damage[] = {
        {0, 0, GW_E_INVALID},                /* no version */
        {0, 2, GW_E_UNSUPPORTED},            /* a later one */
        {2, 0xff, GW_E_LIMIT},               /* too many peers */
        {3, 9, GW_E_INVALID},                /* ids do not rise */
        {3 + 16 * PEERS, 4, GW_E_INVALID},   /* fewer rows than there are bytes */
        {5 + 16 * PEERS, 1, GW_E_LIMIT},     /* too many rows */
        {FIRST_ROW + 3, 0x40, GW_E_INVALID}, /* a task number that is too high */
        {FIRST_ROW + 4, 0, GW_E_INVALID},    /* an outcome that is none */
        {FIRST_ROW + 4, 3, GW_E_INVALID},    /* an unknown outcome */
        {FIRST_ROW + 5, 0, GW_E_INVALID},    /* attempt 0 */
        {FIRST_ROW + 9, 3, GW_E_INVALID},    /* a peer that is not there */
    };
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        memcpy(bytes, good, length);
        bytes[damage[i].at] = damage[i].value;
        cr_assert(!is_read(bytes, length, &err), "%zu", i);
        cr_assert_eq(err.code, damage[i].code, "%zu: %s", i, err.text);
    }
    memcpy(bytes, good, length);
    bytes[FIRST_ROW + 2 * GW_MAP_ROWS_ROW_BYTES + 9] = 1; /* the one row of peer 0 becomes another's */
    cr_assert(!is_read(bytes, length, &err), "an id of no row");
}

Test(rows, rows_keep_their_order) {
    gw_map_row rows[3] = {example(4), example(1), example(1)}, *read;
    uint8_t bytes[BYTES];
    uint32_t count;
    gw_err err;
    gw_writer w = gw_writer_on(bytes, BYTES);
    gw_map_rows_put(&w, rows, 3);
    cr_assert(gw_map_rows_get(bytes, w.length, &read, &count, &err), "%s", err.text);
    cr_assert_eq(count, 3);
    for (uint32_t i = 0; i < 3; i++) cr_assert_eq(read[i].task, rows[i].task);
    free(read);
}

Test(rows, too_many_rows_are_not_written) {
    gw_map_row rows[1] = {example(1)};
    uint8_t bytes[BYTES];
    gw_writer w = gw_writer_on(bytes, BYTES);
    gw_map_rows_put(&w, rows, GW_MAP_ROWS_MOST + 1);
    cr_assert(w.failed);
}
