/* A file of bytes, read in place. Any thread. */
#ifndef GODWIT_KERNELS_MAP_FILE_H
#define GODWIT_KERNELS_MAP_FILE_H

#include "core/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Maps the whole of a plain file, read only; munmap and close end it. On failure nothing is left open, and
 * *fd is -1. Missing: GW_E_NOTFOUND. Empty, or something else than a plain file: GW_E_INVALID. The text names
 * `path`. */
bool gw_map_file(const char *path, int *fd, const uint8_t **map, uint64_t *bytes, gw_err *err);

#endif
