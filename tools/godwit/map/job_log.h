/* The job log of a map: a line for each attempt that counts, with the columns of GNU parallel's. A log is read again to go
 * on where a map has ended (--resume, --resume-failed), or to run what has failed once more (--retry-failed). Its lines:
 *
 *   Seq Host Starttime JobRuntime Send Receive Exitval Signal Command
 *
 * with tabs between. A line feed in a command is written as a zero byte. The last line of a task is what counts; a line
 * that is not whole, as after a full disk, is passed over. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_JOB_LOG_H
#define GODWIT_TOOLS_GODWIT_MAP_JOB_LOG_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct gw_map_log_line {
    uint64_t task; /* from 1 on */
    uint64_t begun_wall_ns, wall_us, bytes;
    int exit_code; /* -1: it took too long */
    int signal;
    const char *host; /* the name of the node that ran it; NULL: this machine */
    const char *command;
} gw_map_log_line;

typedef struct gw_map_log {
    FILE *file;
    const char *path;
} gw_map_log;

/* Opens a log to add lines to it, or with `fresh` to begin anew; "-" is standard output. Fails with GW_E_USAGE and
 * GW_E_IO. */
bool gw_map_log_open(gw_map_log *log, const char *path, bool fresh, gw_err *err);
/* Writes a line, which has reached the system when this returns. Fails with GW_E_IO. */
bool gw_map_log_write(gw_map_log *log, const gw_map_log_line *line, gw_err *err);
bool gw_map_log_close(gw_map_log *log, gw_err *err);

/* The tasks of a log: what became of each. */
typedef struct gw_map_log_tasks {
    uint8_t *state;  /* of each task from 1 on: GW_MAP_LOG_... */
    char **commands; /* of those that failed; NULL unless they were asked for */
    uint64_t count;  /* 1 + the highest task */
} gw_map_log_tasks;

enum { GW_MAP_LOG_NOTHING, GW_MAP_LOG_DONE, GW_MAP_LOG_FAILED, GW_MAP_LOG_TASKS_MOST = 1 << 30 };

/* Reads a log; a file that is not there has no tasks. Fails with GW_E_INVALID where it is no job log, with GW_E_IO and
 * GW_E_NOMEM. */
bool gw_map_log_read(const char *path, bool commands, gw_map_log_tasks *tasks, gw_err *err);
void gw_map_log_tasks_free(gw_map_log_tasks *tasks);

#endif
