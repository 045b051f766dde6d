/* Plain files that are read for as long as a job runs. Any thread. */
#ifndef GODWIT_KERNELS_HOST_PLAIN_FILE_H
#define GODWIT_KERNELS_HOST_PLAIN_FILE_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct gw_plain_file {
    const char *path; /* the caller's, for messages; as long as the file is open */
    int fd;
    uint64_t bytes;          /* when it was opened, */
    struct timespec written; /* and when it had last been written to */
} gw_plain_file;

/* Opens for reading. On failure nothing is left open, and fd is -1. Missing: GW_E_NOTFOUND. Empty, or
 * something else than a plain file: GW_E_INVALID. The text names `path`. */
bool gw_plain_open(const char *path, gw_plain_file *file, gw_err *err);
/* Does nothing where fd is -1. */
void gw_plain_close(gw_plain_file *file);

/* Maps all of it, read only; munmap ends it. Who reads the mapping when the file has shrunk is killed by
 * SIGBUS: for what others do not write to. */
bool gw_plain_map(const gw_plain_file *file, const uint8_t **map, gw_err *err);

/* Reads bytes at, at + 1 ... at + count - 1. Blocks on the disk. Where the file ends before: GW_E_CORRUPT. */
bool gw_plain_read(const gw_plain_file *file, uint64_t at, void *bytes, size_t count, gw_err *err);

/* Whether nobody has written to it since it was opened, as far as its size and time of modification tell:
 * else GW_E_CORRUPT. What was read before the call is then as it was. */
bool gw_plain_unchanged(const gw_plain_file *file, gw_err *err);

#endif
