/* Small files that hold secrets or must survive a crash: the key file, the identity, the boot count.
 * Thread: any. */
#ifndef GODWIT_NET_SECURE_PRIVATE_FILE_H
#define GODWIT_NET_SECURE_PRIVATE_FILE_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads a whole file of fewer than `capacity` bytes into `text` and terminates it. Missing: GW_E_NOTFOUND.
 * Not a regular file, accessible to group or others, or with a NUL byte inside: GW_E_DENIED or GW_E_INVALID.
 */
bool gw_private_file_read(const char *path, char *text, size_t capacity, gw_err *err);

/* Writes a new file of mode 0600, durable on return; fails when `path` exists, and then changes nothing. */
bool gw_private_file_create(const char *path, const char *text, gw_err *err);

/* Puts `text` in the place of the file at `path` (mode 0600): after a crash it holds the old or the new text,
 * on return durably the new. Uses `path` + ".new". */
bool gw_private_file_replace(const char *path, const char *text, gw_err *err);

#endif
