/* Files that are there whole or not at all, whatever happens on the way: write to a temporary name, flush,
 * rename, flush the folder. Paths are bounded by GW_PATH_BYTES. Errors name the path and the call that
 * failed. Thread: any. */
#ifndef GODWIT_CHECKPOINT_DURABLE_H
#define GODWIT_CHECKPOINT_DURABLE_H

#include "checkpoint/io.h"
#include "core/base/err.h"

enum { GW_PATH_BYTES = 4096, GW_DURABLE_ALIGN = 4096 };

/* Formats a path; GW_E_LIMIT when it does not fit. */
bool gw_durable_path(char path[GW_PATH_BYTES], gw_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Creates folder `path` with mode 0700 if it is not there (its parent must be). `created` may be NULL. The
 * parent still needs its flush. GW_E_IO, also when something other than a folder is there. */
bool gw_durable_folder(gw_io *io, const char *path, bool *created, gw_err *err);

/* fsync of a folder: what was created in or renamed into it before stays after a power failure. */
bool gw_durable_sync_folder(gw_io *io, const char *path, gw_err *err);

/* gw_durable_folder and the flush of its parent, which is none of ours: where the folder was there already, a
 * parent that cannot be read does not matter. */
bool gw_durable_root(gw_io *io, const char *path, gw_err *err);

/* Creates or truncates `path` and writes all the bytes, not yet flushed; *fd is for gw_durable_finish. On
 * failure the file is removed. Bytes aligned to GW_DURABLE_ALIGN, and as many times that, go past the page
 * cache where the file system allows it (O_DIRECT): that halves the CPU time of writing them, and nobody
 * reads a checkpoint soon. */
bool gw_durable_begin(gw_io *io, const char *path, const void *bytes, size_t length, int *fd, gw_err *err);

/* Flushes and closes what gw_durable_begin opened. On failure the file is removed: after a failed flush
 * nobody knows what the disk holds. */
bool gw_durable_finish(gw_io *io, const char *path, int fd, gw_err *err);

/* Replaces `path` in `folder` by way of `temporary`, a path on the same file system. On success it is on
 * disk. On failure `path` is whole all the same: what it was before or, when only the folder's flush failed,
 * new. */
bool gw_durable_replace(gw_io *io, const char *temporary, const char *folder, const char *path,
                        const void *bytes, size_t length, gw_err *err);

/* Reads a whole regular file of at most `limit` bytes into memory that the caller frees (never NULL on
 * success). GW_E_NOTFOUND, GW_E_LIMIT, GW_E_INVALID (no regular file), GW_E_IO. */
bool gw_durable_read(gw_io *io, const char *path, size_t limit, void **bytes, size_t *length, gw_err *err);

/* Calls `each` for every name in a folder, but for those that begin with a dot, until one call fails. A
 * folder that is not there is empty. GW_E_IO where not all names could be had: whoever goes by what is
 * missing must not take that for the end. */
typedef bool gw_durable_name_fn(void *context, const char *folder, const char *name, gw_err *err);
bool gw_durable_list(const char *folder, gw_durable_name_fn *each, void *context, gw_err *err);

/* Reads from an open file until `count` bytes or its end; *got says how many. */
bool gw_durable_read_fd(gw_io *io, int fd, const char *path, void *bytes, size_t count, size_t *got,
                        gw_err *err);

#endif
