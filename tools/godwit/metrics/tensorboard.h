/* The event files of `godwit run --tensorboard DIR`, which TensorBoard shows: every number that the job
 * reports, as scalars of its steps, and what the job is, as a text. DIR is a run of TensorBoard's.
 *
 * Scalars are called train/KEY and eval/KEY for the keys of reports, and perf/... for what Godwit measures.
 * Their step is the number of steps done.
 *
 * Readers get each step once. An event of the kind SessionLog START with step N takes back all that the run
 * had from step N on, in this and in earlier files. It is written before the first step of each life of a
 * process, and where a state of an earlier step was loaded. A job that goes on from the state of another one
 * (--continue) takes back what that one, or a branch of it, has behind this state: together the steps are the
 * way to the job's state. Files are read in the order of their names, so that a new one gets a later name than
 * all that are there, whatever the clocks say; the names end with the job's id. A file of more than FILE_BYTES
 * (tensorboard.c) is followed by another one, and so is one that ends with a torn record.
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
    const char *job;           /* 8 hexadecimal digits */
    const char *peer;          /* of this peer's id, for the names of files */
    const char *configuration; /* lines "name=value", for people */
    uint64_t first_step;       /* the job goes on from another one after so many steps; 0: it does not */
    bool fresh;                /* the job begins anew: the first step takes back all that the run had */
} gw_tensorboard_run;

/* Finds what earlier lives have written. The texts are copied. Fails where the folder has the events of
 * another job from whose state this one does not go on (GW_E_INVALID), unless it is `fresh`. */
bool gw_tensorboard_begin(gw_tensorboard *board, const gw_tensorboard_run *run, gw_err *err);

/* The last step that the run had then of those that lead to this job's state; 0: none. */
uint64_t gw_tensorboard_last(const gw_tensorboard *board);

/* Adds a row. A row of a step that is not later than the last one takes this and later steps back. After a
 * failure the row is missing, and the next one may be tried. */
bool gw_tensorboard_add(gw_tensorboard *board, const gw_metrics_row *row, gw_err *err);

/* Writes the rows that are kept in memory, if the lock is free now. NULL is allowed. */
void gw_tensorboard_close(gw_tensorboard *board);

#endif
