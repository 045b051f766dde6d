/* Files beneath an open folder, by relative paths of components that are neither empty nor "." nor ".."
 * (gw_job_path_is_valid). Each component is opened by itself and no symbolic link is followed, so that nothing outside of the
 * folder is read, made or removed, whatever is in it. Any thread; waits for the disk. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_BENEATH_H
#define GODWIT_TOOLS_GODWIT_FLOCK_BENEATH_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Opens a file or a folder for reading; "" is the folder itself. *status becomes its own. Returns a descriptor, which the
 * caller closes, or -1: GW_E_USAGE where it does not exist, is a link or leads through one, or is neither a file nor a
 * folder. */
int gw_beneath_open(int root, const char *path, struct stat *status, gw_err *err);

/* Makes a file for writing, in place of one that is there, and the folders above it, with modes 0600 (0700 where it is
 * executable) and 0700. Returns a descriptor, which the caller closes, or -1: GW_E_INVALID where something that is no file
 * has its name, or something that is no folder that of one. */
int gw_beneath_make(int root, const char *path, bool executable, gw_err *err);

/* Calls `each` for every regular file, in the order of the file system, until it returns false. Links and what else is no
 * file are passed over. `path` lives during the call. Returns false where `each` has, or a folder cannot be read. */
typedef bool gw_beneath_file(void *context, const char *path, const struct stat *status);
bool gw_beneath_list(int root, gw_beneath_file *each, void *context, gw_err *err);

/* Removes a folder, by its name in the open folder `above`, and everything in it. A missing one is no failure. */
bool gw_beneath_remove(int above, const char *name, gw_err *err);

#endif
