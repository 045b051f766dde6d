/* `godwit run --metrics FILE` and `--tensorboard DIR`: a row for each committed step. A thread of its own
 * writes them, so that no disk holds up the peer. A row that cannot be written causes a warning, and is
 * missing.
 *
 * The file gets every step. The event files for TensorBoard get every evaluation and training step of a slow
 * job; of a fast one they get the first ones, then a few a second, and the last one: TensorBoard shows a
 * thousand points of a curve.
 *
 * Thread: one at a time. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_METRICS_H
#define GODWIT_TOOLS_GODWIT_METRICS_METRICS_H

#include "tools/godwit/metrics/file.h"
#include "tools/godwit/metrics/tensorboard.h"

typedef struct gw_metrics gw_metrics;

/* Opens the file as gw_metrics_file_hold does and the folder as gw_tensorboard_open does, and starts the
 * thread. Either path may be NULL. Returns NULL on failure. */
gw_metrics *gw_metrics_open(const char *file, const char *tensorboard, gw_err *err);
/* Calls gw_metrics_file_begin and gw_tensorboard_begin, before the first row. */
bool gw_metrics_begin(gw_metrics *metrics, const gw_tensorboard_run *run, gw_err *err);
/* The step of the last row that both the file and the run had then; 0: one of them had none. */
uint64_t gw_metrics_last(const gw_metrics *metrics);
/* Writes the rows that wait, for `patience_ns` at the most, and ends the thread. Returns false where the disk
 * did not answer in time: then the thread still runs, and the process must end as it is. NULL is allowed. */
bool gw_metrics_close(gw_metrics *metrics, uint64_t patience_ns);

/* Copies the row and queues it. NULL is allowed: the run has no metrics. */
void gw_metrics_add(gw_metrics *metrics, const gw_metrics_row *row);

#endif
