/* The small files of an export, which appear beside the weights: all of them or none. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_EXPORT_FILES_H
#define GODWIT_TOOLS_GODWIT_COMMAND_EXPORT_FILES_H

#include "core/base/id.h"
#include "core/os/output.h"

#include <stdint.h>

enum { GW_EXPORT_FILES = 12 };

typedef struct gw_export_file {
    char *path;
    char *bytes;
    size_t length;
    gw_output output;
} gw_export_file;

typedef struct gw_export_files {
    gw_export_file list[GW_EXPORT_FILES];
    uint32_t count;
    uint32_t open; /* the first so many are open for writing */
} gw_export_files;

/* Adds a file of this name in the folder of the file `weights`, with bytes from malloc that become the
 * list's, also on failure. Fails with GW_E_NOMEM. */
bool gw_export_files_add(gw_export_files *files, const char *weights, const char *name, char *bytes,
                         size_t length, gw_err *err);

/* Checks that none of the files would replace one that `godwit export` has not written: there is no such
 * file, it has the same bytes, or it is a config.json of this program. Fails with GW_E_DENIED, with
 * GW_E_INVALID where there is something else than a regular file, or with GW_E_USAGE where a file would be
 * `weights` itself. */
bool gw_export_files_check(const gw_export_files *files, const char *weights, gw_err *err);

/* Writes all files under temporary names, and flushes them. On failure gw_export_files_end is still
 * called. */
bool gw_export_files_write(gw_export_files *files, gw_err *err);

/* If `good`, gives all files their names; otherwise removes what was written of them, and returns false
 * with *err as it was. Frees the list. */
bool gw_export_files_end(gw_export_files *files, bool good, gw_err *err);

/* Reads from what job the weights in a file are: as the file's own notes tell or, if it has none, the
 * config.json beside it; that one alone with `config`. Returns false if there is no such file, or it does
 * not tell. Blocks. */
bool gw_export_files_job(const char *weights, bool config, char id[GW_HASH_TEXT]);

#endif
