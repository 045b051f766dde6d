#include "tools/godwit/metrics_table.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(metrics_table, .init = scratch_open, .fini = scratch_close);

static const char *path; /* of what was written last */

static void write_text(const char *name, const char *text) {
    path = scratch_write(name, text, strlen(text));
}

static double cell(const gw_metrics_table *table, uint64_t row, const char *name) {
    uint32_t column = gw_metrics_table_column(table, name);
    cr_assert_neq(column, UINT32_MAX, "%s", name);
    return table->cells[GW_TABLE_COLUMNS * row + column];
}

static gw_metrics_table read_table(void) {
    gw_metrics_table table;
    gw_err err;
    cr_assert(gw_metrics_table_read(path, &table, &err), "%s", err.text);
    return table;
}

/* Quotes, cells that are no numbers or empty, short rows, and a last line that is being written. */
Test(metrics_table, csv) {
    write_text("a.csv", "step,note,loss\r\n1,\"a,\"\"b\"\"\",0.5\r\n2,\"7\",\n3,x\n4,nan,1e-3\n5,1,0.2");
    gw_metrics_table table = read_table();
    cr_assert(table.columns == 3 && table.rows == 4);
    cr_assert(cell(&table, 0, "step") == 1.0 && cell(&table, 0, "loss") == 0.5);
    cr_assert(isnan(cell(&table, 0, "note")) && cell(&table, 1, "note") == 7.0);
    cr_assert(isnan(cell(&table, 1, "loss")) && isnan(cell(&table, 2, "loss")));
    cr_assert(isnan(cell(&table, 3, "note")) && cell(&table, 3, "loss") == 1e-3);
    cr_assert_eq(gw_metrics_table_column(&table, "other"), UINT32_MAX);
    gw_metrics_table_free(&table);
}

Test(metrics_table, lines_of_json) {
    write_text("a.jsonl", "{\"step\":1,\"note\":\"x\"}\n{\"step\":2,\"loss\":0.5}\n{\"st");
    gw_metrics_table table = read_table();
    cr_assert(table.columns == 3 && table.rows == 2);
    cr_assert(isnan(cell(&table, 0, "note")) && isnan(cell(&table, 0, "loss")));
    cr_assert(cell(&table, 1, "step") == 2.0 && cell(&table, 1, "loss") == 0.5);
    gw_metrics_table_free(&table);
}

Test(metrics_table, many_rows) {
    char *text = malloc(200000), *at = text + sprintf(text, "step\n");
    for (int i = 0; i < 10000; i++) at += sprintf(at, "%d\n", i);
    write_text("a.csv", text);
    gw_metrics_table table = read_table();
    cr_assert_eq(table.rows, 10000);
    for (uint64_t i = 0; i < table.rows; i++) cr_assert_eq(cell(&table, i, "step"), (double)i);
    gw_metrics_table_free(&table);
    free(text);
}

static void refuse(const char *name, const char *text, const char *words) {
    gw_metrics_table table;
    gw_err err;
    write_text(name, text);
    cr_assert_not(gw_metrics_table_read(path, &table, &err), "%s", text);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
    unlink(path);
}

Test(metrics_table, what_is_no_table_is_refused_with_its_line) {
    refuse("a.csv", "step,step\n", "line 1: two columns are named 'step'");
    refuse("a.csv", "step,\n", "line 1: '' is no name");
    refuse("a.csv", "step\n1\n1,2\n", "line 3: has more cells");
    refuse("a.jsonl", "{\"step\":1}\n[1]\n", "line 2: is no object");
    refuse("a.jsonl", "{\n", "line 1: is no object");
    refuse("a.txt", "step\n", "neither .csv nor .jsonl");
    char many[2000] = "c", *at = many + 1;
    for (int i = 0; i <= GW_TABLE_COLUMNS; i++) at += sprintf(at, ",c%d", i);
    strcpy(at, "\n");
    refuse("a.csv", many, "more than 64 columns");
    gw_metrics_table table;
    gw_err err;
    cr_assert_not(gw_metrics_table_read("/nowhere.csv", &table, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
}
