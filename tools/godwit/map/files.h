/* Files that a task of a map leaves on another node, and that are brought back (--fetch). They lie one behind the other in
 * an output (store.h), each as: path string | executable u8, 0 or 1 | bytes u64 | bytes (core/base/wire.h). Paths are those
 * of a job's files (core/flock/files.h): relative, and leading nowhere else. One thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_FILES_H
#define GODWIT_TOOLS_GODWIT_MAP_FILES_H

#include "tools/godwit/map/store.h"

/* Adds a file of the folder `root` to `files`. Fails with GW_E_USAGE where it may not be brought back, by its path or as it
 * is no regular file; with GW_E_NOTFOUND where there is none, and with GW_E_IO. What was added before stays whole. */
bool gw_map_files_take(gw_map_store *store, int root, const char *path, gw_map_output *files, gw_err *err);

/* Makes the files in the folder `root`, in the place of older ones. No symbolic link is followed. Fails with GW_E_INVALID
 * where the bytes are no files, and with GW_E_IO. */
bool gw_map_files_put(gw_map_store *store, int root, const gw_map_output *files, gw_err *err);

#endif
