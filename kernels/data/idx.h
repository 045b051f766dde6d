/* IDX files, the format of MNIST and Fashion-MNIST (LeCun, http://yann.lecun.com/exdb/mnist): two zero bytes,
 * a type, the rank, big-endian 32-bit dimensions, then the elements. A file is plain or gzip, recognised by
 * its content. Everything in a file is checked, and every failure names the file and the offset (after
 * decompression) at which it was found. */
#ifndef GODWIT_KERNELS_DATA_IDX_H
#define GODWIT_KERNELS_DATA_IDX_H

#include "core/base/err.h"

#include <stdint.h>

enum { GW_IDX_RANK = 3 }; /* the most dimensions */

/* An array of unsigned bytes, row-major. */
typedef struct gw_idx {
    uint32_t rank;
    uint32_t dim[GW_IDX_RANK];
    uint64_t header_bytes; /* offset of the elements in the file */
    uint64_t count;        /* number of elements: the product of the dimensions */
    uint8_t *bytes;        /* owned; freed by gw_idx_free */
} gw_idx;

/* Reads all of `path`: unsigned bytes in `rank` dimensions (1 to GW_IDX_RANK), none of which is 0, with at
 * most `limit` elements. Memory is allocated only after the header has been checked against `limit`. A file
 * that ends early, continues after its last element, or has a damaged gzip stream is an error. On failure
 * *idx is empty. Blocks on the disk. */
bool gw_idx_read(const char *path, uint32_t rank, uint64_t limit, gw_idx *idx, gw_err *err);

void gw_idx_free(gw_idx *idx);

#endif
