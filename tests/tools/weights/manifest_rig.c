#include "tests/tools/weights/manifest_rig.h"

#include "checkpoint/catalog.h"
#include "core/state/chunk.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static gw_hash save(uint64_t step, uint8_t job, uint64_t state_bytes, const gw_hash *chunks, uint32_t count) {
    const gw_tensor tensor = {.name = "w", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {state_bytes}};
    gw_manifest manifest = {.job_name = "test",
                            .job_id = {{job}},
                            .step = step,
                            .tensors = &tensor,
                            .tensor_count = 1,
                            .chunks = chunks,
                            .chunk_count = count};
    void *bytes;
    size_t length;
    gw_err err;
    cr_assert(gw_manifest_seal(&manifest, &err), "%s", err.text);
    cr_assert(gw_manifest_encode(&manifest, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_catalog_save(gw_io_system(), scratch_folder(), bytes, length, &err), "%s", err.text);
    free(bytes);
    return manifest.root;
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
