/* Rows of a map are a lattice: joins obey its laws, and rows only improve. */
#include "core/base/mix.h"
#include "core/map/table.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 6, ROUNDS = 20000, MANY = 1000000 };

static uint64_t state;

static uint64_t random_below(uint64_t bound) {
    state = gw_mix64(state);
    return state % bound;
}

/* A row in which few values occur, so that joins often meet equal ones. */
static gw_map_row random_row(uint32_t tasks) {
    bool success = random_below(2) == 0;
    return (gw_map_row){.task = (uint32_t)random_below(tasks),
                        .outcome = success ? GW_MAP_SUCCESS : GW_MAP_FAILURE,
                        .attempt = 1 + (uint32_t)random_below(2),
                        .who = {{0, (uint8_t)random_below(3)}},
                        .exit_code = success ? 0 : (uint8_t)random_below(2),
                        .signal = success ? 0 : (uint8_t)random_below(2),
                        .wall_us = random_below(2),
                        .rss_kib = (uint32_t)random_below(2),
                        .bytes = random_below(2),
                        .hash = {{0, 0, (uint8_t)random_below(2)}}};
}

static gw_map_table *table_of(uint32_t most) {
    gw_err err;
    gw_map_table *table = gw_map_table_open(most, &err);
    cr_assert_not_null(table);
    return table;
}

static bool join(gw_map_table *table, const gw_map_row *row) {
    gw_err err;
    bool improved = false;
    cr_assert(gw_map_table_join(table, row, &improved, &err), "%s", err.text);
    return improved;
}

/* Joins all rows of one table into another one. */
static void unite(gw_map_table *table, const gw_map_table *other) {
    gw_map_row row;
    for (uint32_t task = 0; task < gw_map_table_tasks(other); task++)
        if (gw_map_table_find(other, task, &row) != GW_MAP_NOTHING) join(table, &row);
}

static bool equal(const gw_map_table *a, const gw_map_table *b) {
    if (gw_map_table_tasks(a) != gw_map_table_tasks(b)) return false;
    for (uint32_t task = 0; task < gw_map_table_tasks(a); task++) {
        gw_map_row one, other;
        gw_map_outcome outcome = gw_map_table_find(a, task, &one);
        if (gw_map_table_find(b, task, &other) != outcome) return false;
        if (outcome != GW_MAP_NOTHING && gw_map_row_compare(&one, &other) != 0) return false;
    }
    gw_hash of_a = gw_map_table_hash(a, TASKS), of_b = gw_map_table_hash(b, TASKS);
    for (int outcome = GW_MAP_NOTHING; outcome <= GW_MAP_SUCCESS; outcome++)
        if (gw_map_table_count(a, (gw_map_outcome)outcome) != gw_map_table_count(b, (gw_map_outcome)outcome))
            return false;
    return gw_hash_equal(&of_a, &of_b);
}

static gw_map_table *random_table(void) {
    gw_map_table *table = table_of(TASKS);
    for (uint64_t rows = random_below(5); rows > 0; rows--) {
        gw_map_row row = random_row(TASKS);
        join(table, &row);
    }
    return table;
}

static gw_map_table *joined(const gw_map_table *a, const gw_map_table *b) {
    gw_map_table *table = table_of(TASKS);
    unite(table, a);
    unite(table, b);
    return table;
}

Test(table, joins_obey_the_laws_of_a_lattice) {
    state = 1;
    for (int i = 0; i < ROUNDS / 4; i++) {
        gw_map_table *a = random_table(), *b = random_table(), *c = random_table();
        gw_map_table *ab = joined(a, b), *ba = joined(b, a), *bc = joined(b, c), *left = joined(ab, c),
                     *right = joined(a, bc), *again = joined(ab, b);
        cr_assert(equal(ab, ba), "a join does not depend on who joins whom");
        cr_assert(equal(left, right), "nor on the order of joins");
        cr_assert(equal(ab, again), "nor on how often it is made");
        gw_map_table *all[] = {a, b, c, ab, ba, bc, left, right, again};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) gw_map_table_close(all[k]);
    }
}

Test(table, rows_only_improve_and_changes_are_told) {
    gw_map_table *table = table_of(TASKS);
    state = 2;
    for (int i = 0; i < ROUNDS; i++) {
        gw_map_row row = random_row(TASKS), before, after;
        gw_map_outcome had = gw_map_table_find(table, row.task, &before);
        bool improved = join(table, &row);
        gw_map_outcome has = gw_map_table_find(table, row.task, &after);
        cr_assert_geq(has, had);
        cr_assert_eq(improved, had == GW_MAP_NOTHING || gw_map_row_compare(&after, &before) < 0);
        cr_assert_leq(gw_map_row_compare(&after, &row), 0, "what is joined is not lost to a worse row");
        if (!improved) cr_assert_eq(gw_map_row_compare(&after, &before), 0);
    }
    cr_assert_eq(gw_map_table_count(table, GW_MAP_SUCCESS), TASKS);
    gw_map_table_close(table);
}

Test(table, success_comes_first_then_the_lowest_attempt_then_the_lowest_peer) {
    gw_map_row success = {.outcome = GW_MAP_SUCCESS, .attempt = 2, .who = {{9}}},
               failure = {.outcome = GW_MAP_FAILURE, .attempt = 1, .who = {{1}}, .exit_code = 1};
    cr_assert_lt(gw_map_row_compare(&success, &failure), 0);
    gw_map_row earlier = success, lower = success;
    earlier.attempt = 1;
    earlier.who = (gw_peer_id){{10}};
    lower.who = (gw_peer_id){{8}};
    cr_assert_lt(gw_map_row_compare(&earlier, &success), 0);
    cr_assert_lt(gw_map_row_compare(&lower, &success), 0);
    cr_assert_lt(gw_map_row_compare(&earlier, &lower), 0);
    cr_assert_eq(gw_map_row_compare(&lower, &lower), 0);
}

/* What a task wrote and how it ended are the result; by whom, when and how fast are not. */
Test(table, the_result_has_exit_codes_and_hashes_alone) {
    gw_map_row row = {.task = 1, .outcome = GW_MAP_FAILURE, .attempt = 1, .exit_code = 3, .hash = {{7}}};
    gw_map_table *table = table_of(4);
    join(table, &row);
    const gw_hash hash = gw_map_table_hash(table, 3);
    for (int changed = 0; changed < 9; changed++) {
        gw_map_row other = row;
        if (changed == 0) other.attempt = 5;
        if (changed == 1) other.who = (gw_peer_id){{4}};
        if (changed == 2) other.wall_us = 88;
        if (changed == 3) other.rss_kib = 99;
        if (changed == 4) other.bytes = 1;
        if (changed == 5) other.exit_code = 4;
        if (changed == 6) other.signal = 4;
        if (changed == 7) other.hash.bytes[31] = 1;
        if (changed == 8) other.task = 2;
        gw_map_table *second = table_of(4);
        join(second, &other);
        gw_hash second_hash = gw_map_table_hash(second, 3);
        cr_assert_eq(gw_hash_equal(&hash, &second_hash), changed < 5, "%d", changed);
        gw_map_table_close(second);
    }
    gw_hash longer = gw_map_table_hash(table, 4);
    cr_assert(!gw_hash_equal(&hash, &longer));
    gw_map_table_close(table);
}

Test(table, what_is_no_row_changes_nothing) {
    gw_map_table *table = table_of(10);
    gw_map_row good = {.task = 9, .outcome = GW_MAP_SUCCESS, .attempt = 1}, row = good;
    gw_err err;
    bool improved = false;
    row.outcome = GW_MAP_NOTHING;
    cr_assert(!gw_map_table_join(table, &row, &improved, &err) && err.code == GW_E_INVALID);
    row.outcome = (gw_map_outcome)3;
    cr_assert(!gw_map_table_join(table, &row, &improved, &err) && err.code == GW_E_INVALID);
    row = good;
    row.attempt = 0;
    cr_assert(!gw_map_table_join(table, &row, &improved, &err) && err.code == GW_E_INVALID);
    row = good;
    row.task = 10;
    cr_assert(!gw_map_table_join(table, &row, &improved, &err) && err.code == GW_E_LIMIT);
    cr_assert_eq(gw_map_table_tasks(table), 0);
    cr_assert(join(table, &good));
    for (uint32_t i = 1; i <= GW_MAP_PEERS_MOST; i++) {
        row = (gw_map_row){.task = i % 9,
                           .outcome = GW_MAP_FAILURE,
                           .attempt = 1 + GW_MAP_PEERS_MOST - i,
                           .who = {{(uint8_t)i, (uint8_t)(i >> 8)}}};
        bool joined = gw_map_table_join(table, &row, &improved, &err);
        cr_assert_eq(joined, i < GW_MAP_PEERS_MOST);
        if (!joined) cr_assert_eq(err.code, GW_E_LIMIT);
    }
    gw_map_table_close(table);
}

/* Rows arrive in any order; a table of a million takes 64 bytes for each. */
Test(table, a_million_rows_are_kept) {
    gw_map_table *table = table_of(MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        gw_map_row row = {.task = (uint32_t)((uint64_t)i * 7919 % MANY),
                          .outcome = i % 2 == 0 ? GW_MAP_SUCCESS : GW_MAP_FAILURE,
                          .attempt = 1,
                          .bytes = i};
        cr_assert(join(table, &row));
    }
    cr_assert_eq(gw_map_table_tasks(table), MANY);
    cr_assert_eq(gw_map_table_count(table, GW_MAP_SUCCESS), MANY / 2);
    cr_assert_eq(gw_map_table_count(table, GW_MAP_NOTHING), 0);
    gw_map_row row;
    gw_map_table_find(table, (uint32_t)(12345ull * 7919 % MANY), &row);
    cr_assert_eq(row.bytes, 12345);
    cr_assert_eq(gw_map_table_find(table, MANY, &row), GW_MAP_NOTHING);
    gw_map_table_close(table);
}
