/* The event files of `godwit run --tensorboard DIR`, which TensorBoard shows: every number that the job
 * reports, as scalars of its steps, and what the job is, as a text.
 *
 * Each job has a folder of its own in DIR, JOB-ID, so that TensorBoard shows it as a run; a job that goes on
 * from the state of another one (--continue) is another run, which begins where it branched off. Scalars are
 * called train/KEY and eval/KEY for the keys of reports, and perf/... for what Godwit measures. Their step
 * is the number of steps done.
 *
 * Readers get each step once. An event of the kind SessionLog START with step N takes back all that the run
 * had from step N on, in this and in earlier files. It is written before the first step of each life of a
 * process, and where a state of an earlier step was loaded. Files are read in the order of their names, so
 * that a new one gets a later name than all that are there, whatever the clocks say. A file of more than
 * FILE_BYTES (tensorboard.c) is followed by another one, and so is one that ends with a torn record.
 *
 * One process at a time writes a run: it holds a lock (flock) in the folder. The peers of a flock may be
 * given the same DIR, on a file system that they share. The others keep their latest rows in memory, and the
 * one that gets the lock when the writer has ended goes on behind the writer's last step.
 *
 * Thread: one at a time. Every function but gw_tensorboard_last may wait for the disk. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_TENSORBOARD_H
#define GODWIT_TOOLS_GODWIT_METRICS_TENSORBOARD_H

#include "core/base/err.h"
#include "tools/godwit/metrics/file.h"

#include <stdint.h>

typedef struct gw_tensorboard gw_tensorboard;

/* Makes the folder, and those above it, unless they are there. Returns NULL on failure. */
gw_tensorboard *gw_tensorboard_open(const char *dir, gw_err *err);

typedef struct gw_tensorboard_run {
    const char *type;          /* the job's type; its last part is taken where it is a path */
    const char *job;           /* the first digits of the job's id */
    const char *peer;          /* of this peer's id, for the names of files */
    const char *configuration; /* lines "name=value", for people */
    bool fresh;                /* the job begins anew: the first step takes back all that the run had */
} gw_tensorboard_run;

/* Makes the run's folder and finds what earlier lives have written. The texts are copied. */
bool gw_tensorboard_begin(gw_tensorboard *board, const gw_tensorboard_run *run, gw_err *err);

/* The last step that the run had then, whoever wrote it; 0: none. */
uint64_t gw_tensorboard_last(const gw_tensorboard *board);

/* Adds a row. A row of a step that is not later than the last one takes this and later steps back. After a
 * failure the row is missing, and the next one may be tried. */
bool gw_tensorboard_add(gw_tensorboard *board, const gw_metrics_row *row, gw_err *err);

/* Writes the rows that are kept in memory, if the lock is free now. NULL is allowed. */
void gw_tensorboard_close(gw_tensorboard *board);

#endif
