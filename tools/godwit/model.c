#include "tools/godwit/model.h"

#include "checkpoint/catalog.h"
#include "checkpoint/store.h"
#include "core/check.h"
#include "kernels/gpt_config.h"
#include "kernels/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOWHERE = UINT32_MAX };

/* What is to be read from: the checkpoints of the job gpt in all directories, newest first. */
typedef struct source {
    gw_store **stores;
    gw_catalog *catalogs;
    uint32_t count; /* directories */
    const gw_manifest **candidates;
    uint32_t candidate_count;
    const gw_catalog_bad *bad; /* one of the damaged manifests; NULL: there is none */
    const char *program;       /* or NULL */
} source;

static void source_close(source *s) {
    for (uint32_t d = 0; d < s->count; d++) {
        if (s->stores != NULL) gw_store_close(s->stores[d]);
        if (s->catalogs != NULL) gw_catalog_free(&s->catalogs[d]);
    }
    free(s->candidates);
    free(s->catalogs);
    free(s->stores);
}

/* Adds what one directory has of the job; all of it may have a manifest of the same checkpoint. */
static bool add_candidates(source *s, const gw_catalog *catalog, gw_err *err) {
    const gw_manifest **grown =
        realloc(s->candidates, (s->candidate_count + catalog->good_count + 1) * sizeof(gw_manifest *));
    if (grown == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    s->candidates = grown;
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *manifest = &catalog->good[i];
        bool known = strcmp(manifest->job_name, "gpt") != 0;
        for (uint32_t c = 0; !known && c < s->candidate_count; c++) {
            const gw_manifest *one = s->candidates[c];
            known = one->step == manifest->step && gw_hash_equal(&one->root, &manifest->root);
            if (known && manifest->epoch > one->epoch) s->candidates[c] = manifest;
        }
        if (!known) s->candidates[s->candidate_count++] = manifest;
    }
    for (uint32_t i = 0; i < catalog->bad_count; i++) {
        s->bad = &catalog->bad[i];
        if (s->program != NULL)
            fprintf(stderr, "%s: passed over a manifest: %s\n", s->program, s->bad->err.text);
    }
    return true;
}

static bool source_open(source *s, char *const *dirs, uint32_t count, const char *program, gw_err *err) {
    *s = (source){.count = count, .program = program};
    s->stores = calloc(count, sizeof(gw_store *));
    s->catalogs = calloc(count, sizeof *s->catalogs);
    if (s->stores == NULL || s->catalogs == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t d = 0; d < count; d++) {
        if (access(dirs[d], F_OK) != 0) return gw_fail_errno(err, errno, "%s", dirs[d]);
        if (!gw_store_open(dirs[d], GW_STORE_LOOK, NULL, &s->stores[d], err) ||
            !gw_catalog_load(gw_io_system(), dirs[d], &s->catalogs[d], err) ||
            !add_candidates(s, &s->catalogs[d], err))
            return false;
    }
    gw_catalog_order(s->candidates, s->candidate_count);
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
    if (dropout != NULL && !gw_param_real(&params, "dropout", 0.0, 1.0, &model->dropout, err))
        return gw_fail(err, GW_E_UNSUPPORTED, "its dropout '%.40s' is no part of the activations", dropout);
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

static bool load(const source *s, const gw_manifest *manifest, gw_model *model, gw_err *err) {
    uint64_t where[GW_GPT_PARAMETERS] = {0};
    *model = (gw_model){0};
    if (read_shape(manifest, model, where, err) && allocate(model, err) &&
        read_parameters(manifest, s->stores, s->count, where, model, err))
        return true;
    gw_model_free(model);
    return gw_fail_in(err, "checkpoint of step %llu", (unsigned long long)manifest->step);
}

/* There is nothing to try. */
static bool fail_empty(const source *s, const char *dir, uint64_t step, gw_err *err) {
    if (s->candidate_count > 0) {
        char steps[200] = "";
        for (uint32_t i = 0, used = 0; i < s->candidate_count && used + 24 < sizeof steps; i++)
            used += (uint32_t)snprintf(steps + used, sizeof steps - used, "%s%llu", i > 0 ? ", " : "",
                                       (unsigned long long)s->candidates[i]->step);
        return gw_fail(err, GW_E_NOTFOUND, "there is no checkpoint of step %llu, but of %s",
                       (unsigned long long)step, steps);
    }
    if (s->bad != NULL)
        return gw_fail(err, s->bad->err.code, "%s holds no sound checkpoint of a job gpt: %s", dir,
                       s->bad->err.text);
    return gw_fail(err, GW_E_NOTFOUND, "%s holds no checkpoint of a job gpt", dir);
}

bool gw_model_load(char *const *dirs, uint32_t dir_count, uint64_t step, const char *program, gw_model *model,
                   gw_err *err) {
    GW_CHECK(dir_count > 0);
    source s;
    *model = (gw_model){0};
    bool done = false, usable = source_open(&s, dirs, dir_count, program, err);
    uint32_t tried = 0;
    for (uint32_t i = 0; usable && !done && i < s.candidate_count; i++) {
        if (step != GW_MODEL_NEWEST && s.candidates[i]->step != step) continue;
        if (tried++ > 0 && program != NULL) fprintf(stderr, "%s: passed over the %s\n", program, err->text);
        done = load(&s, s.candidates[i], model, err);
        usable = done || (program != NULL && err->code != GW_E_NOMEM);
    }
    if (usable && !done && tried == 0) fail_empty(&s, dirs[0], step, err);
    source_close(&s);
    return done;
}

void gw_model_free(gw_model *model) {
    gw_memory_give(model->memory, model->bytes);
    *model = (gw_model){0};
}
