/* Outputs of tasks: what is kept in memory and in the file, what lines are, and in which order tasks are. */
#include "core/rng.h"
#include "tools/godwit/map/order.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUTS = 20, ROUNDS = 3000, MEMORY = 256 << 10 };

static gw_map_store *store_of(size_t memory) {
    gw_err err;
    gw_map_store *store = gw_map_store_open("/tmp", memory, &err);
    cr_assert_not_null(store);
    return store;
}

static void add(gw_map_store *store, gw_map_output *output, const void *bytes, size_t length) {
    gw_err err;
    cr_assert(gw_map_output_add(store, output, bytes, length, &err), "%s", err.text);
}

/* The whole of an output. */
static char *whole(gw_map_store *store, const gw_map_output *output) {
    char *text = malloc(output->total + 1), *to = text;
    gw_err err;
    for (uint32_t i = 0; i < output->piece_count; i++) {
        cr_assert(gw_map_output_read(store, output, i, to, &err), "%s", err.text);
        to += output->pieces[i].length;
    }
    if (output->length > 0) memcpy(to, output->bytes, output->length);
    to += output->length;
    cr_assert_eq((uint64_t)(to - text), output->total);
    *to = '\0';
    return text;
}

/* Many outputs grow and go in any order; each has its bytes, memory is bounded, and the file does not grow for ever. */
Test(store, outputs_keep_their_bytes_within_bounds) {
    gw_map_store *store = store_of(MEMORY);
    gw_map_output outputs[OUTPUTS] = {{.bytes = NULL}};
    static char bytes[100000];
    gw_rng rng = gw_rng_seeded(5);
    uint64_t written = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t which = (uint32_t)gw_rng_below(&rng, OUTPUTS);
        gw_map_output *output = &outputs[which];
        size_t length =
            gw_rng_below(&rng, 4) == 0 ? gw_rng_below(&rng, sizeof bytes) : gw_rng_below(&rng, 200);
        memset(bytes, 'a' + (int)which, length);
        add(store, output, bytes, length);
        written += length;
        cr_assert_leq(gw_map_store_memory(store), MEMORY);
        if (output->total < 400000) continue;
        char *text = whole(store, output);
        for (uint64_t i = 0; i < output->total; i++) cr_assert_eq(text[i], 'a' + (int)which);
        free(text);
        gw_map_output_drop(store, output);
    }
    cr_assert_gt(written, 30u << 20);
    cr_assert_leq(gw_map_store_file_bytes(store), 24u << 20, "room that is given back is used again: %llu",
                  (unsigned long long)gw_map_store_file_bytes(store));
    for (int i = 0; i < OUTPUTS; i++) gw_map_output_drop(store, &outputs[i]);
    cr_assert_eq(gw_map_store_memory(store), 0);
    gw_map_store_close(store);
}

Test(store, outputs_that_wait_leave_the_memory) {
    gw_map_store *store = store_of(1000);
    gw_map_output first = {.bytes = NULL}, second = {.bytes = NULL};
    gw_err err;
    add(store, &first, "one", 3);
    cr_assert(gw_map_output_settle(store, &first, &err));
    cr_assert_eq(first.piece_count, 0, "there is little in memory");
    add(store, &second, (char[500]){0}, 500);
    cr_assert(gw_map_output_settle(store, &first, &err));
    cr_assert(first.piece_count == 1 && first.length == 0);
    char *text = whole(store, &first);
    cr_assert_str_eq(text, "one");
    free(text);
    gw_map_output_drop(store, &first);
    gw_map_output_drop(store, &second);
    gw_map_store_close(store);
}

Test(store, whole_lines_are_taken) {
    gw_map_store *store = store_of(MEMORY);
    gw_map_output output = {.bytes = NULL}, lines = {.bytes = NULL};
    gw_err err;
    add(store, &output, "part", 4);
    cr_assert(gw_map_output_take_lines(store, &output, &lines, &err));
    cr_assert_eq(lines.total, 0);
    add(store, &output, "\nnext\nla", 8);
    cr_assert(gw_map_output_take_lines(store, &output, &lines, &err));
    char *text = whole(store, &lines), *rest = whole(store, &output);
    cr_assert_str_eq(text, "part\nnext\n");
    cr_assert_str_eq(rest, "la");
    free(text);
    free(rest);
    gw_map_output_drop(store, &lines);
    gw_map_output_drop(store, &output);
    char *zeros = calloc(1, GW_MAP_LINE_PART);
    add(store, &output, zeros, GW_MAP_LINE_PART);
    cr_assert(gw_map_output_take_lines(store, &output, &lines, &err));
    cr_assert_eq(lines.total, GW_MAP_LINE_PART, "a line without an end is passed on in parts");
    cr_assert_eq(output.total, 0);
    free(zeros);
    gw_map_output_drop(store, &lines);
    gw_map_store_close(store);
}

Test(store, a_folder_that_is_not_there_is_told) {
    gw_err err;
    gw_map_store *store = gw_map_store_open("/no/such/folder", 0, &err);
    gw_map_output output = {.bytes = NULL};
    cr_assert_not(gw_map_output_add(store, &output, "x", 1, &err));
    cr_assert_not_null(strstr(err.text, "/no/such/folder"), "%s", err.text);
    gw_map_output_drop(store, &output);
    gw_map_store_close(store);
}

Test(order, tasks_come_in_their_order) {
    gw_map_store *store = store_of(MEMORY);
    gw_map_order order = {.store = store};
    enum { TASKS = 2000 };
    gw_rng rng = gw_rng_seeded(7);
    gw_err err;
    static uint64_t numbers[TASKS];
    uint64_t taken = 0;
    for (uint64_t i = 0; i < TASKS; i++) numbers[i] = i;
    for (uint64_t i = TASKS - 1; i > 0; i--) {
        uint64_t other = gw_rng_below(&rng, i + 1), number = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = number;
    }
    for (uint64_t i = 0; i < TASKS; i++) {
        gw_map_output output = {.bytes = NULL}, errors = {.bytes = NULL};
        gw_map_ended *left = NULL;
        if (numbers[i] % 3 != 0) {
            add(store, &output, &numbers[i], sizeof numbers[i]);
            left = gw_map_ended_make(&output, &errors, "tag");
        }
        cr_assert(gw_map_order_put(&order, numbers[i], left, &err));
        while (gw_map_order_take(&order, &left)) {
            uint64_t number = taken++;
            cr_assert_eq(left == NULL, number % 3 == 0);
            if (left == NULL) continue;
            char *bytes = whole(store, &left->output);
            cr_assert_eq(memcmp(bytes, &number, sizeof number), 0);
            free(bytes);
            cr_assert_str_eq(left->text, "tag");
            gw_map_ended_free(store, left);
        }
    }
    cr_assert_eq(taken, TASKS);
    gw_map_order_free(&order);
    gw_map_store_close(store);
}
