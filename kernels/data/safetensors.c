#include "kernels/data/safetensors.h"

#include "core/base/assert.h"
#include "core/os/output.h"
#include "core/os/plain_file.h"
#include "kernels/host/read_progress.h"

#include <jansson.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LENGTH_BYTES = 8, HEADER_MOST = 100000000, PIECE_BYTES = 1 << 20 };

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

/* Reads one entry of the header. The tensors' bytes begin at `data`, and there are `room` of them. */
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
                       "tensor '%.80s' lies at %lld to %lld, outside of the file's %llu bytes of data", name,
                       (long long)begin, (long long)end, (unsigned long long)room);
    tensor->bytes = data + begin;
    tensor->size = (uint64_t)(end - begin);
    uint32_t width = element_bytes(dtype);
    if (width > 0 && (__builtin_mul_overflow(elements, width, &bytes) || bytes != tensor->size))
        return gw_fail(err, GW_E_CORRUPT, "tensor '%.80s' takes %llu bytes, which is not what its shape says",
                       name, (unsigned long long)tensor->size);
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const gw_safetensor *)a)->name, ((const gw_safetensor *)b)->name);
}

/* Names are copied behind the list, in the same block of memory. */
static bool read_header(gw_safetensors *file, json_t *header, const uint8_t *data, uint64_t room,
                        gw_err *err) {
    size_t names = 0, count = json_object_size(header);
    const char *key;
    json_t *entry;
    json_object_foreach(header, key, entry) names += strlen(key) + 1;
    file->list = calloc(1, (count + 1) * sizeof *file->list + names);
    if (file->list == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %zu tensors", count);
    char *next = (char *)(file->list + count + 1);
    json_object_foreach(header, key, entry) {
        if (strcmp(key, "__metadata__") == 0) continue;
        size_t length = strlen(key) + 1;
        memcpy(next, key, length);
        if (!read_entry(next, entry, data, room, &file->list[file->count], err)) return false;
        file->count++;
        next += length;
    }
    qsort(file->list, file->count, sizeof *file->list, compare_names);
    return true;
}

static bool parse(gw_safetensors *file, gw_err *err) {
    uint64_t length = 0;
    if (file->map_bytes < LENGTH_BYTES)
        return gw_fail(err, GW_E_CORRUPT, "ends after %llu bytes", (unsigned long long)file->map_bytes);
    for (int i = 0; i < LENGTH_BYTES; i++) length |= (uint64_t)file->map[i] << (8 * i);
    if (length > HEADER_MOST || length > file->map_bytes - LENGTH_BYTES)
        return gw_fail(
            err, GW_E_CORRUPT,
            "is no safetensors file, or was cut off: its header should have %llu bytes, and %llu are left",
            (unsigned long long)length, (unsigned long long)(file->map_bytes - LENGTH_BYTES));
    json_error_t why;
    json_t *header = json_loadb((const char *)file->map + LENGTH_BYTES, length, JSON_REJECT_DUPLICATES, &why);
    if (header == NULL)
        return gw_fail(err, GW_E_CORRUPT,
                       "is no safetensors file, or damaged: its header, at byte %d: %.100s", why.position,
                       why.text);
    const uint8_t *data = file->map + LENGTH_BYTES + length;
    bool read = json_is_object(header) ||
                gw_fail(err, GW_E_INVALID, "is no safetensors file: its header is no object");
    read = read && read_header(file, header, data, file->map_bytes - LENGTH_BYTES - length, err);
    json_decref(header);
    return read;
}

/* Reads through the descriptor and not the mapping: a process that reads a mapping behind the end of a
 * shrunken file, or where the disk fails, is killed. `piece` is a buffer of PIECE_BYTES. */
static bool hash_pieces(gw_safetensors *file, uint8_t *piece, gw_err *err) {
    crypto_generichash_state state;
    gw_read_progress progress;
    gw_read_progress_begin(&progress, file->map_bytes);
    crypto_generichash_init(&state, NULL, 0, sizeof file->digest);
    for (uint64_t at = 0, length; at < file->map_bytes; at += length) {
        length = file->map_bytes - at < PIECE_BYTES ? file->map_bytes - at : PIECE_BYTES;
        if (!gw_plain_read(&file->file, at, piece, length, err)) return false;
        crypto_generichash_update(&state, piece, length);
        gw_read_progress_add(&progress, file->path, length);
    }
    crypto_generichash_final(&state, file->digest.bytes, sizeof file->digest);
    gw_read_progress_end(&progress);
    return true;
}

bool gw_safetensors_read(gw_safetensors *file, gw_err *err) {
    uint8_t *piece = malloc(PIECE_BYTES);
    if (piece == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to read %s", file->path);
    bool hashed = hash_pieces(file, piece, err);
    free(piece);
    return hashed;
}

static bool open_file(const char *path, gw_safetensors *file, gw_err *err) {
    file->path = strdup(path);
    if (file->path == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the name of %s", path);
    if (!gw_plain_open(file->path, &file->file, err) || !gw_plain_map(&file->file, &file->map, err))
        return false;
    file->map_bytes = file->file.bytes;
    return parse(file, err) || gw_fail_in(err, "%s", path);
}

bool gw_safetensors_begin(const char *path, gw_safetensors *file, gw_err *err) {
    *file = (gw_safetensors){.file = {.fd = -1}};
    if (open_file(path, file, err)) return true;
    gw_safetensors_close(file);
    return false;
}

bool gw_safetensors_open(const char *path, gw_safetensors *file, gw_err *err) {
    if (!gw_safetensors_begin(path, file, err)) return false;
    if (gw_safetensors_read(file, err)) return true;
    gw_safetensors_close(file);
    return false;
}

void gw_safetensors_close(gw_safetensors *file) {
    if (file->map != NULL) munmap((void *)(uintptr_t)file->map, file->map_bytes);
    if (file->path != NULL) gw_plain_close(&file->file);
    free(file->path);
    free(file->list);
    *file = (gw_safetensors){0};
}

bool gw_safetensors_unchanged(const gw_safetensors *file, gw_err *err) {
    return file->path == NULL || gw_plain_unchanged(&file->file, err);
}

const gw_safetensor *gw_safetensors_find(const gw_safetensors *file, const char *name) {
    gw_safetensor wanted = {.name = name};
    if (file->count == 0) return NULL;
    return bsearch(&wanted, file->list, file->count, sizeof *file->list, compare_names);
}

/* Returns the header as text, which the caller frees, or NULL. Other programs expect it to name the tensors'
 * framework: "pt". */
static char *make_header(const gw_safetensor *list, uint32_t count) {
    json_t *header = json_object(), *metadata = json_object();
    json_object_set_new(metadata, "format", json_string("pt"));
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

/* Receives a file's bytes, one part after the other. */
typedef bool sink(void *to, const void *bytes, size_t count, gw_err *err);

/* The header is padded with spaces so that the data are aligned. */
static bool put_file(sink *put, void *to, const char *header, const gw_safetensor *list, uint32_t count,
                     gw_err *err) {
    size_t text = strlen(header), padded = (text + 7) / 8 * 8;
    uint8_t length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++) length[i] = (uint8_t)((uint64_t)padded >> (8 * i));
    bool good = put(to, length, sizeof length, err) && put(to, header, text, err) &&
                put(to, "        ", padded - text, err);
    for (uint32_t i = 0; good && i < count; i++) good = put(to, list[i].bytes, list[i].size, err);
    return good;
}

static bool put_output(void *to, const void *bytes, size_t count, gw_err *err) {
    return gw_output_write(to, bytes, count, err);
}

static bool put_hash(void *to, const void *bytes, size_t count, gw_err *err) {
    (void)err;
    int failed = crypto_generichash_update(to, bytes, count);
    GW_ASSERT(failed == 0);
    return true;
}

bool gw_safetensors_write(const char *path, const gw_safetensor *list, uint32_t count, gw_err *err) {
    char *header = make_header(list, count);
    gw_output output;
    if (header == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the header of %s", path);
    bool written = gw_output_open(path, &output, err);
    if (written)
        written = gw_output_end(&output, put_file(put_output, &output, header, list, count, err), err);
    free(header);
    return written;
}

bool gw_safetensors_take(gw_safetensor *list, uint32_t count, gw_safetensors *file, gw_err *err) {
    char *header = make_header(list, count);
    *file = (gw_safetensors){.list = list, .count = count};
    if (header == NULL) {
        gw_safetensors_close(file);
        return gw_fail(err, GW_E_NOMEM, "no memory for the header of %u tensors", count);
    }
    crypto_generichash_state hash;
    int failed = crypto_generichash_init(&hash, NULL, 0, sizeof file->digest);
    bool hashed = put_file(put_hash, &hash, header, list, count, err);
    failed |= crypto_generichash_final(&hash, file->digest.bytes, sizeof file->digest);
    GW_ASSERT(hashed && failed == 0);
    qsort(list, count, sizeof *list, compare_names);
    free(header);
    return true;
}
