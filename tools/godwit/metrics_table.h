/* What is in a file of `godwit run --metrics` (metrics_file.h), all of it, as numbers. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_TABLE_H
#define GODWIT_TOOLS_GODWIT_METRICS_TABLE_H

#include "core/err.h"
#include "tools/godwit/report.h"

#include <stdint.h>

enum { GW_TABLE_COLUMNS = 64 }; /* at most */

typedef struct gw_metrics_table {
    uint32_t columns;
    char name[GW_TABLE_COLUMNS][GW_REPORT_KEY];
    uint64_t rows;
    double *cells; /* rows x GW_TABLE_COLUMNS; NAN: there is none, or it is no number */
} gw_metrics_table;

/* Reads CSV with a header, or JSON lines, by the file's name. A last line that is not whole does not count: a
 * run may be writing it. Fails with GW_E_NOTFOUND, GW_E_IO, or GW_E_INVALID naming the line. */
bool gw_metrics_table_read(const char *path, gw_metrics_table *table, gw_err *err);
void gw_metrics_table_free(gw_metrics_table *table);

/* The column of that name, or UINT32_MAX. */
uint32_t gw_metrics_table_column(const gw_metrics_table *table, const char *name);

#endif
