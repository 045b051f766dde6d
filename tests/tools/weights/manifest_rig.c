#include "tests/tools/weights/manifest_rig.h"

#include "checkpoint/catalog.h"
#include "checkpoint/store.h"
#include "core/state/chunk.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* Seals a manifest and saves it. Returns its root. */
static gw_hash save_manifest(gw_manifest *manifest) {
    void *bytes;
    size_t length;
    gw_err err;
    cr_assert(gw_manifest_seal(manifest, &err), "%s", err.text);
    cr_assert(gw_manifest_encode(manifest, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_catalog_save(gw_io_system(), scratch_folder(), bytes, length, &err), "%s", err.text);
    free(bytes);
    return manifest->root;
}

static gw_hash save(uint64_t step, uint8_t job, uint64_t state_bytes, const gw_hash *chunks, uint32_t count) {
    const gw_tensor tensor = {.name = "w", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {state_bytes}};
    gw_manifest manifest = {.job_name = "test",
                            .job_id = {{job}},
                            .step = step,
                            .tensors = &tensor,
                            .tensor_count = 1,
                            .chunks = chunks,
                            .chunk_count = count};
    return save_manifest(&manifest);
}

void rig_save_state(gw_manifest manifest, const void *state) {
    gw_store *store;
    gw_err err;
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < manifest.tensor_count; t++)
        bytes += gw_tensor_elements(&manifest.tensors[t]) * gw_dtype_bytes(manifest.tensors[t].dtype);
    uint32_t count = gw_chunk_count(bytes);
    gw_hash *names = calloc(count, sizeof *names);
    cr_assert_not_null(names);
    cr_assert(gw_store_open(scratch_folder(), GW_STORE_WRITE, NULL, &store, &err), "%s", err.text);
    for (uint32_t c = 0; c < count; c++) {
        gw_store_item item = {.bytes = (const uint8_t *)state + gw_chunk_offset(c),
                              .length = gw_chunk_length(bytes, c)};
        gw_blake2b(item.bytes, item.length, &item.name, sizeof item.name);
        names[c] = item.name;
        cr_assert(gw_store_put(store, manifest.step, &item, 1, &err), "%s", err.text);
    }
    gw_store_close(store);
    manifest.chunks = names;
    manifest.chunk_count = count;
    save_manifest(&manifest);
    free(names);
}

gw_hash rig_save_manifest(uint64_t step, uint8_t job) {
    const gw_hash chunk = {{1, 2, 3}};
    return save(step, job, RIG_STATE_BYTES, &chunk, 1);
}

gw_hash rig_save_zeros(uint64_t step, uint8_t job, uint32_t chunks) {
    gw_hash *names = calloc(chunks, sizeof *names);
    void *zeros = calloc(1, GW_CHUNK_BYTES);
    cr_assert(names != NULL && zeros != NULL);
    for (uint32_t i = 0; i < chunks; i++)
        gw_blake2b(zeros, GW_CHUNK_BYTES, names[i].bytes, sizeof names[i].bytes);
    gw_hash root = save(step, job, (uint64_t)chunks * GW_CHUNK_BYTES, names, chunks);
    free(zeros);
    free(names);
    return root;
}
