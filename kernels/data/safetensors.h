/* Models' weights in Hugging Face's safetensors format. A file is a u64 length, that many bytes of JSON
 * ({name: {dtype, shape, data_offsets}}), and the tensors' bytes, little-endian and row-major. A large model
 * is several such files and an index, which is JSON ({"weight_map": {name: file}}). */
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
    uint64_t size;        /* number of bytes; for a known dtype, that of all elements */
} gw_safetensor;

/* The most files of one model. */
enum { GW_SAFETENSORS_PARTS = 4096 };

/* One file of a model, open and mapped. */
typedef struct gw_safetensors_part {
    char *path;
    gw_plain_file file;
    const uint8_t *map;
    struct json_t *header; /* contains the names of its tensors */
} gw_safetensors_part;

typedef struct gw_safetensors {
    gw_safetensor *list; /* sorted by name */
    uint32_t count;
    gw_hash
        digest; /* hash of the whole file; of several files, of their digests in the order of their names */
    char *path; /* as the caller gave it; NULL: the tensors lie in memory of the caller */
    gw_safetensors_part *parts;
    uint32_t part_count;
} gw_safetensors;

/* Maps the weights at `path` and checks their headers: every tensor lies within its file and is as large as
 * its shape says. The path names a file, an index, or a folder, which stands for its model.safetensors, its
 * model.safetensors.index.json, or the only *.safetensors file in it. Where there are several files, a tensor
 * is taken from the one that the index names. A name that a file's metadata declare to be another name of a
 * tensor (as safetensors.torch.save_model does of tied weights) is listed like a tensor. The tensors are not
 * read, and `digest` stays 0. Fails with GW_E_NOTFOUND, GW_E_IO, GW_E_INVALID, GW_E_CORRUPT, GW_E_LIMIT, or
 * GW_E_UNSUPPORTED for another format that can be told (a PyTorch pickle, GGUF), naming the file and what is
 * wrong in it; *file is empty then. */
bool gw_safetensors_begin(const char *path, gw_safetensors *file, gw_err *err);
/* Reads all files for their digest. Fails with GW_E_IO, GW_E_NOMEM, or GW_E_CORRUPT where a file has shrunk.
 * Blocks on the disk. */
bool gw_safetensors_read(gw_safetensors *file, gw_err *err);
/* Does what gw_safetensors_begin and gw_safetensors_read do; on failure *file is empty. */
bool gw_safetensors_open(const char *path, gw_safetensors *file, gw_err *err);
void gw_safetensors_close(gw_safetensors *file);

/* Whether `path` is a folder with a model in it as Hugging Face's libraries save one: a config.json, or
 * weights in some format, which gw_safetensors_begin need not be able to read. */
bool gw_safetensors_is_folder(const char *path);
/* Whether weights in some format are in a folder: many programs have a config.json. */
bool gw_safetensors_has_weights(const char *folder);

/* Makes, in memory, the file of these tensors (with dtype and size set), in this order and without notes, as
 * gw_safetensors_open opens it. The tensors' bytes must stay valid until it is closed.
 * `list` is one block from malloc that contains the tensors and, behind them, their names; the call takes
 * ownership of it, also on failure. Fails with GW_E_NOMEM. */
bool gw_safetensors_from_memory(gw_safetensor *list, uint32_t count, gw_safetensors *file, gw_err *err);

/* Fails with GW_E_CORRUPT if a file has changed since it was opened. Callers call it before they read
 * tensors' bytes, since reading behind the end of a file that has shrunk kills the process, and again
 * afterwards. */
bool gw_safetensors_unchanged(const gw_safetensors *file, gw_err *err);

/* The tensor of that name; NULL where there is none. */
const gw_safetensor *gw_safetensors_find(const gw_safetensors *file, const char *name);

/* A note in a file's metadata, where its name has "godwit." before it. */
typedef struct gw_safetensors_note {
    const char *name; /* at most 50 bytes */
    const char *text;
} gw_safetensors_note;

/* Makes the beginning of a file, which the caller frees: everything before the bytes of these tensors
 * (with dtype and size set), which follow it in this order without gaps. Fails with GW_E_NOMEM. */
bool gw_safetensors_begin_file(const gw_safetensor *list, uint32_t count, const gw_safetensors_note *notes,
                               uint32_t note_count, void **bytes, size_t *length, gw_err *err);

/* Whether the file begins as those that this program writes: with notes, or with the tensors of
 * gw_gpt_file_list. Blocks. */
bool gw_safetensors_is_own(const char *path);

#endif
