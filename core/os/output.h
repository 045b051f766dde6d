/* A file that the user named as output: a picture, a model, a table. It appears when it is complete and
 * replaces an older file of this name. Symbolic links are followed; a path that exists and is not a
 * regular file (a device, a FIFO, a folder) is refused and left unchanged. A lock (flock) admits one
 * writer at a time, among all threads and processes. Any thread; a gw_output belongs to its caller. */
#ifndef GODWIT_CORE_OS_OUTPUT_H
#define GODWIT_CORE_OS_OUTPUT_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct gw_output {
    int fd;        /* open for writing and reading */
    char *target;  /* name of the file behind all symbolic links */
    char *partial; /* name until the file is complete: `target` + ".godwit-partial", which is nobody else's */
} gw_output;

/* Opens an output. Fails with GW_E_INVALID if `path` exists and is not a regular file, GW_E_DENIED while
 * another writer has it, GW_E_NOTFOUND if its folder is missing, GW_E_IO if it cannot be written; then
 * gw_output_end must not be called. */
bool gw_output_open(const char *path, gw_output *output, gw_err *err);

/* Checks that writing to `path` loses no file of somebody else: nothing is there, or an empty file, or a regular file
 * that has `mark` among its first GW_OUTPUT_HEAD bytes, as all files of this command have. Otherwise fails with
 * GW_E_DENIED, or with GW_E_IO where it cannot be read; what is no regular file is left to gw_output_open. It is called
 * before that, unless the user said that the file may be replaced (--force, which the message names). */
enum { GW_OUTPUT_HEAD = 1024 };
bool gw_output_is_own(const char *path, const void *mark, size_t length, gw_err *err);

/* Writes all the bytes at the position of the file, or fails with GW_E_IO. */
bool gw_output_write(const gw_output *output, const void *bytes, size_t count, gw_err *err);

/* Flushes to the disk what was written, so that little can fail in gw_output_end. Blocks. Fails with
 * GW_E_IO. */
bool gw_output_flush(const gw_output *output, gw_err *err);

/* Makes the file appear at `path`, which is in the same folder, instead. Fails as gw_output_open does;
 * then nothing has changed. */
bool gw_output_move(gw_output *output, const char *path, gw_err *err);

/* Ends an output that was opened, once. If `good`, flushes the file and gives it its name. Otherwise
 * removes it, leaves the older file unchanged and returns false with *err as it was. */
bool gw_output_end(gw_output *output, bool good, gw_err *err);

/* Has SIGINT, SIGTERM and SIGHUP, unless they are ignored, remove the outputs of this process that are not
 * complete before they end it. For programs that do nothing else with these signals. */
void gw_output_clean_on_signals(void);

/* Opens an existing file to change it in place, or creates it, and locks it (flock). The descriptor reads
 * and writes; while it or a duplicate is open, no other caller gets one. `flags` are added to those of
 * open(2). Returns -1, with *err as gw_output_open sets it, on failure. */
int gw_output_lock(const char *path, int flags, gw_err *err);

#endif
