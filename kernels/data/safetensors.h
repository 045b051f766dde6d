/* Files in Hugging Face's safetensors format: a u64 length, that many bytes of JSON ({name: {dtype, shape,
 * data_offsets}}), and the tensors' bytes, little-endian and row-major. */
#ifndef GODWIT_KERNELS_DATA_SAFETENSORS_H
#define GODWIT_KERNELS_DATA_SAFETENSORS_H

#include "core/godwit.h"
#include "core/os/plain_file.h"

typedef struct gw_safetensor {
    const char *name;
    char dtype[8]; /* as the file says: "F32" */
    uint32_t rank;
    uint64_t dim[GW_MAX_RANK];
    const uint8_t *bytes; /* at any alignment */
    uint64_t size;        /* of the bytes: of the elements together, for a dtype that is known */
} gw_safetensor;

typedef struct gw_safetensors {
    const uint8_t *map; /* NULL: the tensors lie in the memory of whoever made it */
    uint64_t map_bytes;
    gw_safetensor *list; /* sorted by name */
    uint32_t count;
    gw_hash digest; /* of the whole file */
    char *path;
    gw_plain_file file; /* open while path is not NULL */
} gw_safetensors;

/* Maps a file and checks its header: every tensor lies within it and is as large as its shape says. Its
 * tensors are not read, and `digest` stays 0. Fails with GW_E_NOTFOUND, GW_E_IO, GW_E_INVALID or
 * GW_E_CORRUPT, naming the file and what is wrong in it; *file then holds nothing. */
bool gw_safetensors_begin(const char *path, gw_safetensors *file, gw_err *err);
/* Reads all of it for its digest. Fails with GW_E_IO, GW_E_NOMEM, or GW_E_CORRUPT where it has shrunk. Blocks
 * on the disk. */
bool gw_safetensors_read(gw_safetensors *file, gw_err *err);
/* Both; on failure *file holds nothing. */
bool gw_safetensors_open(const char *path, gw_safetensors *file, gw_err *err);
void gw_safetensors_close(gw_safetensors *file);

/* The tensors (dtype and size as above) as gw_safetensors_open would find them, in the file that
 * gw_safetensors_write would make of them in this order, but in memory: their bytes must stay until it is
 * closed. `list` is malloc's, with whatever lies behind the tensors in the same piece (their names); it is
 * taken, also on failure, which is GW_E_NOMEM. */
bool gw_safetensors_take(gw_safetensor *list, uint32_t count, gw_safetensors *file, gw_err *err);

/* Whether it is as it was when it was opened: else GW_E_CORRUPT. To be asked before tensors' bytes are read,
 * as reading them behind the end of a file that has shrunk is the end of the process, and again after that.
 */
bool gw_safetensors_unchanged(const gw_safetensors *file, gw_err *err);

/* The tensor of that name, or NULL. */
const gw_safetensor *gw_safetensors_find(const gw_safetensors *file, const char *name);

/* Writes tensors (dtype and size as above), in their order, and flushes; the file appears as by
 * core/os/output.h. Blocks on the disk. */
bool gw_safetensors_write(const char *path, const gw_safetensor *list, uint32_t count, gw_err *err);

#endif
