#include "tools/godwit/command/export/files.h"

#include "core/base/assert.h"
#include "core/os/plain_file.h"
#include "kernels/data/safetensors.h"
#include "kernels/model/gpt/file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool gw_export_files_add(gw_export_files *files, const char *weights, const char *name, char *bytes,
                         size_t length, gw_err *err) {
    gw_export_file *file = &files->list[files->count];
    GW_ASSERT(files->count < GW_EXPORT_FILES);
    *file = (gw_export_file){.bytes = bytes, .length = length, .output = {.fd = -1}};
    int folder = (int)(basename(weights) - weights);
    if (bytes == NULL || asprintf(&file->path, "%.*s%s", folder, weights, name) < 0) {
        free(bytes);
        return gw_fail(err, GW_E_NOMEM, "no memory for %s", name);
    }
    files->count++;
    return true;
}

/* Whether a file holds exactly these bytes. */
static bool holds(const char *path, const char *bytes, size_t length) {
    gw_plain_file there;
    gw_err ignored;
    char *own = malloc(length + 1);
    bool same = own != NULL && gw_plain_open(path, &there, &ignored);
    if (same) {
        same = there.bytes == length && gw_plain_read(&there, 0, own, length, &ignored) &&
               memcmp(own, bytes, length) == 0;
        gw_plain_close(&there);
    }
    free(own);
    return same;
}

bool gw_export_files_check(const gw_export_files *files, const char *weights, gw_err *err) {
    for (uint32_t i = 0; i < files->count; i++) {
        const gw_export_file *file = &files->list[i];
        struct stat there;
        if (strcmp(basename(file->path), basename(weights)) == 0)
            return gw_fail(err, GW_E_USAGE,
                           "--to: %s is written beside the weights; name another file for them", file->path);
        if (stat(file->path, &there) != 0) continue;
        if (!S_ISREG(there.st_mode))
            return gw_fail(err, GW_E_INVALID,
                           "%s is there and is not a regular file: write to another folder", file->path);
        if (there.st_size == 0 || holds(file->path, file->bytes, file->length)) continue;
        if (strcmp(basename(file->path), GW_GPT_CONFIG) == 0 && gw_gpt_file_is_own_config(file->path))
            continue;
        return gw_fail(
            err, GW_E_DENIED,
            "%s exists and is none that this command wrote: write to another folder, move it away, "
            "or give --force",
            file->path);
    }
    return true;
}

bool gw_export_files_write(gw_export_files *files, gw_err *err) {
    for (uint32_t i = 0; i < files->count; i++) {
        gw_export_file *file = &files->list[i];
        if (!gw_output_open(file->path, &file->output, err)) return false;
        files->open++;
        if (!gw_output_write(&file->output, file->bytes, file->length, err) ||
            !gw_output_flush(&file->output, err))
            return false;
    }
    return true;
}

bool gw_export_files_end(gw_export_files *files, bool good, gw_err *err) {
    for (uint32_t i = 0; i < files->count; i++) {
        gw_export_file *file = &files->list[i];
        if (i < files->open) good = gw_output_end(&file->output, good, err);
        free(file->path);
        free(file->bytes);
    }
    *files = (gw_export_files){0};
    return good;
}

/* Takes the job's id from an object of notes, under this key. */
static bool take_id(const json_t *notes, const char *key, char id[GW_HASH_TEXT]) {
    const char *text = json_string_value(json_object_get(notes, key));
    if (text == NULL || strlen(text) != GW_HASH_TEXT - 1) return false;
    memcpy(id, text, GW_HASH_TEXT);
    return true;
}

static bool job_of_config(const char *weights, char id[GW_HASH_TEXT]) {
    char *path;
    int folder = (int)(basename(weights) - weights);
    if (asprintf(&path, "%.*s" GW_GPT_CONFIG, folder, weights) < 0) return false;
    json_t *config = gw_gpt_file_is_own_config(path) ? json_load_file(path, 0, NULL) : NULL;
    bool known = take_id(json_object_get(config, "godwit"), "job_id", id);
    json_decref(config);
    free(path);
    return known;
}

bool gw_export_files_job(const char *weights, bool config, char id[GW_HASH_TEXT]) {
    gw_safetensors file;
    gw_err ignored;
    if (config) return job_of_config(weights, id);
    if (!gw_safetensors_is_own(weights) || !gw_safetensors_open(weights, &file, &ignored)) return false;
    bool known = take_id(json_object_get(file.parts[0].header, "__metadata__"), "godwit.job_id", id);
    gw_safetensors_close(&file);
    return known || job_of_config(weights, id);
}
