/* The file of `godwit run --metrics`: one row for each step, as CSV or as JSON lines, depending on its name.
 * Steps rise from row to row, and no step has two rows.
 *
 * A row has step, job, phase, time, ms, members and shards, and then what the job reports of the step
 * ("loss=0.31 lr=0.0006"). CSV has a column for each key that was ever reported: with a new key the file is
 * written again, with one more column, and the job's id has a j before it, so that no reader takes it for a
 * number. While the file is open, a lock keeps other processes out (flock).
 *
 * Log rotation may move the file away, remove it, or copy and empty it. The next row then begins another file
 * of that name, or the emptied one.
 *
 * Thread: a file belongs to its caller. Every function may wait for the disk. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_FILE_H
#define GODWIT_TOOLS_GODWIT_METRICS_FILE_H

#include "core/base/err.h"
#include "tools/godwit/text/key_values.h"

#include <stdint.h>

typedef enum gw_metrics_format { GW_METRICS_CSV = 1, GW_METRICS_JSON } gw_metrics_format;

enum { GW_METRICS_COLUMNS = 32 }; /* at most; further keys of reports are left out */

typedef struct gw_metrics_row {
    uint64_t step;     /* steps done, including this one; at least 1 */
    const char *phase; /* "train", "evaluate" */
    double time;       /* seconds since 1970 */
    double ms;         /* duration of the step */
    uint32_t members, shards;
    double tokens_per_s; /* of the flock, lately; 0 = not known */
    const char *report;  /* the job's "key=value key=value"; may be empty */
} gw_metrics_row;

typedef struct gw_metrics_file {
    gw_metrics_format format;
    char *path;
    char job[9];         /* the first digits of the job's id; empty before gw_metrics_file_begin */
    uint64_t first_step; /* steps done in the state from which the job goes on; 0: it goes on from none */
    /* The job of rows that the next row cuts off, after a copy of the file is made; empty: there are none. */
    char cut_job[9];
    int fd;
    bool made;          /* by gw_metrics_file_hold */
    bool torn;          /* there may be bytes behind the last whole row */
    uint64_t end, last; /* bytes of the whole rows; step of the last row, 0 = there is none */
    uint32_t columns;   /* CSV: columns of the header; 0 = there is no header yet */
    char column[GW_METRICS_COLUMNS][GW_KEY_VALUES_KEY];
} gw_metrics_file;

/* Finds the format from the end of the path: .csv or .jsonl. Fails with GW_E_USAGE. */
bool gw_metrics_format_of(const char *path, gw_metrics_format *format, gw_err *err);

/* Opens or creates the file, before the job of its rows is known. Fails when it contains something else
 * (GW_E_INVALID), or another process has it open (GW_E_DENIED). */
bool gw_metrics_file_hold(const char *path, gw_metrics_file *file, gw_err *err);
/* Prepares the file for rows of this job (8 hexadecimal digits). Rows of an earlier life of the job stay,
 * except for an incomplete last line; with `fresh` no row stays. If the job goes on from the state of
 * another one after `first_step` steps, rows up to that step stay, whatever their job: together they are
 * the whole way to the job's state. What does not stay is cut off when the first row is added; of a file
 * with further rows of another job, such as one that has gone on from a state of this one, a copy is kept
 * then (a.csv: a.JOB.csv). Fails when another job has begun the file and first_step is 0 (GW_E_INVALID). */
bool gw_metrics_file_begin(gw_metrics_file *file, const char *job, uint64_t first_step, bool fresh,
                           gw_err *err);
/* Calls gw_metrics_file_hold and gw_metrics_file_begin. On failure there is nothing to close. */
bool gw_metrics_file_open(const char *path, const char *job, uint64_t first_step, bool fresh,
                          gw_metrics_file *file, gw_err *err);
/* Closes the file, and removes it if gw_metrics_file_hold made it and it has stayed empty. */
void gw_metrics_file_close(gw_metrics_file *file);

/* Adds a row. It replaces rows of this and later steps, which an earlier life wrote before it ended
 * without a checkpoint of them. After a failure the file still has whole rows, and the next row may be
 * tried. */
bool gw_metrics_file_add(gw_metrics_file *file, const gw_metrics_row *row, gw_err *err);

#endif
