#include "tools/godwit/model.h"

#include "checkpoint/catalog.h"
#include "checkpoint/store.h"
#include "core/check.h"
#include "kernels/gpt_config.h"
#include "kernels/memory.h"

#include <stdlib.h>
#include <string.h>

enum { NOWHERE = UINT32_MAX };

/* The newest checkpoint of the job in one directory. */
static bool find_newest(const char *dir, gw_manifest *newest, bool *found, gw_err *err) {
    gw_catalog catalog;
    if (!gw_catalog_load(gw_io_system(), dir, &catalog, err)) return false;
    for (uint32_t i = 0; i < catalog.good_count; i++) {
        gw_manifest *manifest = &catalog.good[i];
        if (strcmp(manifest->job_name, "gpt") != 0 || (*found && manifest->step <= newest->step)) continue;
        if (*found) gw_manifest_free(newest);
        *newest = *manifest; /* taken over */
        *manifest = (gw_manifest){0};
        *found = true;
    }
    gw_catalog_free(&catalog);
    return true;
}

static uint32_t tensor_named(const gw_manifest *manifest, const char *name) {
    for (uint32_t t = 0; t < manifest->tensor_count; t++)
        if (strcmp(manifest->tensors[t].name, name) == 0) return t;
    return NOWHERE;
}

/* The model's shape from the job's parameters, and that its tensors have it. `where`: each parameter's offset
 * in the state image. */
static bool read_shape(const gw_manifest *manifest, gw_model *model, uint64_t *where, gw_err *err) {
    const gw_params params = {manifest->params, manifest->param_count};
    const char *dropout = gw_param_text(&params, "dropout");
    double rate;
    if (gw_param_text(&params, "model") == NULL || !gw_gpt_configure(&params, &model->gpt, &rate, err))
        return gw_fail(err, GW_E_UNSUPPORTED, "its parameters are not those of this version's job gpt");
    model->dropout = dropout != NULL ? strtod(dropout, NULL) : 0.0;
    uint32_t words = tensor_named(manifest, "wte.weight");
    if (words != NOWHERE && manifest->tensors[words].dim[0] <= UINT32_MAX)
        model->gpt.vocabulary = (uint32_t)manifest->tensors[words].dim[0];
    for (uint32_t i = 0; i < gw_gpt_parameters(&model->gpt); i++) {
        gw_gpt_parameter parameter = gw_gpt_parameter_of(&model->gpt, i);
        uint32_t t = tensor_named(manifest, parameter.name);
        const gw_tensor *tensor = t != NOWHERE ? &manifest->tensors[t] : NULL;
        if (tensor == NULL || tensor->dtype != GW_F32 || tensor->rank != parameter.rank ||
            memcmp(tensor->dim, parameter.dim, parameter.rank * sizeof tensor->dim[0]) != 0)
            return gw_fail(err, GW_E_UNSUPPORTED, "its tensor '%s' is not that of this version's job gpt",
                           parameter.name);
        where[i] = gw_manifest_offset(manifest, t);
    }
    model->step = manifest->step;
    return true;
}

static uint64_t elements_of(const gw_model *model, uint32_t number) {
    gw_gpt_parameter parameter = gw_gpt_parameter_of(&model->gpt, number);
    return parameter.dim[0] * (parameter.rank == 2 ? parameter.dim[1] : 1);
}

static bool allocate(gw_model *model, gw_err *err) {
    model->bytes = gw_gpt_size(&model->gpt) * sizeof(float);
    if (!gw_memory_take(model->bytes, &model->memory, err)) return false;
    float *next = model->memory;
    for (uint32_t i = 0; i < gw_gpt_parameters(&model->gpt); i++) {
        model->parameters[i] = next;
        next += elements_of(model, i);
    }
    return true;
}

/* From the first store that has it. */
static bool read_chunk(const gw_manifest *manifest, gw_store *const *stores, uint32_t store_count,
                       uint32_t chunk, void *bytes, gw_err *err) {
    gw_err damage = {.code = GW_OK};
    uint32_t length = gw_chunk_length(manifest->state_bytes, chunk);
    for (uint32_t s = 0; s < store_count; s++) {
        if (gw_store_read(stores[s], &manifest->chunks[chunk], bytes, length, err)) return true;
        if (err->code != GW_E_NOTFOUND) damage = *err;
    }
    if (damage.code != GW_OK) {
        *err = damage;
        return false;
    }
    return gw_fail(err, GW_E_NOTFOUND,
                   "chunk %u of %u of step %llu is not here: give the directories of the other peers too",
                   chunk, manifest->chunk_count, (unsigned long long)manifest->step);
}

/* Whether a chunk holds anything of the parameters; copies that, unless `bytes` is NULL. */
static bool overlap(const gw_model *model, const uint64_t *where, uint64_t first, uint64_t length,
                    const uint8_t *bytes) {
    bool any = false;
    for (uint32_t i = 0; i < gw_gpt_parameters(&model->gpt); i++) {
        uint64_t begin = where[i], end = begin + elements_of(model, i) * sizeof(float);
        uint64_t from = begin > first ? begin : first, to = end < first + length ? end : first + length;
        if (from >= to) continue;
        any = true;
        if (bytes != NULL)
            memcpy((uint8_t *)model->parameters[i] + (from - begin), bytes + (from - first), to - from);
    }
    return any;
}

static bool read_parameters(const gw_manifest *manifest, gw_store *const *stores, uint32_t store_count,
                            const uint64_t *where, gw_model *model, gw_err *err) {
    uint8_t *bytes = malloc(GW_CHUNK_BYTES);
    bool read = bytes != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t c = 0; read && c < manifest->chunk_count; c++) {
        uint64_t first = gw_chunk_offset(c), length = gw_chunk_length(manifest->state_bytes, c);
        if (!overlap(model, where, first, length, NULL)) continue; /* moments: nobody asks for them */
        read = read_chunk(manifest, stores, store_count, c, bytes, err);
        if (read) overlap(model, where, first, length, bytes);
    }
    free(bytes);
    return read;
}

static bool load(char *const *dirs, uint32_t dir_count, gw_store **stores, gw_model *model, gw_err *err) {
    gw_manifest manifest = {0};
    bool found = false, done = true;
    uint64_t where[GW_GPT_PARAMETERS] = {0};
    for (uint32_t d = 0; done && d < dir_count; d++)
        done = gw_store_open(dirs[d], GW_STORE_LOOK, NULL, &stores[d], err) &&
               find_newest(dirs[d], &manifest, &found, err);
    if (done && !found) done = gw_fail(err, GW_E_NOTFOUND, "%s holds no checkpoint of a job gpt", dirs[0]);
    if (done) {
        done = read_shape(&manifest, model, where, err) && allocate(model, err) &&
               read_parameters(&manifest, stores, dir_count, where, model, err);
        if (!done) gw_fail_in(err, "checkpoint of step %llu", (unsigned long long)manifest.step);
    }
    if (found) gw_manifest_free(&manifest);
    return done;
}

bool gw_model_load(char *const *dirs, uint32_t dir_count, gw_model *model, gw_err *err) {
    GW_CHECK(dir_count > 0);
    *model = (gw_model){0};
    gw_store **stores = calloc(dir_count, sizeof(gw_store *));
    if (stores == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool done = load(dirs, dir_count, stores, model, err);
    for (uint32_t d = 0; d < dir_count; d++) gw_store_close(stores[d]);
    free(stores);
    if (!done) gw_model_free(model);
    return done;
}

void gw_model_free(gw_model *model) {
    gw_memory_give(model->memory, model->bytes);
    *model = (gw_model){0};
}
