/* Small text files that hold secrets or must survive a crash: the key file, the identity, the boot count. All
 * functions fail with GW_E_USAGE if the path is too long. `io`: by which calls the path is opened
 * (core/os/directory.h). Any thread. */
#ifndef GODWIT_CORE_OS_PRIVATE_FILE_H
#define GODWIT_CORE_OS_PRIVATE_FILE_H

#include "core/base/err.h"
#include "core/os/io.h"

#include <stdbool.h>
#include <stddef.h>

/* Who made the file, and is therefore responsible for its mode. */
typedef enum gw_private_kind {
    /* A file that this program made. Where others have got access meanwhile (Kubernetes' fsGroup changes
     * modes at every start), its mode becomes 0600 again. A file system that keeps no modes is logged once a
     * process, as a warning. */
    GW_PRIVATE_OWN,
    /* A file that the user wrote, which may lie on a read-only volume. A group may have access to it if this
     * process belongs to that group and the file belongs to root or to this user; nobody else may. */
    GW_PRIVATE_GIVEN,
} gw_private_kind;

/* Reads a whole file of fewer than `capacity` bytes into `text` and terminates it. Fails with GW_E_NOTFOUND
 * if it does not exist, GW_E_DENIED if somebody has access who should not or this process has none to a given
 * file, GW_E_INVALID if it is not a regular file, is too long or contains a NUL byte, and GW_E_IO. */
bool gw_private_file_read(gw_io *io, const char *path, gw_private_kind kind, char *text, size_t capacity,
                          gw_err *err);

/* Writes a new file of mode 0600, durable on return. Fails with GW_E_DENIED if `path` exists, which is then
 * unchanged. */
bool gw_private_file_create(const char *path, const char *text, gw_err *err);

/* Replaces the file at `path` (mode 0600) by `text`. After a crash the file holds the old or the new text;
 * after this call returns, the new text is durable. Uses the name `path` + ".new" on the way. */
bool gw_private_file_replace(gw_io *io, const char *path, const char *text, gw_err *err);

#endif
