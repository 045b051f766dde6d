/* The file of `godwit run --metrics`: one row for each step, as CSV or as JSON lines, by its name. Steps rise
 * from row to row, and no step has two.
 *
 * A row has step, job, phase, time, ms, members and shards, and then what the job reports of the step
 * ("loss=0.31 lr=0.0006"). CSV has a column for each key that ever came: when a new one does, the file is
 * written anew with one column more. The file is this process's alone while it is open (flock).
 *
 * It may be rotated under us: moved away or removed, or copied and emptied. Then the next row begins another
 * file of that name, or this one anew.
 *
 * Thread: a file belongs to its caller. Everything here may wait for the disk. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_FILE_H
#define GODWIT_TOOLS_GODWIT_METRICS_FILE_H

#include "core/base/err.h"
#include "tools/godwit/text/key_values.h"

#include <stdint.h>

typedef enum gw_metrics_format { GW_METRICS_CSV = 1, GW_METRICS_JSON } gw_metrics_format;

enum { GW_METRICS_COLUMNS = 32 }; /* at most; what a report says beyond them is left out */

typedef struct gw_metrics_row {
    uint64_t step;     /* steps done, this one counted; at least 1 */
    const char *phase; /* "train", "evaluate" */
    double time;       /* seconds since 1970 */
    double ms;         /* that the step took */
    uint32_t members, shards;
    const char *report; /* the job's "key=value key=value"; may be empty */
} gw_metrics_row;

typedef struct gw_metrics_file {
    gw_metrics_format format;
    char *path;
    char job[9]; /* the beginning of the job's id; empty until it has begun: any */
    int fd;
    bool torn;          /* there may be bytes behind the whole rows */
    uint64_t end, last; /* bytes of whole rows; step of the last one, 0: there is none */
    uint32_t columns;   /* CSV, in the file's header; 0: it has none yet */
    char column[GW_METRICS_COLUMNS][GW_KEY_VALUES_KEY];
} gw_metrics_file;

/* By what the path ends with: .csv or .jsonl. Fails with GW_E_USAGE. */
bool gw_metrics_format_of(const char *path, gw_metrics_format *format, gw_err *err);

/* Opens or makes the file, before it is known which job its rows will be of. Fails when there is something
 * else in it (GW_E_INVALID), or another process has it open (GW_E_DENIED). */
bool gw_metrics_file_hold(const char *path, gw_metrics_file *file, gw_err *err);
/* `job`: 8 hexadecimal digits. Rows of an earlier life of the job stay, but not a last line that is not
 * whole; `fresh`: no row stays. What does not stay is there until the first row is added. Fails when there
 * are rows of another job (GW_E_INVALID). */
bool gw_metrics_file_begin(gw_metrics_file *file, const char *job, bool fresh, gw_err *err);
/* Both. On failure there is nothing to close. */
bool gw_metrics_file_open(const char *path, const char *job, bool fresh, gw_metrics_file *file, gw_err *err);
void gw_metrics_file_close(gw_metrics_file *file);

/* Adds a row in place of those of this and later steps, which are what a life wrote that ended before its
 * next checkpoint. When it fails, the file has whole rows still, and the next one may be tried. */
bool gw_metrics_file_add(gw_metrics_file *file, const gw_metrics_row *row, gw_err *err);

#endif
