/* Input sources and how they are combined. */
#include "tests/scratch.h"
#include "tools/godwit/map/inputs.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST(name, ...) static char *name[] = {__VA_ARGS__}

static char a[] = "a", b[] = "b", c[] = "c", one[] = "1", two[] = "2", x[] = "x", y[] = "y";

/* All tasks of the inputs, each as "1,2,3;". */
static void expect(const gw_map_inputs_options *options, const char *expected) {
    char text[2000] = "";
    gw_err err;
    gw_map_values *values;
    gw_map_inputs *inputs = gw_map_inputs_open(options, &err);
    cr_assert_not_null(inputs, "%s", err.text);
    uint64_t tasks = 0, total;
    gw_map_next next;
    while ((next = gw_map_inputs_next(inputs, &values, &err)) == GW_MAP_NEXT_READY) {
        for (uint32_t i = 0; i < values->count; i++) {
            if (i > 0) strcat(text, ",");
            strcat(text, values->text[i]);
        }
        strcat(text, ";");
        free(values);
        tasks++;
        if (options->whole) {
            cr_expect(gw_map_inputs_total(inputs, &total), "the number of tasks is known with the first one");
        }
    }
    cr_assert_eq(next, GW_MAP_NEXT_END, "%s", err.text);
    cr_expect_str_eq(text, expected);
    cr_assert(gw_map_inputs_total(inputs, &total));
    cr_expect_eq(total, tasks);
    gw_map_inputs_close(inputs);
}

/* The same, and with all inputs read first. */
static void expect_both(gw_map_inputs_options options, const char *expected) {
    expect(&options, expected);
    options.whole = true;
    expect(&options, expected);
}

LIST(abc, a, b, c);
LIST(numbers, one, two);
LIST(letters, x, y);

TestSuite(inputs, .init = scratch_open, .fini = scratch_close);

#define OF(list, n)                                                                                          \
    { .words = list, .count = n }

Test(inputs, sources_give_all_combinations) {
    const gw_map_inputs_source sources[] = {OF(abc, 2), OF(numbers, 2), OF(letters, 2)};
    expect_both((gw_map_inputs_options){.sources = sources, .source_count = 1, .most = 1}, "a;b;");
    expect_both((gw_map_inputs_options){.sources = sources, .source_count = 2, .most = 1},
                "a,1;a,2;b,1;b,2;");
    expect_both((gw_map_inputs_options){.sources = sources, .source_count = 3, .most = 1},
                "a,1,x;a,1,y;a,2,x;a,2,y;b,1,x;b,1,y;b,2,x;b,2,y;");
    const gw_map_inputs_source empty[] = {OF(abc, 2), OF(numbers, 0)};
    expect_both((gw_map_inputs_options){.sources = empty, .source_count = 2, .most = 1}, "");
}

Test(inputs, linked_sources_go_on_together) {
    const gw_map_inputs_source plus[] = {
        OF(abc, 3), {.words = numbers, .count = 2, .linked = true}, OF(letters, 2)};
    expect_both((gw_map_inputs_options){.sources = plus, .source_count = 2, .most = 1}, "a,1;b,2;");
    expect_both((gw_map_inputs_options){.sources = plus, .source_count = 3, .most = 1},
                "a,1,x;a,1,y;b,2,x;b,2,y;");
    const gw_map_inputs_source last[] = {
        OF(letters, 2), OF(abc, 3), {.words = numbers, .count = 2, .linked = true}};
    expect_both((gw_map_inputs_options){.sources = last, .source_count = 3, .most = 1},
                "x,a,1;x,b,2;y,a,1;y,b,2;");
    const gw_map_inputs_source link[] = {OF(abc, 3), OF(numbers, 2)};
    expect_both((gw_map_inputs_options){.sources = link, .source_count = 2, .most = 1, .link = true},
                "a,1;b,2;c,1;");
}

Test(inputs, several_inputs_make_one_task) {
    const gw_map_inputs_source sources[] = {OF(abc, 3), OF(numbers, 2)};
    expect_both((gw_map_inputs_options){.sources = sources, .source_count = 1, .most = 2}, "a,b;c;");
    expect_both((gw_map_inputs_options){.sources = sources, .source_count = 2, .most = 4},
                "a,1,a,2,b,1,b,2;c,1,c,2;");
    expect_both((gw_map_inputs_options){.sources = sources, .source_count = 1, .most = 0}, ";;;");
}

Test(inputs, columns_are_cut_by_a_regular_expression) {
    static char row[] = "a,b;;c", whole[] = "plain", ends[] = ",";
    LIST(rows, row, whole, ends);
    const gw_map_inputs_source sources[] = {OF(rows, 3)};
    gw_map_inputs_options options = {.sources = sources, .source_count = 1, .most = 1, .column = "[,;]+"};
    expect_both(options, "a,b,c;plain;,;");
    options.column = "x*"; /* an empty match cuts nothing */
    expect_both(options, "a,b;;c;plain;,;");
    gw_err err;
    options.column = "(";
    cr_assert_null(gw_map_inputs_open(&options, &err));
    cr_assert(err.code == GW_E_USAGE && strstr(err.text, "--colsep") != NULL, "%s", err.text);
}

Test(inputs, lines_of_files) {
    gw_map_inputs_source source = {.path = scratch_write("lines", "p q\n\nr", 6)};
    expect_both((gw_map_inputs_options){.sources = &source, .source_count = 1, .most = 1, .separator = '\n'},
                "p q;;r;");
    source.path = scratch_write("zeros", "p\nq\0r\0", 6);
    expect_both((gw_map_inputs_options){.sources = &source, .source_count = 1, .most = 1, .separator = '\0'},
                "p\nq;r;");
    source.path = scratch_write("zero", "p\0q\nr\n", 6);
    expect_both((gw_map_inputs_options){.sources = &source, .source_count = 1, .most = 1, .separator = '\n'},
                "p\\0q;r;");
    source.path = scratch_write("empty", "", 0);
    expect_both((gw_map_inputs_options){.sources = &source, .source_count = 1, .most = 1, .separator = '\n'},
                "");
    gw_err err;
    source.path = "/no/such/file";
    const gw_map_inputs_options missing = {.sources = &source, .source_count = 1, .most = 1};
    cr_assert_null(gw_map_inputs_open(&missing, &err));
    cr_assert_eq(err.code, GW_E_USAGE);
    source.path = "/";
    cr_assert_null(gw_map_inputs_open(&missing, &err));
    cr_assert_eq(err.code, GW_E_USAGE);
}

Test(inputs, lines_are_read_across_buffers_and_a_huge_one_is_refused) {
    const size_t length = 200000;
    char *bytes = malloc(3 * length + 3);
    for (int i = 0; i < 3; i++) {
        memset(bytes + (length + 1) * (size_t)i, 'a' + i, length);
        bytes[(length + 1) * (size_t)i + length] = '\n';
    }
    gw_map_inputs_source source = {.path = scratch_write("long", bytes, 3 * length + 3)};
    gw_map_inputs_options options = {.sources = &source, .source_count = 1, .most = 1, .separator = '\n'};
    gw_err err;
    gw_map_inputs *inputs = gw_map_inputs_open(&options, &err);
    for (int i = 0; i < 3; i++) {
        gw_map_values *values;
        cr_assert_eq(gw_map_inputs_next(inputs, &values, &err), GW_MAP_NEXT_READY);
        cr_assert_eq(strlen(values->text[0]), length);
        cr_assert_eq(values->text[0][length - 1], 'a' + i);
        free(values);
    }
    gw_map_inputs_close(inputs);
    free(bytes);
    int fd = open(source.path, O_WRONLY | O_TRUNC);
    cr_assert_eq(ftruncate(fd, GW_MAP_LINE_BYTES + 1), 0);
    close(fd);
    inputs = gw_map_inputs_open(&options, &err);
    gw_map_values *values;
    cr_assert_eq(gw_map_inputs_next(inputs, &values, &err), GW_MAP_NEXT_FAILED);
    cr_assert_eq(err.code, GW_E_LIMIT);
    gw_map_inputs_close(inputs);
}

/* A pipe that has nothing yet holds nobody up. */
Test(inputs, a_pipe_is_read_as_it_comes) {
    int ends[2];
    char path[40];
    gw_err err;
    gw_map_values *values;
    cr_assert_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    const gw_map_inputs_source source = {.path = path};
    const gw_map_inputs_options options = {
        .sources = &source, .source_count = 1, .most = 1, .separator = '\n'};
    gw_map_inputs *inputs = gw_map_inputs_open(&options, &err);
    cr_assert_not_null(inputs, "%s", err.text);
    cr_assert_eq(gw_map_inputs_next(inputs, &values, &err), GW_MAP_NEXT_LATER);
    cr_assert_eq(write(ends[1], "on", 2), 2);
    cr_assert_eq(gw_map_inputs_next(inputs, &values, &err), GW_MAP_NEXT_LATER);
    cr_assert_geq(gw_map_inputs_fd(inputs), 0);
    cr_assert_eq(write(ends[1], "e\ntwo", 5), 5);
    cr_assert_eq(gw_map_inputs_next(inputs, &values, &err), GW_MAP_NEXT_READY);
    cr_assert_str_eq(values->text[0], "one");
    free(values);
    close(ends[1]);
    cr_assert_eq(gw_map_inputs_next(inputs, &values, &err), GW_MAP_NEXT_READY);
    cr_assert_str_eq(values->text[0], "two");
    free(values);
    cr_assert_eq(gw_map_inputs_next(inputs, &values, &err), GW_MAP_NEXT_END);
    gw_map_inputs_close(inputs);
    close(ends[0]);
}
