/* The content of a file of `godwit run --metrics` (file.h) as curves, in bounded memory however long the
 * run was. */
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
    double first_x;                   /* the first number in the column of x; NAN = there is none */
    gw_curve curve[GW_TABLE_COLUMNS]; /* the curve of each column over x, of rows that have numbers in both */
} gw_metrics_table;

/* What the curves show. */
typedef struct gw_metrics_range {
    const char *x; /* the column of the horizontal axis */
    bool positive; /* numbers that are not above 0 are left out */
    bool limited;  /* only rows with steps from `first` to `last`, both included, in the column "step" */
    double first, last;
} gw_metrics_range;

/* Reads CSV with a header, or JSON lines, depending on the file's name. An incomplete last line is
 * ignored, because a run may be writing it. Fails with GW_E_NOTFOUND, GW_E_IO, GW_E_NOMEM,
 * or GW_E_INVALID with the number of the line. */
bool gw_metrics_table_read(const char *path, const gw_metrics_range *range, gw_metrics_table *table,
                           gw_err *err);
void gw_metrics_table_free(gw_metrics_table *table);

/* Returns the column of that name, or UINT32_MAX. */
uint32_t gw_metrics_table_column(const gw_metrics_table *table, const char *name);

#endif
