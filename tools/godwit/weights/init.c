#include "tools/godwit/weights/init.h"

#include "core/base/log.h"
#include "tools/godwit/text/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static bool load_model(char *const *dirs, uint32_t count, const gw_model_choice *choice, gw_model *model,
                       gw_err *err) {
    if (gw_model_load(dirs, count, choice, NULL, model, err)) {
        log_taken(dirs, count, model);
        return true;
    }
    if (err->code == GW_E_USAGE) gw_fail_in(err, "DIR@JOB: takes that of one job");
    return false;
}

bool gw_init_load(const gw_params *params, const char *dir, gw_model *model, gw_err *err) {
    *model = (gw_model){0};
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
    if (from_dirs && good) good = load_model(dirs, count, &choice, model, err);
    free(copy);
    return good || gw_fail_in(err, "--init");
}
