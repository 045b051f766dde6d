/* Files that are whole or absent, whatever happens: they are written under a temporary name, flushed,
 * renamed, and the folder is flushed. Every system call that changes the disk goes through a gw_io
 * (core/os/io.h). Paths are bounded by GW_PATH_BYTES. Errors name the path and what could not be done with
 * it. Any thread. */
#ifndef GODWIT_CORE_OS_DURABLE_H
#define GODWIT_CORE_OS_DURABLE_H

#include "core/base/err.h"
#include "core/os/io.h"

#include <sys/stat.h>

enum { GW_PATH_BYTES = 4096, GW_DURABLE_ALIGN = 4096 };

/* Formats a path. Fails with GW_E_LIMIT if it does not fit. */
bool gw_durable_path(char path[GW_PATH_BYTES], gw_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As stat, by the table: -1 and errno on failure. */
int gw_durable_stat(gw_io *io, const char *path, struct stat *status);

/* Creates folder `path` with mode 0700 unless it exists; its parent must exist, and the parent is not
 * flushed. `created` may be NULL. Fails with GW_E_NOTFOUND if the folder above is missing or something
 * other than a folder has this name, and otherwise with GW_E_IO. */
bool gw_durable_folder(gw_io *io, const char *path, bool *created, gw_err *err);

/* Flushes a folder: names that were created in it or renamed into it before this call survive a power
 * failure. */
bool gw_durable_sync_folder(gw_io *io, const char *path, gw_err *err);

/* The folder that holds `path`, by its name: "." if the path has no slash. */
bool gw_durable_folder_of(const char *path, char folder[GW_PATH_BYTES], gw_err *err);

/* Creates folder `path` and flushes its parent. The parent belongs to the user: if the folder exists
 * already, a parent that cannot be opened is no failure. */
bool gw_durable_root(gw_io *io, const char *path, gw_err *err);

/* Creates or truncates `path` (mode 0600) and writes all the bytes, not yet flushed; *fd is for
 * gw_durable_finish. On failure the file is removed. If the address and the length are multiples of
 * GW_DURABLE_ALIGN and the file system allows it, the bytes bypass the page cache (O_DIRECT): this halves
 * the CPU time of writing, and a checkpoint is not read soon after. */
bool gw_durable_begin(gw_io *io, const char *path, const void *bytes, size_t length, int *fd, gw_err *err);

/* Flushes and closes a file that gw_durable_begin opened. On failure the file is removed, since the
 * contents of the disk are unknown after a failed flush. */
bool gw_durable_finish(gw_io *io, const char *path, int fd, gw_err *err);

/* Writes a new file of mode 0600, durable on return. Fails with GW_E_DENIED if `path` exists, which is then
 * unchanged. */
bool gw_durable_create(gw_io *io, const char *path, const void *bytes, size_t length, gw_err *err);

/* Replaces `path` in `folder` by way of `temporary`, a path on the same file system. On success the new
 * file is durable. On failure `path` is still whole: the old file or, if only the flush of the folder
 * failed, the new one. */
bool gw_durable_replace(gw_io *io, const char *temporary, const char *folder, const char *path,
                        const void *bytes, size_t length, gw_err *err);

/* Reads a whole regular file of at most `limit` bytes into memory that the caller frees (never NULL on
 * success). Fails with GW_E_NOTFOUND, GW_E_LIMIT, GW_E_INVALID (not a regular file) or GW_E_IO. */
bool gw_durable_read(gw_io *io, const char *path, size_t limit, void **bytes, size_t *length, gw_err *err);

/* Calls `each` for every name in a folder, except names that begin with a dot, until one call fails. A
 * missing folder counts as empty. Fails with GW_E_IO if not all names could be read: a caller that draws
 * conclusions from a missing name must not take that for the end of the folder. */
typedef bool gw_durable_name_fn(void *context, const char *folder, const char *name, gw_err *err);
bool gw_durable_list(gw_io *io, const char *folder, gw_durable_name_fn *each, void *context, gw_err *err);

/* Reads from an open file until it has `count` bytes or reaches the end; *got becomes the number read.
 * `path` is for the error's text. */
bool gw_durable_read_fd(gw_io *io, int fd, const char *path, void *bytes, size_t count, size_t *got,
                        gw_err *err);

/* Writes all the bytes to an open file, at its position. `path` is for the error's text. */
bool gw_durable_write_fd(gw_io *io, int fd, const char *path, const void *bytes, size_t count, gw_err *err);

#endif
