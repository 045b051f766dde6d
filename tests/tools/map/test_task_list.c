/* The list of a map's tasks as bytes: it is read back as it was, and nothing else is read. */
#include "tools/godwit/map/task_list.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static gw_task_writer example(void) {
    static const char *const texts[] = {"a b", "", "\xc3\xa4"};
    static const size_t lengths[] = {3, 0, 2};
    gw_task_writer writer = {.bytes = NULL};
    gw_err err;
    for (uint32_t i = 0; i < 3; i++) {
        gw_map_values *values = gw_map_values_make(i + 1, texts, lengths);
        cr_assert(gw_task_writer_add(&writer, 2 * i, values, &err), "%s", err.text);
        free(values);
    }
    gw_task_writer_end(&writer);
    return writer;
}

Test(task_list, tasks_are_read_back) {
    gw_task_writer writer = example();
    gw_task_list list;
    gw_err err;
    cr_assert(gw_task_list_read(writer.bytes, writer.length, &list, &err), "%s", err.text);
    cr_assert_eq(list.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        gw_map_values *values = gw_task_list_values(&list, i);
        cr_assert_eq(gw_task_list_number(&list, i), 2 * i);
        cr_assert_eq(values->count, i + 1);
        cr_assert_str_eq(values->text[0], "a b");
        cr_assert_str_eq(values->text[i], i == 0 ? "a b" : i == 1 ? "" : "\xc3\xa4");
        free(values);
    }
    gw_task_list_free(&list);
    free(writer.bytes);
}

Test(task_list, a_list_may_be_empty) {
    gw_task_writer writer = {.bytes = NULL};
    gw_task_list list;
    gw_err err;
    gw_task_writer_end(&writer);
    cr_assert(gw_task_list_read(writer.bytes, writer.length, &list, &err), "%s", err.text);
    cr_assert_eq(list.count, 0);
    gw_task_list_free(&list);
    free(writer.bytes);
}

Test(task_list, what_is_no_list_is_refused) {
    gw_task_writer writer = example();
    uint8_t *bytes = malloc(writer.length + 1);
    gw_task_list list;
    gw_err err;
    const struct {
        size_t at;
        uint8_t value;
        gw_code code;
    } damage[] = {
        {0, 'X', GW_E_INVALID},   /* another file */
        {4, 2, GW_E_UNSUPPORTED}, /* a later version */
        {5, 4, GW_E_INVALID},     /* more tasks than there are */
        {5, 2, GW_E_INVALID},     /* fewer */
        {8, 1, GW_E_INVALID},     /* many more than fit */
        {9, 7, GW_E_INVALID},     /* numbers do not rise */
        {15, 200, GW_E_INVALID},  /* a value that is longer than the file */
        {20, 0, GW_E_INVALID},    /* a zero byte in a value */
    };
    for (size_t cut = 0; cut < writer.length; cut++)
        cr_assert(!gw_task_list_read(writer.bytes, cut, &list, &err), "%zu bytes", cut);
    memcpy(bytes, writer.bytes, writer.length);
    bytes[writer.length] = 0;
    cr_assert(!gw_task_list_read(bytes, writer.length + 1, &list, &err), "something follows");
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        memcpy(bytes, writer.bytes, writer.length);
        bytes[damage[i].at] = damage[i].value;
        cr_assert(!gw_task_list_read(bytes, writer.length, &list, &err), "%zu", i);
        cr_assert_eq(err.code, damage[i].code, "%zu: %s", i, err.text);
    }
    free(bytes);
    free(writer.bytes);
}
