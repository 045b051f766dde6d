/* Regular files that are read for as long as a job runs. Any thread. */
#ifndef GODWIT_CORE_OS_PLAIN_FILE_H
#define GODWIT_CORE_OS_PLAIN_FILE_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct gw_plain_file {
    const char *path; /* for messages; belongs to the caller, who keeps it while the file is open */
    int fd;
    uint64_t bytes;          /* size when it was opened */
    struct timespec written; /* time of modification when it was opened */
} gw_plain_file;

/* Opens a file for reading. On failure nothing is left open, and fd is -1. Fails with GW_E_NOTFOUND if the
 * file does not exist, GW_E_INVALID if it is empty or not a regular file, or GW_E_IO. The text names
 * `path`. */
bool gw_plain_open(const char *path, gw_plain_file *file, gw_err *err);
/* Closes the file. Does nothing if fd is -1. */
void gw_plain_close(gw_plain_file *file);

/* Maps the whole file, read only; munmap ends the mapping. If the file shrinks, reading the mapping past
 * its end kills the process (SIGBUS): only files that nobody writes to are to be mapped. */
bool gw_plain_map(const gw_plain_file *file, const uint8_t **map, gw_err *err);

/* Reads bytes at, at + 1 ... at + count - 1. Blocks on the disk. Fails with GW_E_CORRUPT if the file ends
 * before that. */
bool gw_plain_read(const gw_plain_file *file, uint64_t at, void *bytes, size_t count, gw_err *err);

/* Fails with GW_E_CORRUPT if somebody has written to the file since it was opened, as far as its size and
 * its time of modification tell. On success what was read before this call is what the file held when it
 * was opened. */
bool gw_plain_unchanged(const gw_plain_file *file, gw_err *err);

#endif
