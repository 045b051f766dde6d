#include "kernels/data/safetensors.h"

#include "core/base/assert.h"
#include "core/base/id.h"
#include "core/os/plain_file.h"
#include "kernels/host/read_progress.h"

#include <dirent.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXTENSION   ".safetensors"
#define MODEL       "model" EXTENSION
#define NOTE_PREFIX "godwit."

enum {
    NOTE_NAME = 64,
    LENGTH_BYTES = 8,
    HEADER_MOST = 100000000,
    INDEX_MOST = HEADER_MOST,
    PIECE_BYTES = 1 << 20
};

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4},
              {"I16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"U64", 8}, {"U32", 4}};

/* Bytes of an element; 0 for an unknown dtype. */
static uint32_t element_bytes(const char *dtype) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, dtype) == 0) return dtypes[i].bytes;
    return 0;
}

static bool read_shape(const json_t *shape, gw_safetensor *tensor, uint64_t *elements) {
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank > GW_MAX_RANK) return false;
    tensor->rank = (uint32_t)rank;
    *elements = 1;
    for (size_t i = 0; i < rank; i++) {
        json_int_t dim = json_integer_value(json_array_get(shape, i));
        if (!json_is_integer(json_array_get(shape, i)) || dim < 0) return false;
        tensor->dim[i] = (uint64_t)dim;
        if (__builtin_mul_overflow(*elements, tensor->dim[i], elements)) return false;
    }
    return true;
}

/* Reads one entry of the header. All tensors' bytes are data[0 .. room). */
static bool read_entry(const char *name, const json_t *entry, const uint8_t *data, uint64_t room,
                       gw_safetensor *tensor, gw_err *err) {
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    uint64_t elements, bytes;
    if (dtype == NULL || strlen(dtype) >= sizeof tensor->dtype || json_array_size(offsets) != 2 ||
        !json_is_integer(from) || !json_is_integer(to))
        return gw_fail(err, GW_E_INVALID,
                       "tensor '%.80s' has no dtype of up to %zu characters, or no two data_offsets", name,
                       sizeof tensor->dtype - 1);
    *tensor = (gw_safetensor){.name = name};
    memcpy(tensor->dtype, dtype, strlen(dtype) + 1);
    if (!read_shape(json_object_get(entry, "shape"), tensor, &elements))
        return gw_fail(err, GW_E_INVALID, "tensor '%.80s' has no shape of up to %d dimensions", name,
                       GW_MAX_RANK);
    json_int_t begin = json_integer_value(from), end = json_integer_value(to);
    if (begin < 0 || end < begin || (uint64_t)end > room)
        return gw_fail(err, GW_E_CORRUPT,
                       "tensor '%.80s' lies at %lld to %lld, outside the file's %llu bytes of data", name,
                       (long long)begin, (long long)end, (unsigned long long)room);
    tensor->bytes = data + begin;
    tensor->size = (uint64_t)(end - begin);
    uint32_t width = element_bytes(dtype);
    if (width > 0 && (__builtin_mul_overflow(elements, width, &bytes) || bytes != tensor->size))
        return gw_fail(err, GW_E_CORRUPT,
                       "tensor '%.80s' takes %llu bytes, which does not agree with its shape", name,
                       (unsigned long long)tensor->size);
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const gw_safetensor *)a)->name, ((const gw_safetensor *)b)->name);
}

static bool add_tensor(gw_safetensors *all, const gw_safetensor *tensor, gw_err *err) {
    if ((all->count & (all->count - 1)) == 0) { /* full: its capacity is the next power of two */
        size_t capacity = all->count == 0 ? 1 : 2 * (size_t)all->count;
        gw_safetensor *grown = realloc(all->list, capacity * sizeof *grown);
        if (grown == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %zu tensors", capacity);
        all->list = grown;
    }
    all->list[all->count++] = *tensor;
    return true;
}

/* Whether a tensor of this name is taken from this file: always without an index, else where the index says
 * so. */
static bool is_wanted(const json_t *map, const char *file, const char *name) {
    const char *where = map != NULL ? json_string_value(json_object_get(map, name)) : NULL;
    return map == NULL || (where != NULL && strcmp(where, file) == 0);
}

/* Adds the aliases that the metadata declare for tensors that were taken from this file, from number `first`
 * on. Metadata of the same form have other meanings as well ("format": "pt"). */
static bool add_aliases(gw_safetensors *all, uint32_t first, const json_t *header, gw_err *err) {
    const char *alias;
    json_t *value;
    uint32_t end = all->count;
    json_object_foreach(json_object_get(header, "__metadata__"), alias, value) {
        const char *name = json_string_value(value);
        if (name == NULL || json_object_get(header, alias) != NULL) continue;
        for (uint32_t i = first; i < end; i++) {
            if (strcmp(all->list[i].name, name) != 0) continue;
            gw_safetensor tensor = all->list[i];
            tensor.name = alias;
            if (!add_tensor(all, &tensor, err)) return false;
            break;
        }
    }
    return true;
}

static bool read_header(gw_safetensors *all, const gw_safetensors_part *part, const json_t *map,
                        const uint8_t *data, uint64_t room, gw_err *err) {
    const char *name, *file = basename(part->path);
    json_t *entry;
    uint32_t first = all->count;
    json_object_foreach(part->header, name, entry) {
        gw_safetensor tensor;
        if (strcmp(name, "__metadata__") == 0) continue;
        if (!read_entry(name, entry, data, room, &tensor, err)) return false;
        if (is_wanted(map, file, name) && !add_tensor(all, &tensor, err)) return false;
    }
    return add_aliases(all, first, part->header, err);
}

/* Reads the first bytes of a file, which are the header's length. Fails where the file is too short. */
static bool read_length(const gw_plain_file *file, uint8_t bytes[LENGTH_BYTES], uint64_t *length,
                        gw_err *err) {
    *length = 0;
    if (file->bytes < LENGTH_BYTES)
        return gw_fail(err, GW_E_CORRUPT, "%s ends after %llu bytes", file->path,
                       (unsigned long long)file->bytes);
    if (!gw_plain_read(file, 0, bytes, LENGTH_BYTES, err)) return false;
    for (int i = 0; i < LENGTH_BYTES; i++) *length |= (uint64_t)bytes[i] << (8 * i);
    return true;
}

/* Whether a file is JSON text. A safetensors file begins otherwise: the upper bytes of its length are zeros.
 */
static bool is_json(const uint8_t bytes[LENGTH_BYTES], uint64_t length) {
    return bytes[0] == '{' && length > HEADER_MOST;
}

static bool refuse_pickle(const char *path, gw_err *err) {
    return gw_fail(err, GW_E_UNSUPPORTED,
                   "%.120s is a PyTorch pickle, which can run programs when it is read, and is not read. To "
                   "convert it: python3 -c \"import sys, pathlib, torch, safetensors.torch as s; p = "
                   "pathlib.Path(sys.argv[1]); s.save_file({k: v.contiguous().clone() for k, v in "
                   "torch.load(p, 'cpu', weights_only=True).items()}, p.with_name('model.safetensors'))\" %s",
                   path, strlen(path) <= 100 ? path : "FILE");
}

/* Fails with what a file is that does not begin like a safetensors file. */
static bool refuse_format(const char *path, const uint8_t bytes[LENGTH_BYTES], uint64_t length, uint64_t left,
                          gw_err *err) {
    static const struct {
        const char *magic, *what;
    } formats[] = {{"GGUF", "GGUF, llama.cpp's format"},
                   {"\211HDF", "HDF5, the format of TensorFlow's weights"},
                   {"version ", "a pointer of Git LFS in place of the file: 'git lfs pull' fetches that"}};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (memcmp(bytes, formats[i].magic, strlen(formats[i].magic)) == 0)
            return gw_fail(err, GW_E_UNSUPPORTED, "%s is no safetensors file, but %s", path, formats[i].what);
    /* torch.save writes a zip archive; earlier versions wrote a stream of pickles (protocol 2 or later) */
    if (memcmp(bytes, "PK\3\4", 4) == 0 || (bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5))
        return refuse_pickle(path, err);
    if (length > HEADER_MOST) return gw_fail(err, GW_E_INVALID, "%s is no safetensors file", path);
    return gw_fail(err, GW_E_CORRUPT,
                   "%s is no safetensors file, or was cut off: its header should have %llu bytes, and %llu "
                   "are left",
                   path, (unsigned long long)length, (unsigned long long)left);
}

static bool parse(gw_safetensors *all, gw_safetensors_part *part, const json_t *map, gw_err *err) {
    uint8_t bytes[LENGTH_BYTES];
    uint64_t length, left = part->file.bytes - LENGTH_BYTES;
    if (!read_length(&part->file, bytes, &length, err)) return false;
    if (length > HEADER_MOST || length > left) return refuse_format(part->path, bytes, length, left, err);
    json_error_t why;
    const char *text = (const char *)part->map + LENGTH_BYTES;
    part->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (part->header == NULL)
        return gw_fail(err, GW_E_CORRUPT,
                       "%s is no safetensors file, or damaged: its header, at byte %d: %.100s", part->path,
                       why.position, why.text);
    if (!json_is_object(part->header))
        return gw_fail(err, GW_E_INVALID, "%s is no safetensors file: its header is no object", part->path);
    return read_header(all, part, map, (const uint8_t *)text + length, left - length, err) ||
           gw_fail_in(err, "%s", part->path);
}

/* Opens one file of the model and takes its tensors. `path` was allocated; the call takes ownership of it. */
static bool open_part(gw_safetensors *all, char *path, const json_t *map, gw_err *err) {
    gw_safetensors_part *grown = realloc(all->parts, (all->part_count + 1) * sizeof *grown);
    if (grown == NULL || path == NULL) {
        all->parts = grown != NULL ? grown : all->parts;
        free(path);
        return gw_fail(err, GW_E_NOMEM, "out of memory");
    }
    all->parts = grown;
    gw_safetensors_part *part = &grown[all->part_count++];
    *part = (gw_safetensors_part){.path = path, .file = {.fd = -1}};
    return gw_plain_open(path, &part->file, err) && gw_plain_map(&part->file, &part->map, err) &&
           parse(all, part, map, err);
}

static char *join_path(const char *folder, size_t length, const char *name) {
    char *path;
    return asprintf(&path, "%.*s%s", (int)length, folder, name) >= 0 ? path : NULL;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the files that the index names, sorted, each once; the caller frees the list. */
static bool list_files(const json_t *map, const char ***files, uint32_t *count, gw_err *err) {
    const char *name;
    json_t *value;
    size_t total = 0;
    *count = 0;
    *files = calloc(json_object_size(map) + 1, sizeof **files);
    if (*files == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        const char *file = json_string_value(value);
        if (file == NULL || file[0] == '\0' || file[0] == '.' || strchr(file, '/') != NULL)
            return gw_fail(err, GW_E_INVALID, "tensor '%.80s' is in no file of the index's own folder", name);
        size_t length = strlen(file), end = strlen(".bin");
        if (length > end && strcmp(file + length - end, ".bin") == 0)
            return gw_fail(err, GW_E_UNSUPPORTED,
                           "its files are PyTorch pickles, which can run programs when they are read, and "
                           "are not read. To convert FOLDER: python3 -c \"from transformers import "
                           "GPT2LMHeadModel as M; M.from_pretrained('FOLDER').save_pretrained('NEW')\"");
        (*files)[total++] = file;
    }
    qsort(*files, total, sizeof **files, compare_texts);
    for (size_t i = 0; i < total; i++) {
        if (i > 0 && strcmp((*files)[i], (*files)[i - 1]) == 0) continue;
        if (*count == GW_SAFETENSORS_PARTS)
            return gw_fail(err, GW_E_LIMIT, "names more than %d files", GW_SAFETENSORS_PARTS);
        (*files)[(*count)++] = (*files)[i];
    }
    return *count > 0 || gw_fail(err, GW_E_INVALID, "names no file");
}

static bool open_listed(gw_safetensors *all, const char *path, const json_t *map, gw_err *err) {
    const char **files, *name;
    json_t *value;
    uint32_t count;
    size_t folder = (size_t)(basename(path) - path);
    bool good = list_files(map, &files, &count, err);
    for (uint32_t i = 0; good && i < count; i++)
        good = open_part(all, join_path(path, folder, files[i]), map, err);
    free(files);
    if (!good) return false;
    if (all->count > 0) qsort(all->list, all->count, sizeof *all->list, compare_names);
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        if (gw_safetensors_find(all, name) != NULL) continue;
        return gw_fail(err, GW_E_CORRUPT, "tensor '%.80s' is said to be in %.80s, and is not there", name,
                       json_string_value(value));
    }
    return true;
}

/* Opens the files that an index names; `file` is the index. */
static bool open_index(gw_safetensors *all, const gw_plain_file *file, gw_err *err) {
    json_error_t why;
    char *text = file->bytes <= INDEX_MOST ? malloc(file->bytes) : NULL;
    if (text == NULL) return gw_fail(err, GW_E_LIMIT, "%s: no memory for so large an index", file->path);
    json_t *index = NULL;
    bool good = gw_plain_read(file, 0, text, file->bytes, err);
    if (good) {
        index = json_loadb(text, file->bytes, JSON_REJECT_DUPLICATES, &why);
        if (index == NULL)
            good =
                gw_fail(err, GW_E_CORRUPT, "%s is no index of a sharded model, or damaged: line %d: %.100s",
                        file->path, why.line, why.text);
    }
    const json_t *map = json_object_get(index, "weight_map");
    if (good && !json_is_object(map))
        good = gw_fail(err, GW_E_INVALID,
                       "%s is JSON, but no index of a sharded model: it has no weight_map. Name the folder, "
                       "or the weights in it",
                       file->path);
    if (good && !open_listed(all, file->path, map, err))
        good = gw_fail_in(err, "%s, the index of a sharded model", file->path);
    json_decref(index);
    free(text);
    return good;
}

static bool is_there(const char *folder, const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0) return false;
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static int is_safetensors(const struct dirent *entry) {
    size_t length = strlen(entry->d_name), end = strlen(EXTENSION);
    return length > end && entry->d_name[0] != '.' && strncmp(entry->d_name, "adapter_", 8) != 0 &&
           strcmp(entry->d_name + length - end, EXTENSION) == 0;
}

/* The names of a folder's weights. The first READABLE are read; the others are refused with what they are. */
static const char *const weights[] = {MODEL, MODEL ".index.json", "pytorch_model.bin",
                                      "pytorch_model.bin.index.json", "tf_model.h5"};
enum { WEIGHTS = sizeof weights / sizeof weights[0], READABLE = 2 };

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool gw_safetensors_is_folder(const char *path) {
    return is_folder(path) && (is_there(path, "config.json") || is_there(path, "adapter_config.json") ||
                               gw_safetensors_has_weights(path));
}

bool gw_safetensors_has_weights(const char *folder) {
    struct dirent **found;
    for (int i = 0; i < WEIGHTS; i++)
        if (is_there(folder, weights[i])) return true;
    int count = scandir(folder, &found, is_safetensors, alphasort);
    for (int i = 0; i < count; i++) free(found[i]);
    if (count >= 0) free((void *)found);
    return count > 0;
}

/* Finds the weights in a folder, in memory that the caller frees; NULL with *err where there are none. */
static char *find_weights(const char *folder, gw_err *err) {
    const char *name = NULL;
    struct dirent **found;
    for (int i = 0; i < READABLE && name == NULL; i++)
        if (is_there(folder, weights[i])) name = weights[i];
    int count = scandir(folder, &found, is_safetensors, alphasort);
    if (name == NULL && count == 1) name = found[0]->d_name;
    for (int i = READABLE; i < WEIGHTS && name == NULL && count <= 0; i++)
        if (is_there(folder, weights[i])) name = weights[i];
    char *path = NULL;
    if (name == NULL && count > 1)
        gw_fail(err, GW_E_NOTFOUND, "%s holds %d " EXTENSION " files and no %s: name one of them", folder,
                count, weights[1]);
    else if (name == NULL && is_there(folder, "adapter_config.json"))
        gw_fail(err, GW_E_UNSUPPORTED,
                "%s holds an adapter (PEFT), and not a model: merge it into its model first "
                "(merge_and_unload), and save that",
                folder);
    else if (name == NULL)
        gw_fail(err, GW_E_NOTFOUND, "%s holds no %s, and no index of such files (%s)", folder, weights[0],
                weights[1]);
    else if (asprintf(&path, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name) < 0)
        gw_fail(err, GW_E_NOMEM, "out of memory");
    for (int i = 0; i < count; i++) free(found[i]);
    if (count >= 0) free((void *)found);
    return name != NULL ? path : NULL;
}

/* Opens the file at `path`; where it is an index, the files that it names. */
static bool open_files(gw_safetensors *all, const char *path, gw_err *err) {
    uint8_t bytes[LENGTH_BYTES];
    uint64_t length;
    gw_plain_file file;
    if (!gw_plain_open(path, &file, err)) return false;
    bool good = read_length(&file, bytes, &length, err);
    bool index = good && is_json(bytes, length);
    if (index) good = open_index(all, &file, err);
    gw_plain_close(&file);
    if (!good || index) return good;
    if (!open_part(all, strdup(path), NULL, err)) return false;
    if (all->count == 0) return gw_fail(err, GW_E_INVALID, "%s holds no tensors", path);
    if (all->count > 0) qsort(all->list, all->count, sizeof *all->list, compare_names);
    return true;
}

bool gw_safetensors_begin(const char *path, gw_safetensors *file, gw_err *err) {
    *file = (gw_safetensors){.path = strdup(path)};
    char *found = is_folder(path) ? find_weights(path, err) : strdup(path);
    bool good = found != NULL || is_folder(path) || gw_fail(err, GW_E_NOMEM, "out of memory");
    if (file->path == NULL) good = gw_fail(err, GW_E_NOMEM, "out of memory");
    good = good && found != NULL && open_files(file, found, err);
    free(found);
    if (!good) gw_safetensors_close(file);
    return good;
}

/* Computes a file's digest. It reads through the descriptor and not the mapping, since a process that reads a
 * mapping behind the end of a shrunken file, or where the disk fails, is killed. `piece` is a buffer of
 * PIECE_BYTES. */
static bool hash_pieces(const gw_plain_file *file, uint8_t *piece, gw_read_progress *progress,
                        gw_hash *digest, gw_err *err) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof *digest);
    for (uint64_t at = 0, length; at < file->bytes; at += length) {
        length = file->bytes - at < PIECE_BYTES ? file->bytes - at : PIECE_BYTES;
        if (!gw_plain_read(file, at, piece, length, err)) return false;
        crypto_generichash_update(&state, piece, length);
        gw_read_progress_add(progress, file->path, length);
    }
    crypto_generichash_final(&state, digest->bytes, sizeof *digest);
    return true;
}

bool gw_safetensors_read(gw_safetensors *file, gw_err *err) {
    gw_hash *digests = calloc(file->part_count, sizeof *digests);
    uint8_t *piece = malloc(PIECE_BYTES);
    bool hashed =
        (piece != NULL && digests != NULL) || gw_fail(err, GW_E_NOMEM, "no memory to read %s", file->path);
    gw_read_progress progress;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < file->part_count; i++) bytes += file->parts[i].file.bytes;
    gw_read_progress_begin(&progress, bytes);
    for (uint32_t i = 0; hashed && i < file->part_count; i++)
        hashed = hash_pieces(&file->parts[i].file, piece, &progress, &digests[i], err);
    if (hashed) {
        gw_read_progress_end(&progress);
        file->digest = digests[0];
        if (file->part_count > 1)
            gw_blake2b(digests, file->part_count * sizeof *digests, &file->digest, sizeof file->digest);
    }
    free(piece);
    free(digests);
    return hashed;
}

bool gw_safetensors_open(const char *path, gw_safetensors *file, gw_err *err) {
    if (!gw_safetensors_begin(path, file, err)) return false;
    if (gw_safetensors_read(file, err)) return true;
    gw_safetensors_close(file);
    return false;
}

void gw_safetensors_close(gw_safetensors *file) {
    for (uint32_t i = 0; i < file->part_count; i++) {
        gw_safetensors_part *part = &file->parts[i];
        if (part->map != NULL) munmap((void *)(uintptr_t)part->map, part->file.bytes);
        gw_plain_close(&part->file);
        json_decref(part->header);
        free(part->path);
    }
    free(file->parts);
    free(file->path);
    free(file->list);
    *file = (gw_safetensors){0};
}

bool gw_safetensors_unchanged(const gw_safetensors *file, gw_err *err) {
    for (uint32_t i = 0; i < file->part_count; i++)
        if (!gw_plain_unchanged(&file->parts[i].file, err)) return false;
    return true;
}

const gw_safetensor *gw_safetensors_find(const gw_safetensors *file, const char *name) {
    gw_safetensor wanted = {.name = name};
    if (file->count == 0) return NULL;
    return bsearch(&wanted, file->list, file->count, sizeof *file->list, compare_names);
}

/* Returns the header as text, which the caller frees, or NULL. Other programs expect it to name the tensors'
 * framework: "pt". */
static char *make_header(const gw_safetensor *list, uint32_t count, const gw_safetensors_note *notes,
                         uint32_t note_count) {
    json_t *header = json_object(), *metadata = json_object();
    json_object_set_new(metadata, "format", json_string("pt"));
    for (uint32_t i = 0; i < note_count; i++) {
        char name[NOTE_NAME];
        snprintf(name, sizeof name, NOTE_PREFIX "%s", notes[i].name);
        json_object_set_new(metadata, name, json_string(notes[i].text));
    }
    json_object_set_new(header, "__metadata__", metadata);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        json_t *shape = json_array();
        for (uint32_t d = 0; d < list[i].rank; d++)
            json_array_append_new(shape, json_integer((json_int_t)list[i].dim[d]));
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", list[i].dtype, "shape", shape,
                                  "data_offsets", (json_int_t)offset, (json_int_t)(offset + list[i].size));
        json_object_set_new(header, list[i].name, entry);
        offset += list[i].size;
    }
    char *text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(header);
    return text;
}

/* Spaces pad the header so that the data are aligned. */
bool gw_safetensors_begin_file(const gw_safetensor *list, uint32_t count, const gw_safetensors_note *notes,
                               uint32_t note_count, void **bytes, size_t *length, gw_err *err) {
    char *header = make_header(list, count, notes, note_count);
    size_t text = header != NULL ? strlen(header) : 0, padded = (text + 7) / 8 * 8;
    uint8_t *begin = header != NULL ? malloc(LENGTH_BYTES + padded) : NULL;
    if (begin != NULL) {
        for (int i = 0; i < LENGTH_BYTES; i++) begin[i] = (uint8_t)((uint64_t)padded >> (8 * i));
        memset(begin + LENGTH_BYTES, ' ', padded);
        for (size_t i = 0; i < text; i++) begin[LENGTH_BYTES + i] = (uint8_t)header[i];
    }
    free(header);
    *bytes = begin;
    *length = LENGTH_BYTES + padded;
    return begin != NULL || gw_fail(err, GW_E_NOMEM, "no memory for the header of %u tensors", count);
}

bool gw_safetensors_is_own(const char *path) {
    static const char *const begins[] = {"{\"__metadata__\":{\"format\":\"pt\",\"" NOTE_PREFIX,
                                         "{\"__metadata__\":{\"format\":\"pt\"},\"transformer.wte.weight\":"};
    char text[128] = "";
    gw_plain_file file;
    gw_err ignored;
    if (!gw_plain_open(path, &file, &ignored)) return false;
    bool own = file.bytes >= LENGTH_BYTES + sizeof text &&
               gw_plain_read(&file, LENGTH_BYTES, text, sizeof text - 1, &ignored);
    gw_plain_close(&file);
    own = own && (strncmp(text, begins[0], strlen(begins[0])) == 0 ||
                  strncmp(text, begins[1], strlen(begins[1])) == 0);
    return own;
}

bool gw_safetensors_from_memory(gw_safetensor *list, uint32_t count, gw_safetensors *file, gw_err *err) {
    void *begin;
    size_t length;
    *file = (gw_safetensors){.list = list, .count = count};
    if (!gw_safetensors_begin_file(list, count, NULL, 0, &begin, &length, err)) {
        gw_safetensors_close(file);
        return false;
    }
    crypto_generichash_state hash;
    int failed = crypto_generichash_init(&hash, NULL, 0, sizeof file->digest);
    failed |= crypto_generichash_update(&hash, begin, length);
    for (uint32_t i = 0; i < count; i++)
        failed |= crypto_generichash_update(&hash, list[i].bytes, list[i].size);
    failed |= crypto_generichash_final(&hash, file->digest.bytes, sizeof file->digest);
    GW_ASSERT(failed == 0);
    qsort(list, count, sizeof *list, compare_names);
    free(begin);
    return true;
}
