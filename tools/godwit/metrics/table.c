#include "tools/godwit/metrics/table.h"

#include "tools/godwit/metrics/file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reader's state. */
typedef struct reading {
    gw_metrics_table *table;
    const gw_metrics_range *range;
    char *line;
    size_t line_room;
    double step;                  /* in the last row; NAN = it has none */
    bool apart[GW_TABLE_COLUMNS]; /* rows are missing since the last point of this column */
    double row[GW_TABLE_COLUMNS]; /* NAN = the cell is empty, or no number */
} reading;

uint32_t gw_metrics_table_column(const gw_metrics_table *table, const char *name) {
    for (uint32_t c = 0; c < table->columns; c++)
        if (strcmp(table->name[c], name) == 0) return c;
    return UINT32_MAX;
}

static bool add_column(gw_metrics_table *table, const char *name, gw_err *err) {
    if (table->columns == GW_TABLE_COLUMNS)
        return gw_fail(err, GW_E_LIMIT, "more than %d columns", GW_TABLE_COLUMNS);
    if (name[0] == '\0' || strlen(name) >= GW_KEY_VALUES_KEY)
        return gw_fail(err, GW_E_INVALID, "'%.40s' cannot be the name of a column", name);
    if (gw_metrics_table_column(table, name) != UINT32_MAX)
        return gw_fail(err, GW_E_INVALID, "two columns are named '%s'", name);
    snprintf(table->name[table->columns++], GW_KEY_VALUES_KEY, "%s", name);
    return true;
}

/* Whether the row is of a step that is to be shown. */
static bool is_in_range(const reading *r) {
    if (!r->range->limited) return true;
    uint32_t column = gw_metrics_table_column(r->table, "step");
    double step = column != UINT32_MAX ? r->row[column] : (double)NAN;
    return step >= r->range->first && step <= r->range->last;
}

static bool add_row(reading *r, gw_err *err) {
    gw_metrics_table *table = r->table;
    uint32_t column = gw_metrics_table_column(table, r->range->x),
             steps = gw_metrics_table_column(table, "step");
    double x = column != UINT32_MAX ? r->row[column] : (double)NAN;
    double step = steps != UINT32_MAX ? r->row[steps] : (double)NAN;
    /* Rows of steps are missing that this peer did not make and nobody remembered. */
    if (step > r->step + 1)
        for (uint32_t c = 0; c < table->columns; c++) r->apart[c] = true;
    r->step = step;
    table->rows++;
    if (isnan(table->first_x)) table->first_x = x;
    if (!is_in_range(r)) return true;
    for (uint32_t c = 0; c < table->columns && !isnan(x); c++) {
        double y = r->row[c];
        if (isnan(y) || (r->range->positive && y <= 0.0)) continue;
        if (!gw_curve_add(&table->curve[c], x, y, r->apart[c], err)) return false;
        r->apart[c] = false;
    }
    return true;
}

/* Returns the next cell of a line of CSV (RFC 4180), which it changes; NULL = there is none left. */
static char *next_cell(char **rest) {
    char *cell = *rest, *to = cell, *from = cell;
    if (cell == NULL) return NULL;
    bool quoted = *from == '"';
    if (quoted) from++;
    while (*from != '\0' && (quoted || *from != ',')) {
        if (quoted && *from == '"') {
            if (from[1] != '"') {
                quoted = false;
                from++;
                continue;
            }
            from++;
        }
        *to++ = *from++;
    }
    *rest = *from == ',' ? from + 1 : NULL;
    *to = '\0';
    return cell;
}

static double number_of(const char *text) {
    char *end;
    double value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(value) ? value : (double)NAN;
}

static bool read_csv(reading *r, bool header, gw_err *err) {
    char *rest = r->line, *cell;
    if (header) {
        while ((cell = next_cell(&rest)) != NULL)
            if (!add_column(r->table, cell, err)) return false;
        return true;
    }
    for (uint32_t c = 0; (cell = next_cell(&rest)) != NULL; c++) {
        if (c >= r->table->columns)
            return gw_fail(err, GW_E_INVALID, "the row has more cells than the header");
        r->row[c] = number_of(cell);
    }
    return add_row(r, err);
}

static bool read_json(reading *r, gw_err *err) {
    json_error_t why;
    json_t *object = json_loads(r->line, 0, &why), *value;
    if (!json_is_object(object)) {
        json_decref(object);
        return gw_fail(err, GW_E_INVALID, "the line is not a JSON object");
    }
    const char *key;
    bool good = true;
    json_object_foreach(object, key, value) {
        uint32_t column = good ? gw_metrics_table_column(r->table, key) : 0;
        if (good && column == UINT32_MAX) {
            column = r->table->columns;
            good = add_column(r->table, key, err);
        }
        if (good && json_is_number(value)) r->row[column] = json_number_value(value);
    }
    json_decref(object);
    return good && add_row(r, err);
}

static bool read_lines(reading *r, gw_metrics_format format, FILE *in, gw_err *err) {
    ssize_t length;
    for (uint64_t number = 1; (length = getline(&r->line, &r->line_room, in)) > 0; number++) {
        if (r->line[length - 1] != '\n') return true;
        r->line[strcspn(r->line, "\r\n")] = '\0';
        for (uint32_t c = 0; c < GW_TABLE_COLUMNS; c++) r->row[c] = NAN;
        if (!(format == GW_METRICS_CSV ? read_csv(r, number == 1, err) : read_json(r, err)))
            return gw_fail_in(err, "line %llu", (unsigned long long)number);
    }
    return !ferror(in) || gw_fail_errno(err, errno, "cannot read it");
}

bool gw_metrics_table_read(const char *path, const gw_metrics_range *range, gw_metrics_table *table,
                           gw_err *err) {
    *table = (gw_metrics_table){.first_x = NAN};
    gw_metrics_format format;
    if (!gw_metrics_format_of(path, &format, err)) return false;
    FILE *in = fopen(path, "re");
    if (in == NULL && errno == ENOENT) return gw_fail(err, GW_E_NOTFOUND, "there is no file %s", path);
    if (in == NULL) return gw_fail_errno(err, errno, "cannot open %s", path);
    reading r = {.table = table, .range = range, .step = NAN};
    bool good = read_lines(&r, format, in, err) || gw_fail_in(err, "%s", path);
    fclose(in);
    free(r.line);
    if (!good) gw_metrics_table_free(table);
    return good;
}

void gw_metrics_table_free(gw_metrics_table *table) {
    for (uint32_t c = 0; c < table->columns; c++) gw_curve_free(&table->curve[c]);
    *table = (gw_metrics_table){.first_x = NAN};
}
