#include "checkpoint/manifest.h"

#include "core/base/assert.h"
#include "core/record/view.h"
#include "core/state/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[7] = {'G', 'O', 'D', 'W', 'I', 'T', 'M'};
enum {
    VERSION_EXACT = 3,
    VERSION_EPOCH = 4,
    VERSION = 5, /* the newest */
    FLAG_EPOCH = 1,
    FLAG_BEST = 2,
    FLAGS_KNOWN = FLAG_EPOCH | FLAG_BEST,
    HEADER_BYTES = sizeof magic + 1 + 8,
    CHECKSUM_BYTES = 32,
    LEAST_BYTES = HEADER_BYTES + CHECKSUM_BYTES,
    EARLY_TENSORS = 4096, /* the most in a file of a version before 5 */
    EARLY_NAME = 63,      /* bytes of a name in such a file */
    LEAST_PARAM_BYTES = 2 + 2,
    LEAST_TENSOR_BYTES = 2 + 1 + 1 + 8 + 4 + 8,
};

bool gw_manifest_seal(gw_manifest *manifest, gw_err *err) {
    if (!gw_chunk_state_bytes(manifest->tensors, manifest->tensor_count, &manifest->state_bytes, err))
        return gw_fail_in(err, "checkpoint/manifest");
    manifest->chunk_count = gw_chunk_count(manifest->state_bytes);
    gw_hash layout;
    gw_chunk_layout_hash(manifest->tensors, manifest->tensor_count, &layout);
    gw_chunk_root(&layout, manifest->state_bytes, manifest->chunks, manifest->chunk_count, &manifest->root);
    return true;
}

static uint64_t tensor_bytes(const gw_tensor *tensor) {
    if (tensor->role != GW_STATE) return 0;
    return gw_tensor_elements(tensor) * gw_dtype_bytes(tensor->dtype);
}

uint64_t gw_manifest_offset(const gw_manifest *manifest, uint32_t index) {
    GW_ASSERT(index < manifest->tensor_count);
    if (manifest->offsets != NULL) return manifest->offsets[index];
    uint64_t offset = 0;
    for (uint32_t i = 0; i < index; i++) offset += tensor_bytes(&manifest->tensors[i]);
    return offset;
}

gw_checkpoint_ref gw_manifest_best(const gw_manifest *manifest, double *value) {
    const gw_best *best = &manifest->best;
    bool itself =
        best->any && best->step == manifest->step; /* it was not known to be whole when it was written */
    *value = itself ? best->value : best->kept_value;
    return itself ? (gw_checkpoint_ref){manifest->step, manifest->root} : best->kept;
}

const char *gw_manifest_param(const gw_manifest *manifest, const char *name) {
    for (uint32_t i = 0; i < manifest->param_count; i++)
        if (strcmp(manifest->params[i].name, name) == 0) return manifest->params[i].value;
    return NULL;
}

bool gw_manifest_is_copy(const gw_manifest *manifest) {
    char own[24];
    const char *step = gw_manifest_param(manifest, "parent-step");
    snprintf(own, sizeof own, "%llu", (unsigned long long)manifest->step);
    return step != NULL && strcmp(step, own) == 0;
}

/* Encoding. */

static void put_tensors(gw_writer *w, const gw_manifest *manifest) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) count += manifest->tensors[i].role == GW_STATE;
    gw_put_u32(w, count);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const gw_tensor *tensor = &manifest->tensors[i];
        if (tensor->role != GW_STATE) continue;
        gw_put_string(w, tensor->name);
        gw_put_u8(w, (uint8_t)tensor->dtype);
        gw_put_u8(w, (uint8_t)tensor->rank);
        for (uint32_t d = 0; d < tensor->rank; d++) gw_put_u64(w, tensor->dim[d]);
        gw_put_u32(w, tensor->group);
        gw_put_u64(w, offset);
        offset += tensor_bytes(tensor);
    }
    GW_ASSERT(offset == manifest->state_bytes);
}

/* Whether builds that know no version after 4 can read the tensors of a manifest. */
static bool suits_early_builds(const gw_manifest *manifest) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        if (manifest->tensors[i].role != GW_STATE) continue;
        const char *name = manifest->tensors[i].name;
        size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");
        if (++count > EARLY_TENSORS || plain > EARLY_NAME || name[plain] != '\0') return false;
    }
    return true;
}

static uint8_t version_for(const gw_manifest *manifest) {
    if (!suits_early_builds(manifest) || manifest->best_by[0] != '\0') return VERSION;
    return manifest->epoch == 0 ? VERSION_EXACT : VERSION_EPOCH;
}

static void put_manifest(gw_writer *w, const gw_manifest *manifest, uint64_t file_bytes) {
    gw_put_bytes(w, magic, sizeof magic);
    uint8_t version = version_for(manifest);
    gw_put_u8(w, version);
    gw_put_u64(w, file_bytes);
    gw_put_hash(w, &manifest->job_id);
    gw_put_string(w, manifest->job_name);
    gw_put_u64(w, manifest->step);
    gw_put_u64(w, manifest->state_bytes);
    gw_put_u64(w, manifest->fingerprint);
    gw_put_u64(w, manifest->created_ms);
    gw_put_hash(w, &manifest->root);
    gw_put_u8(w, manifest->ended);
    bool has_best = manifest->best_by[0] != '\0';
    if (version >= VERSION)
        gw_put_u8(w, (uint8_t)((manifest->epoch != 0 ? FLAG_EPOCH : 0) | (has_best ? FLAG_BEST : 0)));
    if (manifest->epoch != 0) gw_put_u64(w, manifest->epoch);
    if (has_best) {
        gw_put_string(w, manifest->best_by);
        gw_best_put(w, &manifest->best);
    }
    gw_put_u32(w, manifest->param_count);
    for (uint32_t i = 0; i < manifest->param_count; i++) {
        gw_put_string(w, manifest->params[i].name);
        gw_put_string(w, manifest->params[i].value);
    }
    put_tensors(w, manifest);
    gw_put_u32(w, GW_CHUNK_BYTES);
    gw_put_u32(w, manifest->chunk_count);
    for (uint32_t i = 0; i < manifest->chunk_count; i++) gw_put_hash(w, &manifest->chunks[i]);
    gw_hash checksum;
    if (!w->failed) gw_blake2b(w->bytes, w->length, checksum.bytes, sizeof checksum.bytes);
    gw_put_hash(w, &checksum);
}

/* An upper bound of the encoded size. */
static size_t room_for(const gw_manifest *manifest) {
    size_t room = 512 + strlen(manifest->job_name) + (size_t)manifest->chunk_count * sizeof(gw_hash);
    for (uint32_t i = 0; i < manifest->param_count; i++)
        room += LEAST_PARAM_BYTES + strlen(manifest->params[i].name) + strlen(manifest->params[i].value);
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        room += LEAST_TENSOR_BYTES + 8 * GW_MAX_RANK + strlen(manifest->tensors[i].name);
    return room;
}

bool gw_manifest_encode(const gw_manifest *manifest, void **bytes, size_t *length, gw_err *err) {
    GW_ASSERT(manifest->chunk_count == gw_chunk_count(manifest->state_bytes));
    size_t room = room_for(manifest);
    uint8_t *memory = malloc(room);
    if (memory == NULL) return gw_fail(err, GW_E_NOMEM, "checkpoint/manifest: out of memory");
    gw_writer w = gw_writer_on(memory, room);
    put_manifest(&w, manifest, 0);
    size_t total = w.length;
    if (w.failed || total > GW_MANIFEST_MAX_BYTES || manifest->param_count > GW_MAX_PARAMS) {
        free(memory);
        return gw_fail(
            err, GW_E_LIMIT,
            "checkpoint/manifest: step %llu: a string over 65535 bytes, more than %d parameters, or "
            "more than %d bytes in all",
            (unsigned long long)manifest->step, GW_MAX_PARAMS, GW_MANIFEST_MAX_BYTES);
    }
    w = gw_writer_on(memory, room); /* written again, now that the length is known */
    put_manifest(&w, manifest, total);
    GW_ASSERT(!w.failed && w.length == total);
    *bytes = memory;
    *length = total;
    return true;
}

/* Decoding. */

/* Strings and arrays of a decoded manifest lie in one block; the size of each is rounded up to half of
 * ARENA_SLACK. */
enum { ARENA_SLACK = 32 };
typedef struct arena {
    uint8_t *bytes;
    size_t used, capacity;
} arena;

static void *arena_take(arena *a, size_t bytes) {
    size_t rounded = (bytes + ARENA_SLACK / 2 - 1) & ~(size_t)(ARENA_SLACK / 2 - 1);
    GW_ASSERT(rounded >= bytes && a->capacity - a->used >= rounded);
    void *at = a->bytes + a->used;
    a->used += rounded;
    return at;
}

typedef struct decoding {
    gw_reader r;
    uint8_t version;
    arena memory;
    gw_manifest *manifest;
    gw_err *err;
} decoding;

static bool fail_at(decoding *d, size_t offset, const char *what) {
    return gw_fail(d->err, GW_E_CORRUPT, "offset %zu: %s", offset, what);
}

/* Reads a string of at most `most` bytes into the arena; returns NULL after an error. */
static const char *take_string(decoding *d, size_t most, const char *what) {
    size_t offset = d->r.position;
    uint8_t peek[2] = {0};
    if (gw_reader_left(&d->r) >= 2) memcpy(peek, d->r.bytes + offset, 2);
    size_t length = (size_t)peek[0] | (size_t)peek[1] << 8;
    if (gw_reader_left(&d->r) < 2 + length || length > most) {
        fail_at(d, offset, what);
        return NULL;
    }
    char *text = arena_take(&d->memory, length + 1);
    gw_get_string(&d->r, text, length + 1);
    if (!d->r.failed) return text;
    fail_at(d, offset, what);
    return NULL;
}

/* Reads a count of items of at least `least` bytes each. A count that exceeds the file is refused before
 * anything of its size is allocated. */
static bool take_count(decoding *d, uint32_t most, size_t least, const char *what, uint32_t *count) {
    size_t offset = d->r.position;
    *count = gw_get_u32(&d->r);
    if (d->r.failed || *count > most || gw_reader_left(&d->r) < (uint64_t)*count * least)
        return fail_at(d, offset, what);
    return true;
}

static bool take_params(decoding *d) {
    gw_manifest *m = d->manifest;
    if (!take_count(d, GW_MAX_PARAMS, LEAST_PARAM_BYTES, "impossible number of parameters", &m->param_count))
        return false;
    gw_param *params = arena_take(&d->memory, m->param_count * sizeof *params);
    m->params = params;
    for (uint32_t i = 0; i < m->param_count; i++) {
        params[i].name = take_string(d, UINT16_MAX, "bad parameter name");
        if (params[i].name == NULL) return false;
        params[i].value = take_string(d, UINT16_MAX, "bad parameter value");
        if (params[i].value == NULL) return false;
    }
    return true;
}

static bool take_tensor(decoding *d, uint32_t number, gw_tensor *tensor, uint64_t *offset) {
    size_t at = d->r.position;
    *tensor = (gw_tensor){.role = GW_STATE};
    tensor->name = take_string(d, d->version < VERSION ? EARLY_NAME : GW_MAX_TENSOR_NAME, "bad tensor name");
    if (tensor->name == NULL) return false;
    gw_err why;
    if (d->version >= VERSION && !gw_layout_check_name(tensor->name, number, &why))
        return fail_at(d, at, why.text);
    uint8_t dtype = gw_get_u8(&d->r);
    tensor->dtype = dtype;
    tensor->rank = gw_get_u8(&d->r);
    if (d->r.failed || dtype < GW_F32 || dtype > GW_DTYPE_LAST || tensor->rank < 1 ||
        tensor->rank > GW_MAX_RANK)
        return fail_at(d, at, "bad tensor type or rank");
    uint64_t bytes = gw_dtype_bytes(tensor->dtype);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        tensor->dim[i] = gw_get_u64(&d->r);
        if (__builtin_mul_overflow(bytes, tensor->dim[i], &bytes) || bytes > GW_MAX_STATE_BYTES)
            return fail_at(d, at, "impossible tensor shape");
    }
    tensor->group = gw_get_u32(&d->r);
    uint64_t stored = gw_get_u64(&d->r);
    if (d->r.failed || stored != *offset || *offset + bytes > d->manifest->state_bytes)
        return fail_at(d, at, "tensor outside the state or not at its place");
    *offset += bytes;
    return true;
}

static bool take_tensors(decoding *d) {
    gw_manifest *m = d->manifest;
    size_t at = d->r.position;
    if (!take_count(d, d->version < VERSION ? EARLY_TENSORS : GW_MAX_TENSORS, LEAST_TENSOR_BYTES,
                    "impossible number of tensors", &m->tensor_count))
        return false;
    gw_tensor *tensors = arena_take(&d->memory, m->tensor_count * sizeof *tensors);
    uint64_t *offsets = arena_take(&d->memory, m->tensor_count * sizeof *offsets);
    m->tensors = tensors;
    m->offsets = offsets;
    uint64_t offset = 0;
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        offsets[i] = offset;
        if (!take_tensor(d, i, &tensors[i], &offset)) return false;
    }
    return offset == m->state_bytes || fail_at(d, at, "the tensors do not make up the state");
}

static bool take_chunks(decoding *d) {
    gw_manifest *m = d->manifest;
    size_t at = d->r.position;
    if (gw_get_u32(&d->r) != GW_CHUNK_BYTES) return fail_at(d, at, "unknown chunk size");
    if (!take_count(d, GW_MAX_STATE_CHUNKS, sizeof(gw_hash), "impossible number of chunks", &m->chunk_count))
        return false;
    if (m->chunk_count != gw_chunk_count(m->state_bytes))
        return fail_at(d, at, "number of chunks and size of the state differ");
    gw_hash *chunks = arena_take(&d->memory, m->chunk_count * sizeof *chunks);
    m->chunks = chunks;
    for (uint32_t i = 0; i < m->chunk_count; i++) gw_get_hash(&d->r, &chunks[i]);
    return true;
}

static bool take_best(decoding *d) {
    gw_manifest *m = d->manifest;
    size_t at = d->r.position;
    gw_get_string(&d->r, m->best_by, sizeof m->best_by);
    m->best = gw_best_get(&d->r, m->step);
    bool named = m->best_by[strspn(m->best_by, "abcdefghijklmnopqrstuvwxyz0123456789._-:")] == '\0';
    return (!d->r.failed && m->best_by[0] != '\0' && named) || fail_at(d, at, "bad record of the best state");
}

static bool take_manifest(decoding *d) {
    gw_manifest *m = d->manifest;
    gw_get_hash(&d->r, &m->job_id);
    size_t at = d->r.position;
    gw_get_string(&d->r, m->job_name, sizeof m->job_name);
    if (d->r.failed) return fail_at(d, at, "bad job name");
    m->step = gw_get_u64(&d->r);
    at = d->r.position;
    m->state_bytes = gw_get_u64(&d->r);
    if (m->state_bytes > GW_MAX_STATE_BYTES) return fail_at(d, at, "impossible size of the state");
    m->fingerprint = gw_get_u64(&d->r);
    m->created_ms = gw_get_u64(&d->r);
    size_t root_at = d->r.position;
    gw_get_hash(&d->r, &m->root);
    at = d->r.position;
    uint8_t ended = gw_get_u8(&d->r);
    if (ended > 1) return fail_at(d, at, "a flag that is neither 0 nor 1");
    m->ended = ended == 1;
    bool has_epoch = d->version % 2 == 0, has_best = false; /* of the versions before 5 */
    if (d->version >= VERSION) {
        at = d->r.position;
        uint8_t flags = gw_get_u8(&d->r);
        if ((flags & ~FLAGS_KNOWN) != 0) return fail_at(d, at, "unknown flags");
        has_epoch = (flags & FLAG_EPOCH) != 0;
        has_best = (flags & FLAG_BEST) != 0;
    }
    if (has_epoch) {
        at = d->r.position;
        m->epoch = gw_get_epoch(&d->r);
        /* A job that resumes from it needs later epochs, which must fit as well. */
        if (m->epoch == 0 || m->epoch >= GW_EPOCH_END / 2) return fail_at(d, at, "impossible epoch");
    }
    if (has_best && !take_best(d)) return false;
    if (!take_params(d) || !take_tensors(d) || !take_chunks(d)) return false;
    if (gw_reader_left(&d->r) != CHECKSUM_BYTES) return fail_at(d, d->r.position, "bytes left over");
    gw_hash layout, root;
    gw_chunk_layout_hash(m->tensors, m->tensor_count, &layout);
    gw_chunk_root(&layout, m->state_bytes, m->chunks, m->chunk_count, &root);
    return gw_hash_equal(&root, &m->root) || fail_at(d, root_at, "the root is not that of the chunks");
}

/* Checks before parsing: that the bytes are a manifest, complete and undamaged. */
static bool check_envelope(const uint8_t *bytes, size_t length, gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    const uint8_t *start = gw_get_view(&r, sizeof magic);
    if (start == NULL || memcmp(start, magic, sizeof magic) != 0)
        return gw_fail(err, GW_E_INVALID, "offset 0: not a manifest");
    uint8_t version = gw_get_u8(&r);
    uint64_t file_bytes = gw_get_u64(&r);
    if (r.failed) return gw_fail(err, GW_E_CORRUPT, "offset %zu: truncated in its header", length);
    if (version < 1 || version > VERSION)
        return gw_fail(err, GW_E_UNSUPPORTED, "offset %zu: manifest version %u, this program knows 1 to %d",
                       sizeof magic, version, VERSION);
    if (length > GW_MANIFEST_MAX_BYTES)
        return gw_fail(err, GW_E_LIMIT, "%zu bytes, more than %d", length, GW_MANIFEST_MAX_BYTES);
    if (length < file_bytes)
        return gw_fail(err, GW_E_CORRUPT, "offset %zu: truncated, %llu bytes expected", length,
                       (unsigned long long)file_bytes);
    if (length != file_bytes || length < LEAST_BYTES)
        return gw_fail(err, GW_E_CORRUPT, "offset %zu: says %llu bytes, has %zu", sizeof magic + 1,
                       (unsigned long long)file_bytes, length);
    gw_hash checksum;
    gw_blake2b(bytes, length - CHECKSUM_BYTES, checksum.bytes, sizeof checksum.bytes);
    if (memcmp(checksum.bytes, bytes + length - CHECKSUM_BYTES, CHECKSUM_BYTES) != 0)
        return gw_fail(err, GW_E_CORRUPT, "offset %zu: checksum differs", length - CHECKSUM_BYTES);
    return true;
}

bool gw_manifest_decode(const void *bytes, size_t length, gw_manifest *manifest, gw_err *err) {
    *manifest = (gw_manifest){0};
    if (!check_envelope(bytes, length, err)) return false;
    decoding d = {.r = gw_reader_on(bytes, length),
                  .version = ((const uint8_t *)bytes)[sizeof magic],
                  .manifest = manifest,
                  .err = err};
    /* Strings and chunk names need as many bytes as in the file. A file of this length has
     * no more tensors than that. */
    size_t tensors =
        length / LEAST_TENSOR_BYTES < GW_MAX_TENSORS ? length / LEAST_TENSOR_BYTES : GW_MAX_TENSORS;
    d.memory.capacity = length + GW_MAX_PARAMS * (sizeof(gw_param) + 2 * ARENA_SLACK) +
                        tensors * (sizeof(gw_tensor) + sizeof(uint64_t) + ARENA_SLACK) + 4 * ARENA_SLACK;
    d.memory.bytes = malloc(d.memory.capacity);
    if (d.memory.bytes == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory for a manifest");
    manifest->memory = d.memory.bytes;
    gw_get_view(&d.r, HEADER_BYTES);
    if (take_manifest(&d)) return true;
    gw_manifest_free(manifest);
    return false;
}

void gw_manifest_free(gw_manifest *manifest) {
    free(manifest->memory);
    *manifest = (gw_manifest){0};
}
