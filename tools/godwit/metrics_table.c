#include "tools/godwit/metrics_table.h"

#include "tools/godwit/metrics_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file that is being read. */
typedef struct reading {
    gw_metrics_table *table;
    uint64_t room; /* rows that the table has memory for */
    char *line;
    size_t line_room;
} reading;

uint32_t gw_metrics_table_column(const gw_metrics_table *table, const char *name) {
    for (uint32_t c = 0; c < table->columns; c++)
        if (strcmp(table->name[c], name) == 0) return c;
    return UINT32_MAX;
}

static bool add_column(gw_metrics_table *table, const char *name, gw_err *err) {
    if (table->columns == GW_TABLE_COLUMNS)
        return gw_fail(err, GW_E_LIMIT, "more than %d columns", GW_TABLE_COLUMNS);
    if (name[0] == '\0' || strlen(name) >= GW_REPORT_KEY)
        return gw_fail(err, GW_E_INVALID, "'%.40s' is no name of a column", name);
    if (gw_metrics_table_column(table, name) != UINT32_MAX)
        return gw_fail(err, GW_E_INVALID, "two columns are named '%s'", name);
    snprintf(table->name[table->columns++], GW_REPORT_KEY, "%s", name);
    return true;
}

/* A new row of nothing; NULL: out of memory. */
static double *add_row(reading *r, gw_err *err) {
    gw_metrics_table *table = r->table;
    if (table->rows == r->room) {
        uint64_t room = r->room > 0 ? 2 * r->room : 256;
        double *grown = realloc(table->cells, room * GW_TABLE_COLUMNS * sizeof *grown);
        if (grown == NULL) {
            gw_fail(err, GW_E_NOMEM, "no memory for %llu rows", (unsigned long long)room);
            return NULL;
        }
        table->cells = grown;
        r->room = room;
    }
    double *row = table->cells + GW_TABLE_COLUMNS * table->rows++;
    for (uint32_t c = 0; c < GW_TABLE_COLUMNS; c++) row[c] = NAN;
    return row;
}

/* The next cell of a line of CSV (RFC 4180), in place; NULL: there is none left. */
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
    double *row = add_row(r, err);
    if (row == NULL) return false;
    for (uint32_t c = 0; (cell = next_cell(&rest)) != NULL; c++) {
        if (c >= r->table->columns) return gw_fail(err, GW_E_INVALID, "has more cells than the header");
        row[c] = number_of(cell);
    }
    return true;
}

static bool read_json(reading *r, gw_err *err) {
    json_error_t why;
    json_t *object = json_loads(r->line, 0, &why), *value;
    if (!json_is_object(object)) {
        json_decref(object);
        return gw_fail(err, GW_E_INVALID, "is no object of JSON");
    }
    double *row = add_row(r, err);
    const char *key;
    bool good = row != NULL;
    json_object_foreach(object, key, value) {
        uint32_t column = good ? gw_metrics_table_column(r->table, key) : 0;
        if (good && column == UINT32_MAX) {
            column = r->table->columns;
            good = add_column(r->table, key, err);
        }
        if (good && json_is_number(value)) row[column] = json_number_value(value);
    }
    json_decref(object);
    return good;
}

static bool read_lines(reading *r, gw_metrics_format format, FILE *in, gw_err *err) {
    ssize_t length;
    for (uint64_t number = 1; (length = getline(&r->line, &r->line_room, in)) > 0; number++) {
        if (r->line[length - 1] != '\n') return true;
        r->line[strcspn(r->line, "\r\n")] = '\0';
        if (!(format == GW_METRICS_CSV ? read_csv(r, number == 1, err) : read_json(r, err)))
            return gw_fail_in(err, "line %llu", (unsigned long long)number);
    }
    return !ferror(in) || gw_fail_errno(err, errno, "cannot read it");
}

bool gw_metrics_table_read(const char *path, gw_metrics_table *table, gw_err *err) {
    *table = (gw_metrics_table){.cells = NULL};
    gw_metrics_format format;
    if (!gw_metrics_format_of(path, &format, err)) return false;
    FILE *in = fopen(path, "re");
    if (in == NULL && errno == ENOENT) return gw_fail(err, GW_E_NOTFOUND, "there is no file %s", path);
    if (in == NULL) return gw_fail_errno(err, errno, "cannot open %s", path);
    reading r = {.table = table};
    bool good = read_lines(&r, format, in, err) || gw_fail_in(err, "%s", path);
    fclose(in);
    free(r.line);
    if (!good) gw_metrics_table_free(table);
    return good;
}

void gw_metrics_table_free(gw_metrics_table *table) {
    free(table->cells);
    *table = (gw_metrics_table){.cells = NULL};
}
