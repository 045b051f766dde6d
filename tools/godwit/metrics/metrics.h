/* `godwit run --metrics FILE`: a row for each committed step. A thread of its own writes them, so that no
 * disk holds up the peer. A row that cannot be written causes a warning, and is missing.
 *
 * Thread: one at a time. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_METRICS_H
#define GODWIT_TOOLS_GODWIT_METRICS_METRICS_H

#include "tools/godwit/metrics/file.h"

typedef struct gw_metrics gw_metrics;

/* Opens the file as gw_metrics_file_hold does, and starts the thread. Returns NULL on failure. */
gw_metrics *gw_metrics_open(const char *path, gw_err *err);
/* Calls gw_metrics_file_begin, before the first row. */
bool gw_metrics_begin(gw_metrics *metrics, const char *job, uint64_t first_step, bool fresh, gw_err *err);
/* The step of the last row that the file had then; 0: it had none. */
uint64_t gw_metrics_last(const gw_metrics *metrics);
/* Writes the rows that wait, and ends the thread. NULL is allowed. */
void gw_metrics_close(gw_metrics *metrics);

/* Copies the row and queues it. NULL is allowed: the run has no metrics file. */
void gw_metrics_add(gw_metrics *metrics, const gw_metrics_row *row);

#endif
