/* Files that are there whole or not at all, whatever happens on the way: write to a temporary name, flush,
 * rename, flush the folder. Paths are bounded by GW_PATH_BYTES. Thread: any. */
#ifndef GODWIT_CHECKPOINT_DURABLE_H
#define GODWIT_CHECKPOINT_DURABLE_H

#include "checkpoint/io.h"
#include "core/err.h"

enum { GW_PATH_BYTES = 4096 };

/* Formats a path; GW_E_LIMIT when it does not fit. */
bool gw_durable_path(char path[GW_PATH_BYTES], gw_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Creates `path` with mode 0700 if it is not there (its parent must be) and flushes `parent`, so that it
 * stays. Fails when something else than a folder is there. */
bool gw_durable_folder(gw_io *io, const char *parent, const char *path, gw_err *err);

/* fsync of a folder: what was renamed into it before stays after a power failure. */
bool gw_durable_sync_folder(gw_io *io, const char *path, gw_err *err);

/* Creates `path` (which must not exist) and writes and flushes all the bytes; no part of it is left behind
 * when that fails. */
bool gw_durable_create(gw_io *io, const char *path, const void *bytes, size_t length, gw_err *err);

/* Writes `folder`/`name` by way of `temporary` (a path on the same file system), replacing what was there.
 * On return it is on disk, or nothing changed but perhaps the name's old contents are already replaced and
 * only the folder's flush failed. */
bool gw_durable_replace(gw_io *io, const char *temporary, const char *folder, const char *name,
                        const void *bytes, size_t length, gw_err *err);

/* Reads a whole file of at most `limit` bytes into memory that the caller frees. GW_E_NOTFOUND, GW_E_LIMIT,
 * GW_E_IO. */
bool gw_durable_read(gw_io *io, const char *path, size_t limit, void **bytes, size_t *length, gw_err *err);

#endif
