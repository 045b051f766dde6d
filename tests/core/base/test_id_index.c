/* Records are found by their id, wherever their cells collided, also after the array has moved. */
#include "core/base/id_index.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { RECORDS = 500 };

typedef struct record {
    gw_peer_id id;
    uint32_t number;
} record;

static gw_peer_id id_of(uint32_t number) {
    gw_peer_id id;
    gw_blake2b(&number, sizeof number, id.bytes, sizeof id.bytes);
    return id;
}

static gw_id_records all(const record *records) {
    return (gw_id_records){records, sizeof *records};
}

Test(id_index, finds_nothing_before_anything_is_there) {
    gw_id_index index = {0};
    gw_peer_id id = id_of(1);
    cr_assert_eq(gw_id_index_find(&index, all(NULL), &id), UINT32_MAX);
    gw_id_index_free(&index);
}

Test(id_index, finds_each_record_while_the_array_grows) {
    gw_id_index index = {0};
    record *records = NULL;
    for (uint32_t i = 0; i < RECORDS; i++) {
        record *moved = malloc((i + 1) * sizeof *moved); /* another place each time */
        cr_assert(moved != NULL);
        if (i > 0) memcpy(moved, records, i * sizeof *moved);
        free(records);
        records = moved;
        records[i] = (record){.id = id_of(i), .number = i};
        cr_assert(gw_id_index_reserve(&index, all(records), i, i + 1));
        gw_id_index_put(&index, all(records), i);
        for (uint32_t k = 0; k <= i; k++) {
            gw_peer_id id = id_of(k);
            cr_assert_eq(gw_id_index_find(&index, all(records), &id), k);
        }
        gw_peer_id other = id_of(RECORDS + i);
        cr_assert_eq(gw_id_index_find(&index, all(records), &other), UINT32_MAX);
    }
    gw_id_index_free(&index);
    free(records);
}

Test(id_index, finds_what_an_array_points_to) {
    gw_id_index index = {0};
    record records[RECORDS];
    const record *pointers[RECORDS];
    const gw_id_records all_pointed_to = {pointers, 0};
    cr_assert(gw_id_index_reserve(&index, all_pointed_to, 0, RECORDS));
    for (uint32_t i = 0; i < RECORDS; i++) {
        pointers[i] = &records[RECORDS - 1 - i];
        records[RECORDS - 1 - i] = (record){.id = id_of(i), .number = i};
        gw_id_index_put(&index, all_pointed_to, i);
    }
    for (uint32_t i = 0; i <= RECORDS; i++) {
        gw_peer_id id = id_of(i);
        cr_assert_eq(gw_id_index_find(&index, all_pointed_to, &id), i < RECORDS ? i : UINT32_MAX);
    }
    gw_id_index_free(&index);
}

/* As gossip does it: the last record takes the place of one that is removed. */
Test(id_index, is_right_again_after_a_rebuild) {
    gw_id_index index = {0};
    record records[RECORDS];
    cr_assert(gw_id_index_reserve(&index, all(records), 0, RECORDS));
    for (uint32_t i = 0; i < RECORDS; i++) {
        records[i] = (record){.id = id_of(i), .number = i};
        gw_id_index_put(&index, all(records), i);
    }
    records[7] = records[RECORDS - 1];
    gw_id_index_rebuild(&index, all(records), RECORDS - 1);
    gw_peer_id removed = id_of(7), moved = id_of(RECORDS - 1);
    cr_assert_eq(gw_id_index_find(&index, all(records), &removed), UINT32_MAX);
    cr_assert_eq(gw_id_index_find(&index, all(records), &moved), 7);
    gw_id_index_free(&index);
}

/* Ids whose cells are one and the same: a run of cells that wraps round the end of the table. */
Test(id_index, keeps_ids_apart_that_share_a_cell) {
    gw_id_index index = {0};
    record records[8];
    cr_assert(gw_id_index_reserve(&index, all(records), 0, 8));
    uint32_t count = 0;
    for (uint32_t i = 0; count < 8; i++) {
        gw_peer_id id = id_of(i);
        if (gw_id_index_cell(&index, &id) != index.count - 1) continue;
        records[count] = (record){.id = id, .number = i};
        gw_id_index_put(&index, all(records), count);
        count++;
    }
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(gw_id_index_find(&index, all(records), &records[i].id), i);
    gw_id_index_free(&index);
}
