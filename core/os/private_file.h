/* Small text files that hold secrets or must survive a crash: the key file, the identity, the boot count. All
 * functions fail with GW_E_USAGE if the path is too long. Any thread. */
#ifndef GODWIT_CORE_OS_PRIVATE_FILE_H
#define GODWIT_CORE_OS_PRIVATE_FILE_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads a whole file of fewer than `capacity` bytes into `text` and terminates it. Fails with
 * GW_E_NOTFOUND if it does not exist, GW_E_DENIED if group or others have access, GW_E_INVALID if it is
 * not a regular file, is too long or contains a NUL byte, and GW_E_IO. */
bool gw_private_file_read(const char *path, char *text, size_t capacity, gw_err *err);

/* Writes a new file of mode 0600, durable on return. Fails with GW_E_DENIED if `path` exists, which is then
 * unchanged. */
bool gw_private_file_create(const char *path, const char *text, gw_err *err);

/* Replaces the file at `path` (mode 0600) by `text`. After a crash the file holds the old or the new text;
 * after this call returns, the new text is durable. Uses the name `path` + ".new" on the way. */
bool gw_private_file_replace(const char *path, const char *text, gw_err *err);

#endif
