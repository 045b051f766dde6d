/* The list of the files that travel with a job: names, sizes, and the chunks of which their contents consist. The list is
 * named by the BLAKE2b-256 of its bytes, which the job's specification holds (spec.h), and is itself kept as one chunk.
 * A file is cut into chunks as a state is (core/state/chunk.h); an empty one has none.
 *
 * Bytes (core/base/wire.h): "GJF" version u8 | files by rising path, each: path string | executable u8, 0 or 1 |
 * bytes u64 | chunks, each: name 32. There is one encoding of each list.
 *
 * Paths are relative, of components that are neither empty nor "." nor "..", and no file is a folder of another one. Thus
 * whoever unpacks a list that was read makes nothing outside of the folder where he does it, unless links lead out of it.
 *
 * Pure; any thread. */
#ifndef GODWIT_CORE_FLOCK_FILES_H
#define GODWIT_CORE_FLOCK_FILES_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/state/chunk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_JOB_FILES_MOST = 4096,      /* of a job */
    GW_JOB_FILES_BYTES = 16 << 20, /* of all of them, but for that of GW_JOB_FILES_TASKS */
    GW_JOB_FILES_TASKS_BYTES = 1 << 30,
    GW_JOB_PATH_BYTES = 512,          /* of a path */
    GW_JOB_FILES_LIST_BYTES = 3 << 20 /* no list is longer: less than a chunk */
};

/* The file with the list of a map's tasks (tools/godwit/map/task_list.h), which may be longer than others. */
#define GW_JOB_FILES_TASKS ".godwit-tasks"

typedef struct gw_job_file {
    const char *path;
    bool executable;
    uint64_t bytes;
    const gw_hash *chunks; /* gw_chunk_count(bytes) names */
} gw_job_file;

typedef struct gw_job_files {
    const gw_job_file *list; /* by rising path */
    uint32_t count;          /* at least 1 */
    uint64_t bytes;          /* of all files */
    void *memory;            /* that the pointers point into */
} gw_job_files;

/* Whether the text can be the path of a file of a job. */
bool gw_job_path_is_valid(const char *path);

/* Writes a list; the caller frees *bytes. Fails with GW_E_USAGE where a value is not allowed, and names it, and with
 * GW_E_LIMIT where there are too many files or bytes. */
bool gw_job_files_write(const gw_job_file *list, uint32_t count, uint8_t **bytes, size_t *length,
                        gw_err *err);
/* Reads a list, which the caller frees after success. Fails with GW_E_INVALID where the bytes are not the one encoding of
 * a list that gw_job_files_write would write, and with GW_E_UNSUPPORTED where they are of a later version. */
bool gw_job_files_read(const void *bytes, size_t length, gw_job_files *files, gw_err *err);
void gw_job_files_free(gw_job_files *files);

#endif
