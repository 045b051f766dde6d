/* `godwit run --metrics FILE`: a row for each committed step, written by a thread of its own: no disk holds
 * up the peer. What cannot be written is a warning, and rows that are missing.
 *
 * Thread: one at a time. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_METRICS_H
#define GODWIT_TOOLS_GODWIT_METRICS_METRICS_H

#include "tools/godwit/metrics/file.h"

typedef struct gw_metrics gw_metrics;

/* As gw_metrics_file_hold; NULL on failure. */
gw_metrics *gw_metrics_open(const char *path, gw_err *err);
/* As gw_metrics_file_begin, before the first row. */
bool gw_metrics_begin(gw_metrics *metrics, const char *job, bool fresh, gw_err *err);
/* Writes what waits. NULL is allowed. */
void gw_metrics_close(gw_metrics *metrics);

/* Takes a copy of the row. NULL is allowed: nobody wants any. */
void gw_metrics_add(gw_metrics *metrics, const gw_metrics_row *row);

#endif
