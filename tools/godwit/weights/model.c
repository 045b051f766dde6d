#include "tools/godwit/weights/model.h"

#include "checkpoint/catalog.h"
#include "checkpoint/store.h"
#include "core/base/assert.h"
#include "core/os/directory.h"
#include "kernels/host/memory.h"
#include "kernels/model/gpt/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOWHERE = UINT32_MAX, LOOKS = 5 };

typedef struct found_job {
    const gw_hash *id;
    uint64_t saved_ms; /* wall clock time at which its latest checkpoint was written */
    bool has_step;     /* it has a checkpoint of the step that was asked for */
} found_job;

/* The checkpoints of one gpt job in all directories, newest first. */
typedef struct source {
    gw_store **stores;
    gw_catalog *catalogs;
    uint32_t count;  /* number of directories */
    found_job *jobs; /* the jobs that the choice allows; the first one is read */
    uint32_t job_count;
    const gw_manifest **candidates;
    uint32_t candidate_count;
    const gw_catalog_bad *bad; /* one of the damaged manifests; NULL = none */
    const char *program;       /* NULL = strict (gw_model_load) */
    bool deleted;              /* a run has deleted the checkpoint that was tried last */
} source;

static void source_close(source *s) {
    for (uint32_t d = 0; d < s->count; d++) {
        if (s->stores != NULL) gw_store_close(s->stores[d]);
        if (s->catalogs != NULL) gw_catalog_free(&s->catalogs[d]);
    }
    free(s->candidates);
    free(s->jobs);
    free(s->catalogs);
    free(s->stores);
}

static bool is_allowed(const gw_manifest *manifest, const gw_model_choice *choice) {
    char id[GW_HASH_TEXT];
    gw_hex(manifest->job_id.bytes, sizeof manifest->job_id.bytes, id);
    return strcmp(manifest->job_name, "gpt") == 0 &&
           (choice->job == NULL || strncasecmp(id, choice->job, strlen(choice->job)) == 0);
}

static void add_job(source *s, const gw_manifest *manifest, uint64_t step) {
    uint32_t j = 0;
    while (j < s->job_count && !gw_hash_equal(s->jobs[j].id, &manifest->job_id)) j++;
    if (j == s->job_count) s->jobs[s->job_count++] = (found_job){.id = &manifest->job_id};
    if (manifest->created_ms > s->jobs[j].saved_ms) s->jobs[j].saved_ms = manifest->created_ms;
    s->jobs[j].has_step |= step == GW_MODEL_NEWEST || manifest->step == step;
}

/* Orders jobs: first those that have the step, then those saved last, then by id, so that the order does
 * not depend on how they were found. */
static int to_be_read_first(const void *a, const void *b) {
    const found_job *left = a, *right = b;
    if (left->has_step != right->has_step) return left->has_step ? -1 : 1;
    if (left->saved_ms != right->saved_ms) return left->saved_ms > right->saved_ms ? -1 : 1;
    return memcmp(left->id->bytes, right->id->bytes, sizeof left->id->bytes);
}

/* Writes the ids of the jobs from `first` on, as in "1f3a5c7d, 8c1d22e0", as far as there is room. */
static const char *job_names(const source *s, uint32_t first, char text[200]) {
    uint32_t used = 0;
    text[0] = '\0';
    for (uint32_t j = first; j < s->job_count && used + 16 < 200; j++) {
        char id[GW_MODEL_JOB_TEXT];
        used += (uint32_t)snprintf(text + used, 200 - used, "%s%s", j > first ? ", " : "",
                                   gw_model_job_short(s->jobs[j].id, id));
    }
    return text;
}

/* Fails if several jobs are left and the first one may not be chosen. Otherwise reports that it is chosen. */
static bool settle_job(const source *s, const gw_model_choice *choice, gw_err *err) {
    char names[200], id[GW_MODEL_JOB_TEXT];
    if (s->job_count < 2) return true;
    if (s->program == NULL || choice->job != NULL)
        return gw_fail(err, GW_E_USAGE, "there are checkpoints of %u jobs%s%s: %s", s->job_count,
                       choice->job != NULL ? " whose ids begin with " : "",
                       choice->job != NULL ? choice->job : "", job_names(s, 0, names));
    fprintf(stderr, "%s: took job %s, which was saved last; choose another with --job: %s\n", s->program,
            gw_model_job_short(s->jobs[0].id, id), job_names(s, 1, names));
    return true;
}

static bool find_jobs(source *s, const gw_model_choice *choice, gw_err *err) {
    size_t most = 1;
    for (uint32_t d = 0; d < s->count; d++) most += s->catalogs[d].good_count;
    s->jobs = calloc(most, sizeof *s->jobs);
    s->candidates = calloc(most, sizeof(const gw_manifest *));
    if (s->jobs == NULL || s->candidates == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t d = 0; d < s->count; d++)
        for (uint32_t i = 0; i < s->catalogs[d].good_count; i++)
            if (is_allowed(&s->catalogs[d].good[i], choice))
                add_job(s, &s->catalogs[d].good[i], choice->step);
    qsort(s->jobs, s->job_count, sizeof *s->jobs, to_be_read_first);
    return settle_job(s, choice, err);
}

/* Adds the job's checkpoints in one directory. All directories may have a manifest of the same checkpoint. */
static void add_candidates(source *s, const gw_catalog *catalog) {
    for (uint32_t i = 0; i < catalog->good_count; i++) {
        const gw_manifest *manifest = &catalog->good[i];
        bool known = s->job_count == 0 || !gw_hash_equal(&manifest->job_id, s->jobs[0].id);
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
}

static bool source_open(source *s, char *const *dirs, uint32_t count, const gw_model_choice *choice,
                        const char *program, gw_err *err) {
    *s = (source){.count = count, .program = program};
    s->stores = calloc(count, sizeof(gw_store *));
    s->catalogs = calloc(count, sizeof *s->catalogs);
    if (s->stores == NULL || s->catalogs == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t d = 0; d < count; d++) {
        if (access(dirs[d], F_OK) != 0) return gw_fail_errno(err, errno, "%s", dirs[d]);
        char dir[GW_PATH_BYTES];
        if (!gw_directory_find(dirs[d], dir, err) ||
            !gw_store_open(dir, GW_STORE_LOOK, NULL, &s->stores[d], err) ||
            !gw_catalog_load(gw_io_system(), dir, &s->catalogs[d], err))
            return false;
    }
    if (!find_jobs(s, choice, err)) return false;
    for (uint32_t d = 0; d < count; d++) add_candidates(s, &s->catalogs[d]);
    gw_catalog_order(s->candidates, s->candidate_count);
    return true;
}

static uint32_t tensor_named(const gw_manifest *manifest, const char *name) {
    for (uint32_t t = 0; t < manifest->tensor_count; t++)
        if (strcmp(manifest->tensors[t].name, name) == 0) return t;
    return NOWHERE;
}

/* Reads the model's shape from the job's parameters, and checks that the tensors have it. `where` becomes
 * each parameter's offset in the state image. */
static bool read_shape(const gw_manifest *manifest, gw_model *model, uint64_t *where, gw_err *err) {
    const gw_params params = {.list = manifest->params, .count = manifest->param_count};
    const char *dropout = gw_param_text(&params, "dropout");
    double rate;
    if (gw_param_text(&params, "model") == NULL || !gw_gpt_configure(&params, &model->gpt, &rate, err))
        return gw_fail(err, GW_E_UNSUPPORTED, "its parameters are not those of the job gpt of this version");
    if (dropout != NULL && !gw_param_real(&params, "dropout", 0.0, 1.0, &model->dropout, err))
        return gw_fail(err, GW_E_UNSUPPORTED, "its dropout '%.40s' is not a share from 0 to 1", dropout);
    uint32_t words = tensor_named(manifest, "wte.weight");
    if (words != NOWHERE && manifest->tensors[words].dim[0] <= UINT32_MAX)
        model->gpt.vocabulary = (uint32_t)manifest->tensors[words].dim[0];
    for (uint32_t i = 0; i < gw_gpt_parameters(&model->gpt); i++) {
        gw_gpt_parameter parameter = gw_gpt_parameter_of(&model->gpt, i);
        uint32_t t = tensor_named(manifest, parameter.name);
        const gw_tensor *tensor = t != NOWHERE ? &manifest->tensors[t] : NULL;
        if (tensor == NULL || tensor->dtype != GW_F32 || tensor->rank != parameter.rank ||
            memcmp(tensor->dim, parameter.dim, parameter.rank * sizeof tensor->dim[0]) != 0)
            return gw_fail(err, GW_E_UNSUPPORTED,
                           "its tensor '%s' is not that of the job gpt of this version", parameter.name);
        where[i] = gw_manifest_offset(manifest, t);
    }
    model->step = manifest->step;
    model->job_id = manifest->job_id;
    return true;
}

static uint64_t elements_of(const gw_model *model, uint32_t number) {
    gw_gpt_parameter parameter = gw_gpt_parameter_of(&model->gpt, number);
    return parameter.dim[0] * (parameter.rank == 2 ? parameter.dim[1] : 1);
}

static bool allocate(gw_model *model, gw_err *err) {
    model->bytes = gw_gpt_size(&model->gpt) * sizeof(float);
    if (!gw_memory_map(model->bytes, &model->memory, err)) return false;
    float *next = model->memory;
    for (uint32_t i = 0; i < gw_gpt_parameters(&model->gpt); i++) {
        model->parameters[i] = next;
        next += elements_of(model, i);
    }
    return true;
}

/* Reads a chunk from the first store that has it. */
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
    return gw_fail(
        err, GW_E_NOTFOUND,
        "chunk %u of %u of step %llu is in none of the directories: give those of the other peers too", chunk,
        manifest->chunk_count, (unsigned long long)manifest->step);
}

/* Whether a chunk holds parts of the parameters; copies them, unless `bytes` is NULL. */
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
        /* the chunk holds only moments, which the model does not need */
        if (!overlap(model, where, first, length, NULL)) continue;
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

/* Fails where there is no checkpoint to try. */
static bool fail_empty(const source *s, const char *dir, const gw_model_choice *choice, gw_err *err) {
    if (s->candidate_count > 0) {
        char steps[200] = "";
        for (uint32_t i = 0, used = 0; i < s->candidate_count && used + 24 < sizeof steps; i++)
            used += (uint32_t)snprintf(steps + used, sizeof steps - used, "%s%llu", i > 0 ? ", " : "",
                                       (unsigned long long)s->candidates[i]->step);
        return gw_fail(err, GW_E_NOTFOUND,
                       "there is no checkpoint of step %llu; there are those of the steps %s",
                       (unsigned long long)choice->step, steps);
    }
    const char *named = choice->job != NULL ? " whose id begins with " : "";
    const char *job = choice->job != NULL ? choice->job : "";
    if (s->bad != NULL)
        return gw_fail(err, s->bad->err.code, "%s holds no intact checkpoint of a gpt job%s%s: %s", dir,
                       named, job, s->bad->err.text);
    return gw_fail(err, GW_E_NOTFOUND, "%s holds no checkpoint of a gpt job%s%s", dir, named, job);
}

static bool has(const gw_catalog *catalog, const gw_manifest *manifest) {
    for (uint32_t i = 0; i < catalog->good_count; i++)
        if (catalog->good[i].step == manifest->step && gw_hash_equal(&catalog->good[i].root, &manifest->root))
            return true;
    return false;
}

/* Whether a directory no longer has the checkpoint that it had. A manifest is deleted before its chunks
 * (catalog.h). */
static bool was_deleted(const source *s, const gw_manifest *manifest) {
    bool deleted = false;
    for (uint32_t d = 0; !deleted && d < s->count; d++) {
        gw_catalog now;
        gw_err ignored;
        if (!has(&s->catalogs[d], manifest) ||
            !gw_catalog_load(gw_io_system(), gw_store_dir(s->stores[d]), &now, &ignored))
            continue;
        deleted = !has(&now, manifest);
        gw_catalog_free(&now);
    }
    return deleted;
}

/* Loads the first checkpoint that can be read. When one has been deleted meanwhile it stops: older ones
 * will be deleted soon. */
static bool load_first(source *s, char *const *dirs, const gw_model_choice *choice, gw_model *model,
                       gw_err *err) {
    uint32_t tried = 0;
    for (uint32_t i = 0; i < s->candidate_count; i++) {
        const gw_manifest *manifest = s->candidates[i];
        if (choice->step != GW_MODEL_NEWEST && manifest->step != choice->step) continue;
        if (tried++ > 0) fprintf(stderr, "%s: passed over the %s\n", s->program, err->text);
        if (load(s, manifest, model, err)) return true;
        s->deleted = err->code == GW_E_NOTFOUND && was_deleted(s, manifest);
        if (s->deleted)
            return gw_fail(err, GW_E_NOTFOUND, "checkpoint of step %llu: it was deleted while it was read",
                           (unsigned long long)manifest->step);
        if (s->program == NULL || err->code == GW_E_NOMEM) return false;
    }
    if (tried == 0) return fail_empty(s, dirs[0], choice, err);
    gw_err why = *err;
    return why.code == GW_E_CORRUPT &&
           gw_fail(err, why.code, "%s: give the directories of the other peers too, or another --step",
                   why.text);
}

bool gw_model_load(char *const *dirs, uint32_t dir_count, const gw_model_choice *choice, const char *program,
                   gw_model *model, gw_err *err) {
    GW_ASSERT(dir_count > 0);
    *model = (gw_model){0};
    for (uint32_t look = 1;; look++) {
        source s;
        bool done = source_open(&s, dirs, dir_count, choice, program, err) &&
                    load_first(&s, dirs, choice, model, err);
        source_close(&s);
        if (done || !s.deleted || program == NULL || look == LOOKS) return done;
        fprintf(stderr, "%s: %s: looking again\n", program, err->text);
    }
}

const char *gw_model_job_short(const gw_hash *id, char text[GW_MODEL_JOB_TEXT]) {
    gw_hex(id->bytes, (GW_MODEL_JOB_TEXT - 1) / 2, text);
    return text;
}

bool gw_model_is_job(const char *text) {
    size_t length = strlen(text);
    return length > 0 && length < GW_HASH_TEXT && strspn(text, "0123456789abcdefABCDEF") == length;
}

void gw_model_free(gw_model *model) {
    gw_memory_unmap(model->memory, model->bytes);
    *model = (gw_model){0};
}
