#include "tools/godwit/metrics/table.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(metrics_table, .init = scratch_open, .fini = scratch_close);

static const char *path; /* the format of the last written file */

static void write_text(const char *name, const char *text) {
    path = scratch_write(name, text, strlen(text));
}

static const gw_curve *curve_of(const gw_metrics_table *table, const char *name) {
    uint32_t column = gw_metrics_table_column(table, name);
    cr_assert_neq(column, UINT32_MAX, "%s", name);
    return &table->curve[column];
}

/* A file of few points. */
static bool has_point(const gw_metrics_table *table, const char *name, uint32_t number, double x, double y) {
    const gw_curve *curve = curve_of(table, name);
    return curve->points > number && curve->bins[number].first.x == x && curve->bins[number].first.y == y;
}

static gw_metrics_table read_table(const char *x, bool positive) {
    gw_metrics_table table;
    gw_err err;
    cr_assert(gw_metrics_table_read(path, &(gw_metrics_range){.x = x, .positive = positive}, &table, &err),
              "%s", err.text);
    return table;
}

/* Quotes, cells that are empty or not numbers, short rows, and a last line that is being written. */
Test(metrics_table, csv) {
    write_text("a.csv", "step,note,loss\r\n1,\"a,\"\"b\"\"\",0.5\r\n2,\"7\",\n3,x\n4,nan,1e-3\n5,1,0.2");
    gw_metrics_table table = read_table("step", false);
    cr_assert(table.columns == 3 && table.rows == 4 && table.first_x == 1.0);
    cr_assert(curve_of(&table, "step")->points == 4 && has_point(&table, "step", 2, 3.0, 3.0));
    cr_assert(curve_of(&table, "loss")->points == 2 && has_point(&table, "loss", 0, 1.0, 0.5) &&
              has_point(&table, "loss", 1, 4.0, 1e-3));
    cr_assert(curve_of(&table, "note")->points == 1 && has_point(&table, "note", 0, 2.0, 7.0));
    cr_assert_eq(gw_metrics_table_column(&table, "other"), UINT32_MAX);
    gw_metrics_table_free(&table);
}

/* A step without the number that is drawn breaks no line, as evaluations stand between updates. */
Test(metrics_table, no_line_leads_over_rows_that_are_missing) {
    write_text("a.csv", "step,loss\n1,5\n2,\n3,4\n7,\n8,2\n9,1\n");
    gw_metrics_table table = read_table("step", false);
    const gw_curve *loss = curve_of(&table, "loss"), *step = curve_of(&table, "step");
    for (uint32_t i = 0; i < 4; i++) cr_expect_eq(loss->bins[i].first.apart, i == 2, "%u", i);
    for (uint32_t i = 0; i < 6; i++) cr_expect_eq(step->bins[i].first.apart, i == 3, "%u", i);
    gw_metrics_table_free(&table);
}

Test(metrics_table, lines_of_json) {
    write_text("a.jsonl", "{\"step\":1,\"note\":\"x\"}\n{\"step\":2,\"loss\":0.5}\n{\"st");
    gw_metrics_table table = read_table("step", false);
    cr_assert(table.columns == 3 && table.rows == 2);
    cr_assert_eq(curve_of(&table, "note")->points, 0);
    cr_assert(curve_of(&table, "loss")->points == 1 && has_point(&table, "loss", 0, 2.0, 0.5));
    gw_metrics_table_free(&table);
}

/* A row without x is in no curve, and neither is, for a logarithmic axis, a number without a logarithm. */
Test(metrics_table, curves_are_over_any_column) {
    write_text("a.csv", "step,time,loss\n1,,5\n2,60,0\n3,50,-1\n4,70,3\n");
    gw_metrics_table table = read_table("time", false);
    cr_assert(table.first_x == 60.0 && curve_of(&table, "loss")->points == 3);
    cr_assert(has_point(&table, "loss", 0, 60.0, 0.0) && has_point(&table, "loss", 1, 50.0, -1.0));
    gw_metrics_table_free(&table);
    table = read_table("time", true);
    cr_assert(curve_of(&table, "loss")->points == 1 && has_point(&table, "loss", 0, 70.0, 3.0));
    gw_metrics_table_free(&table);
    table = read_table("other", false);
    cr_assert(isnan(table.first_x) && table.rows == 4 && curve_of(&table, "loss")->points == 0);
    gw_metrics_table_free(&table);
}

static void refuse(const char *name, const char *text, const char *words) {
    gw_metrics_table table;
    gw_err err;
    write_text(name, text);
    cr_assert_not(gw_metrics_table_read(path, &(gw_metrics_range){.x = "step"}, &table, &err), "%s", text);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
    unlink(path);
}

Test(metrics_table, what_is_no_table_is_refused_with_its_line) {
    refuse("a.csv", "step,step\n", "line 1: two columns are named 'step'");
    refuse("a.csv", "step,\n", "line 1: '' cannot be the name");
    refuse("a.csv", "step\n1\n1,2\n", "line 3: the row has more cells");
    refuse("a.jsonl", "{\"step\":1}\n[1]\n", "line 2: the line is not a JSON object");
    refuse("a.jsonl", "{\n", "line 1: the line is not a JSON object");
    refuse("a.txt", "step\n", "neither .csv nor .jsonl");
    char many[2000] = "c", *at = many + 1;
    for (int i = 0; i <= GW_TABLE_COLUMNS; i++) at += sprintf(at, ",c%d", i);
    strcpy(at, "\n");
    refuse("a.csv", many, "more than 64 columns");
    gw_metrics_table table;
    gw_err err;
    cr_assert_not(gw_metrics_table_read("/nowhere.csv", &(gw_metrics_range){.x = "step"}, &table, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
}
