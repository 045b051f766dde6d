/* Decompresses files while they are read: gzip (RFC 1952) with any number of members, and zstd (RFC 8878)
 * with any number of frames. */
#ifndef GODWIT_KERNELS_DATA_INFLATE_H
#define GODWIT_KERNELS_DATA_INFLATE_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef enum gw_compression { GW_PLAIN, GW_GZIP, GW_ZSTD } gw_compression;

/* The number of first bytes of a file that gw_compression_of needs. */
enum { GW_COMPRESSION_BYTES = 6 };

/* Determines how a file that begins with these bytes is compressed; fewer than GW_COMPRESSION_BYTES bytes are
 * the whole file. Fails with GW_E_UNSUPPORTED for formats that are recognised and not read (xz, bzip2). */
bool gw_compression_of(const char *bytes, size_t count, gw_compression *compression, gw_err *err);

typedef struct gw_inflater gw_inflater;

/* Opens a decompressor for GW_GZIP or GW_ZSTD, which one thread uses. Fails with GW_E_NOMEM. */
bool gw_inflater_open(gw_compression compression, gw_inflater **inflater, gw_err *err);
void gw_inflater_close(gw_inflater *inflater); /* NULL is allowed */

/* Decompresses from *in, and advances *in and *left, until *left is 0 or `room` bytes are written to `out`;
 * *made becomes their number. Where all of the room was used, the caller calls it again with more room. Fails
 * with GW_E_CORRUPT, or with GW_E_NOMEM where the file needs more memory than there is. */
bool gw_inflater_run(gw_inflater *inflater, const char **in, size_t *left, char *out, size_t room,
                     size_t *made, gw_err *err);

/* Checks that the file may end here; fails with GW_E_CORRUPT where it was cut off. */
bool gw_inflater_end(const gw_inflater *inflater, gw_err *err);

#endif
