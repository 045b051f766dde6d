#include "tools/godwit/init.h"

#include "core/log.h"
#include "kernels/gpt_file.h"
#include "tools/godwit/model.h"
#include "tools/godwit/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIRS = 256 };

/* Cuts `list` at its commas. */
static bool split(char *list, char **dirs, uint32_t *count, gw_err *err) {
    char *rest = list, *dir;
    for (*count = 0; (dir = strsep(&rest, ",")) != NULL; dirs[(*count)++] = dir)
        if (*count == DIRS) return gw_fail(err, GW_E_LIMIT, "more than %d directories", DIRS);
    return true;
}

static bool is_directory(const char *path, struct stat *about) {
    return stat(path, about) == 0 && S_ISDIR(about->st_mode);
}

/* Cuts "@STEP", "@JOB:" or "@JOB:STEP" off the last directory. What is there under the whole name is meant by
 * it. */
static void cut_choice(char *dir, gw_model_choice *choice) {
    struct stat about;
    char *at = strrchr(dir, '@'), *colon = at != NULL ? strchr(at, ':') : NULL;
    if (at == NULL || stat(dir, &about) == 0) return;
    const char *step = colon != NULL ? colon + 1 : at + 1;
    uint64_t number = GW_MODEL_NEWEST;
    if (!(colon != NULL && step[0] == '\0') && !gw_number_read(step, 0, GW_MODEL_NEWEST - 1, &number)) return;
    if (colon != NULL) {
        *colon = '\0';
        if (!gw_model_is_job(at + 1)) {
            *colon = ':';
            return;
        }
        choice->job = at + 1;
    }
    choice->step = number;
    *at = '\0';
}

/* As the option could have said it. */
static void log_taken(char *const *dirs, uint32_t count, const gw_model *model) {
    char text[800] = "", job[GW_MODEL_JOB_TEXT];
    for (uint32_t i = 0, used = 0; i < count && used < sizeof text; i++)
        used += (uint32_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "," : "", dirs[i]);
    gw_log(GW_INFO, "init", "begins with the weights of --init %s@%s:%llu", text,
           gw_model_job_short(&model->job_id, job), (unsigned long long)model->step);
}

static bool write_model(char *const *dirs, uint32_t count, const gw_model_choice *choice, const char *path,
                        gw_err *err) {
    gw_model model;
    if (!gw_model_load(dirs, count, choice, NULL, &model, err)) {
        if (err->code == GW_E_USAGE) gw_fail_in(err, "DIR@JOB: takes that of one job");
        return false;
    }
    log_taken(dirs, count, &model);
    bool written = gw_gpt_file_write(&model.gpt, (const float *const *)model.parameters, path, err);
    gw_model_free(&model);
    return written;
}

/* `params`, but for init's value. */
static bool replace(const gw_params *params, gw_init *init, gw_err *err) {
    init->list = calloc(params->count, sizeof *init->list);
    if (init->list == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < params->count; i++) {
        init->list[i] = params->list[i];
        if (strcmp(params->list[i].name, "init") == 0) init->list[i].value = init->path;
    }
    init->params = (gw_params){init->list, params->count};
    return true;
}

bool gw_init_open(const gw_params *params, const char *dir, gw_init *init, gw_err *err) {
    *init = (gw_init){.params = *params};
    const char *list = gw_param_text(params, "init");
    char *copy = list != NULL ? strdup(list) : NULL, *dirs[DIRS];
    if (list == NULL) return true;
    if (copy == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    struct stat own = {0}, given;
    uint32_t count;
    gw_model_choice choice = {.step = GW_MODEL_NEWEST};
    bool good = split(copy, dirs, &count, err);
    if (good) cut_choice(dirs[count - 1], &choice);
    bool from_dirs = good && is_directory(dirs[0], &given);
    for (uint32_t i = 0; from_dirs && good && i < count; i++) {
        bool same = is_directory(dirs[i], &given) && is_directory(dir, &own) && given.st_ino == own.st_ino &&
                    given.st_dev == own.st_dev;
        if (same) good = gw_fail(err, GW_E_USAGE, "%s is this peer's own --dir", dirs[i]);
    }
    if (from_dirs && good) {
        good = asprintf(&init->path, "%s/init.safetensors", dir) >= 0;
        if (!good) init->path = NULL;
        good = good ? write_model(dirs, count, &choice, init->path, err) && replace(params, init, err)
                    : gw_fail(err, GW_E_NOMEM, "out of memory");
    }
    free(copy);
    if (good) return true;
    gw_init_close(init);
    return gw_fail_in(err, "--init");
}

void gw_init_close(gw_init *init) {
    if (init->path != NULL) unlink(init->path);
    free(init->path);
    free(init->list);
    *init = (gw_init){.path = NULL};
}
