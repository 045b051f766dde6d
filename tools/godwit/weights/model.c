#include "tools/godwit/weights/model.h"

#include "core/base/assert.h"
#include "core/os/directory.h"
#include "kernels/host/memory.h"
#include "kernels/model/gpt/config.h"
#include "kernels/model/gpt/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NOWHERE = UINT32_MAX };

static uint32_t tensor_named(const gw_manifest *manifest, const char *name) {
    for (uint32_t t = 0; t < manifest->tensor_count; t++)
        if (strcmp(manifest->tensors[t].name, name) == 0) return t;
    return NOWHERE;
}

static bool read_shape(const gw_manifest *manifest, gw_gpt *gpt, double *dropout, uint32_t *tensors,
                       gw_err *err) {
    const gw_params params = {.list = manifest->params, .count = manifest->param_count};
    const char *stated = gw_param_text(&params, "dropout");
    double rate;
    if (gw_param_text(&params, "model") == NULL || !gw_gpt_configure(&params, gpt, &rate, err))
        return gw_fail(err, GW_E_UNSUPPORTED, "its parameters are not those of the job gpt of this version");
    *dropout = 0.0;
    if (stated != NULL && !gw_param_real(&params, "dropout", 0.0, 1.0, dropout, err))
        return gw_fail(err, GW_E_UNSUPPORTED, "its dropout '%.40s' is not a share from 0 to 1", stated);
    uint32_t words = tensor_named(manifest, "wte.weight");
    if (words != NOWHERE && manifest->tensors[words].dim[0] <= UINT32_MAX)
        gpt->vocabulary = (uint32_t)manifest->tensors[words].dim[0];
    for (uint32_t i = 0; i < gw_gpt_parameters(gpt); i++) {
        gw_gpt_parameter parameter = gw_gpt_parameter_of(gpt, i);
        tensors[i] = tensor_named(manifest, parameter.name);
        const gw_tensor *tensor = tensors[i] != NOWHERE ? &manifest->tensors[tensors[i]] : NULL;
        if (tensor == NULL || tensor->dtype != GW_F32 || tensor->rank != parameter.rank ||
            memcmp(tensor->dim, parameter.dim, parameter.rank * sizeof tensor->dim[0]) != 0)
            return gw_fail(err, GW_E_UNSUPPORTED,
                           "its tensor '%s' is not that of the job gpt of this version", parameter.name);
    }
    return true;
}

bool gw_model_shape(const gw_manifest *manifest, gw_gpt *gpt, double *dropout,
                    uint32_t tensors[GW_GPT_PARAMETERS], gw_err *err) {
    return read_shape(manifest, gpt, dropout, tensors, err) ||
           gw_fail_in(err, "checkpoint of step %llu", (unsigned long long)manifest->step);
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

static bool read_parameters(gw_checkpoint *checkpoint, const uint64_t *where, gw_model *model, gw_err *err) {
    const gw_manifest *manifest = checkpoint->manifest;
    uint8_t *bytes = malloc(GW_CHUNK_BYTES);
    bool read = bytes != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t c = 0; read && c < manifest->chunk_count; c++) {
        uint64_t first = gw_chunk_offset(c), length = gw_chunk_length(manifest->state_bytes, c);
        /* the chunk holds only moments, which the model does not need */
        if (!overlap(model, where, first, length, NULL)) continue;
        read = gw_checkpoint_chunk(checkpoint, c, bytes, err);
        if (read) overlap(model, where, first, length, bytes);
    }
    free(bytes);
    return read;
}

static bool load(void *context, gw_checkpoint *checkpoint, gw_err *err) {
    gw_model *model = context;
    const gw_manifest *manifest = checkpoint->manifest;
    uint32_t tensors[GW_GPT_PARAMETERS] = {0};
    uint64_t where[GW_GPT_PARAMETERS] = {0};
    *model = (gw_model){.step = manifest->step, .job_id = manifest->job_id, .jobs = checkpoint->jobs};
    if (!gw_model_shape(manifest, &model->gpt, &model->dropout, tensors, err)) return false;
    for (uint32_t i = 0; i < gw_gpt_parameters(&model->gpt); i++)
        where[i] = gw_manifest_offset(manifest, tensors[i]);
    if (allocate(model, err) && read_parameters(checkpoint, where, model, err)) return true;
    gw_model_free(model);
    return false;
}

bool gw_model_load(char *const *dirs, uint32_t dir_count, const gw_checkpoint_choice *choice,
                   const char *program, gw_model *model, gw_err *err) {
    gw_checkpoint_choice own = *choice;
    own.job_name = GW_MODEL_JOB;
    *model = (gw_model){0};
    return gw_checkpoint_use(dirs, dir_count, &own, program, load, model, err);
}

/* Writes the path of the directory of a peer that is in the folder or the folder itself; false: there is
 * none. */
static bool find_directory(const char *folder, char path[GW_PATH_BYTES]) {
    char manifests[GW_PATH_BYTES];
    struct stat about;
    gw_err ignored;
    if (!gw_directory_find(folder, path, &ignored)) return false;
    return strcmp(path, folder) != 0 || (gw_durable_path(manifests, &ignored, "%s/manifests", folder) &&
                                         stat(manifests, &about) == 0 && S_ISDIR(about.st_mode));
}

bool gw_model_has_directory(const char *folder, char path[GW_PATH_BYTES]) {
    return gw_model_is_folder(folder) && find_directory(folder, path);
}

bool gw_model_is_folder(const char *path) {
    char directory[GW_PATH_BYTES];
    if (!gw_safetensors_is_folder(path)) return false;
    if (!find_directory(path, directory)) return true;
    return strcmp(directory, path) != 0 && gw_safetensors_has_weights(path);
}

/* Reads the shape that a folder's config.json names, within the bounds of the job's options. */
static bool read_folder_shape(const char *path, gw_gpt *gpt, gw_err *err) {
    gw_gpt shape;
    if (!gw_gpt_file_shape(path, &shape, err)) return false;
    const uint32_t values[] = {shape.layers, shape.heads, shape.channels, shape.context};
    static const char *const names[] = {"layers", "heads", "channels", "context"};
    enum { SHAPE = sizeof names / sizeof *names };
    char texts[SHAPE][12];
    double rate;
    gw_param list[SHAPE + 1] = {[SHAPE] = {"model", GW_GPT_USUAL}};
    for (int i = 0; i < SHAPE; i++) {
        if (values[i] == 0) return gw_fail(err, GW_E_INVALID, "no config.json here tells its %s", names[i]);
        snprintf(texts[i], sizeof texts[i], "%u", values[i]);
        list[i] = (gw_param){names[i], texts[i]};
    }
    const gw_params params = {.list = list, .count = SHAPE + 1};
    return gw_gpt_configure(&params, gpt, &rate, err);
}

/* Checks the shape of the model in a folder, whose weights are open, and makes room for it. */
static bool prepare_folder(const char *path, const gw_safetensors *file, gw_model *model, gw_err *err) {
    gw_gpt *gpt = &model->gpt;
    if (!read_folder_shape(path, gpt, err)) return false;
    gpt->vocabulary = gw_gpt_file_vocabulary(file);
    return gw_gpt_file_check(gpt, file, gpt->heads, err) && gw_gpt_file_check_config(gpt, path, err) &&
           allocate(model, err);
}

bool gw_model_load_folder(const char *path, gw_model *model, gw_err *err) {
    gw_safetensors file;
    *model = (gw_model){0};
    if (!gw_safetensors_begin(path, &file, err)) return gw_fail_in(err, "%s", path);
    bool good = prepare_folder(path, &file, model, err);
    for (uint32_t i = 0; good && i < gw_gpt_parameters(&model->gpt); i++)
        good = gw_gpt_file_read(&model->gpt, &file, i, 0, elements_of(model, i), model->parameters[i], err);
    gw_safetensors_close(&file);
    if (good) return true;
    gw_model_free(model);
    return gw_fail_in(err, "%s", path);
}

void gw_model_free(gw_model *model) {
    gw_memory_unmap(model->memory, model->bytes);
    *model = (gw_model){0};
}
