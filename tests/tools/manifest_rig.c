#include "manifest_rig.h"

#include "checkpoint/catalog.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <stdlib.h>

gw_hash rig_save_manifest(uint64_t step, uint8_t job) {
    const gw_tensor tensor = {
        .name = "w", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {RIG_STATE_BYTES}};
    const gw_hash chunk = {{1, 2, 3}};
    gw_manifest manifest = {.job_name = "test",
                            .job_id = {{job}},
                            .step = step,
                            .tensors = &tensor,
                            .tensor_count = 1,
                            .chunks = &chunk,
                            .chunk_count = 1};
    void *bytes;
    size_t length;
    gw_err err;
    cr_assert(gw_manifest_seal(&manifest, &err), "%s", err.text);
    cr_assert(gw_manifest_encode(&manifest, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_catalog_save(gw_io_system(), scratch_folder(), bytes, length, &err), "%s", err.text);
    free(bytes);
    return manifest.root;
}
