/* What is in a file of `godwit run --metrics` (file.h), as curves: in bounded memory, however long
 * the run was. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_TABLE_H
#define GODWIT_TOOLS_GODWIT_METRICS_TABLE_H

#include "tools/godwit/metrics/curve.h"
#include "tools/godwit/text/key_values.h"

#include <stdint.h>

enum { GW_TABLE_COLUMNS = 64 }; /* at most */

typedef struct gw_metrics_table {
    uint32_t columns;
    char name[GW_TABLE_COLUMNS][GW_KEY_VALUES_KEY];
    uint64_t rows;
    double first_x;                   /* the first number of the column of all x; NAN: there is none */
    gw_curve curve[GW_TABLE_COLUMNS]; /* each column's over that of all x: of rows with numbers in both */
} gw_metrics_table;

/* Reads CSV with a header, or JSON lines, by the file's name. A last line that is not whole does not count: a
 * run may be writing it. `x`: the column of all x; `positive`: numbers that are not above 0 are left out of
 * the curves. Fails with GW_E_NOTFOUND, GW_E_IO, GW_E_NOMEM, or GW_E_INVALID naming the line. */
bool gw_metrics_table_read(const char *path, const char *x, bool positive, gw_metrics_table *table,
                           gw_err *err);
void gw_metrics_table_free(gw_metrics_table *table);

/* The column of that name, or UINT32_MAX. */
uint32_t gw_metrics_table_column(const gw_metrics_table *table, const char *name);

#endif
