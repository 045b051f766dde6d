/* Files in Hugging Face's safetensors format: a u64 length, that many bytes of JSON ({name: {dtype, shape,
 * data_offsets}}), and the tensors' bytes, little-endian and row-major. */
#ifndef GODWIT_KERNELS_DATA_SAFETENSORS_H
#define GODWIT_KERNELS_DATA_SAFETENSORS_H

#include "core/godwit.h"
#include "core/os/plain_file.h"

typedef struct gw_safetensor {
    const char *name;
    char dtype[8]; /* as written in the file: "F32" */
    uint32_t rank;
    uint64_t dim[GW_MAX_RANK];
    const uint8_t *bytes; /* at any alignment */
    uint64_t size;        /* number of bytes; for a known dtype, that of the elements together */
} gw_safetensor;

typedef struct gw_safetensors {
    const uint8_t *map; /* NULL: the tensors lie in their maker's memory */
    uint64_t map_bytes;
    gw_safetensor *list; /* sorted by name */
    uint32_t count;
    gw_hash digest; /* of the whole file */
    char *path;
    gw_plain_file file; /* open while its path is not NULL */
} gw_safetensors;

/* Maps a file and checks its header: every tensor lies within the file and is as large as its shape says. The
 * tensors are not read, and `digest` stays 0. Fails with GW_E_NOTFOUND, GW_E_IO, GW_E_INVALID or
 * GW_E_CORRUPT, naming the file and what is wrong in it; *file is empty then. */
bool gw_safetensors_begin(const char *path, gw_safetensors *file, gw_err *err);
/* Reads all of the file for its digest. Fails with GW_E_IO, GW_E_NOMEM, or GW_E_CORRUPT where the file has
 * shrunk. Blocks on the disk. */
bool gw_safetensors_read(gw_safetensors *file, gw_err *err);
/* Does what gw_safetensors_begin and gw_safetensors_read do; on failure *file is empty. */
bool gw_safetensors_open(const char *path, gw_safetensors *file, gw_err *err);
void gw_safetensors_close(gw_safetensors *file);

/* Makes the file that gw_safetensors_write would write from these tensors (dtype and size as above), in this
 * order, as gw_safetensors_open would find it, but in memory. The tensors' bytes must stay valid until it is
 * closed. `list` was allocated by malloc together with what follows the tensors in the same block (their
 * names); the call takes ownership of it, also on failure. Fails with GW_E_NOMEM. */
bool gw_safetensors_take(gw_safetensor *list, uint32_t count, gw_safetensors *file, gw_err *err);

/* Fails with GW_E_CORRUPT if the file has changed since it was opened. Callers ask before they read tensors'
 * bytes, since reading behind the end of a file that has shrunk kills the process, and again after it. */
bool gw_safetensors_unchanged(const gw_safetensors *file, gw_err *err);

/* The tensor of that name; NULL where there is none. */
const gw_safetensor *gw_safetensors_find(const gw_safetensors *file, const char *name);

/* Writes tensors (dtype and size as above) in their order, and flushes. The file appears as a whole
 * (core/os/output.h). Blocks on the disk. */
bool gw_safetensors_write(const char *path, const gw_safetensor *list, uint32_t count, gw_err *err);

#endif
