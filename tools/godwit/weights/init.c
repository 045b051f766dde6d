#include "tools/godwit/weights/init.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/params.h"
#include "kernels/model/gpt/config.h"
#include "kernels/model/gpt/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DIRS = 256 };

/* Splits `list` at its commas, unless it names one directory, since a name may have commas, and cuts what
 * chooses a checkpoint off the last one. */
static bool split_list(char *list, char **dirs, uint32_t *count, gw_checkpoint_choice *choice, gw_err *err) {
    gw_checkpoint_choice of_one = *choice;
    char *one = strdup(list), *rest = list, *dir;
    struct stat about;
    GW_ASSERT_MEMORY(one != NULL);
    gw_checkpoint_choice_cut(one, &of_one);
    bool single = stat(one, &about) == 0;
    free(one);
    *count = 0;
    if (single) dirs[(*count)++] = list;
    while (!single && (dir = strsep(&rest, ",")) != NULL) {
        if (*count == DIRS) return gw_fail(err, GW_E_LIMIT, "more than %d directories", DIRS);
        dirs[(*count)++] = dir;
    }
    gw_checkpoint_choice_cut(dirs[*count - 1], choice);
    return true;
}

/* Fails because a checkpoint is chosen behind another directory than the last: what is chosen is of all of
 * them. */
static bool check_choices(char *const *dirs, uint32_t count, gw_err *err) {
    for (uint32_t i = 0; i + 1 < count; i++) {
        gw_checkpoint_choice chosen = {.step = GW_CHECKPOINT_NEWEST};
        const char *at = strrchr(dirs[i], '@');
        gw_checkpoint_choice_cut(dirs[i], &chosen);
        if (chosen.best || chosen.job != NULL || chosen.step != GW_CHECKPOINT_NEWEST)
            return gw_fail(
                err, GW_E_USAGE,
                "'%s@%s' stands before a comma: the directories are of one checkpoint, which is chosen "
                "behind the last of them: %s,%s@%s",
                dirs[i], at + 1, dirs[i], dirs[count - 1], at + 1);
    }
    return true;
}

static bool is_directory(const char *path, struct stat *about) {
    return stat(path, about) == 0 && S_ISDIR(about->st_mode);
}

/* Logs the checkpoint that was taken, in the form that the option accepts. */
static void log_choice(char *const *dirs, uint32_t count, const gw_model *model) {
    char text[800] = "", job[GW_CHECKPOINT_JOB_TEXT];
    for (uint32_t i = 0, used = 0; i < count && used < sizeof text; i++)
        used += (uint32_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "," : "", dirs[i]);
    gw_log(GW_INFO, "init", "the job begins with the weights of --init %s@%s:%llu%s", text,
           gw_checkpoint_job_short(&model->job_id, job), (unsigned long long)model->step,
           model->jobs > 1 ? ", of the job that was saved last; other jobs there may be meant: `godwit "
                             "inspect` lists them"
                           : "");
}

static bool load_model(char *const *dirs, uint32_t count, const gw_checkpoint_choice *choice, gw_model *model,
                       gw_err *err) {
    if (!gw_model_load(dirs, count, choice, NULL, model, err)) return false;
    log_choice(dirs, count, model);
    return true;
}

static const char *const shape_names[] = {"layers", "heads", "channels", "context"};
enum { SHAPE = sizeof shape_names / sizeof shape_names[0], NUMBER = 12 };

/* Adds the options of the shape that are not given. The texts of their values are in the same allocation,
 * behind the new list. */
static bool add_shape(gw_params *params, const uint32_t values[SHAPE], gw_err *err) {
    gw_param *list = calloc(1, (params->count + SHAPE) * sizeof *list + SHAPE * NUMBER);
    if (list == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    char *text = (char *)(list + params->count + SHAPE);
    memcpy(list, params->list, params->count * sizeof *list);
    uint32_t count = params->count;
    for (int i = 0; i < SHAPE; i++, text += NUMBER) {
        if (values[i] == 0 || gw_param_text(params, shape_names[i]) != NULL) continue;
        snprintf(text, NUMBER, "%u", values[i]);
        list[count++] = (gw_param){shape_names[i], text};
    }
    char options[120] = "";
    for (uint32_t i = params->count, used = 0; i < count; i++)
        used += (uint32_t)snprintf(options + used, sizeof options - used, " --%s %s", list[i].name,
                                   list[i].value);
    gw_log(GW_INFO, "init", "%s has the shape%s", gw_param_text(params, "init"), options);
    free((void *)(uintptr_t)params->list);
    params->list = list;
    params->count = count;
    return true;
}

/* Reads the shape that the options give, in the order of shape_names. */
static bool read_shape(const gw_params *params, uint32_t values[SHAPE], gw_err *err) {
    gw_gpt gpt;
    double rate;
    if (!gw_gpt_configure(params, &gpt, &rate, err)) return false;
    memcpy(values, (uint32_t[]){gpt.layers, gpt.heads, gpt.channels, gpt.context}, SHAPE * sizeof *values);
    return true;
}

/* Returns the name of the preset with exactly this shape, or NULL. */
static const char *preset_of(const uint32_t values[SHAPE]) {
    const gw_param model = {"model", gw_gpt_model_of(values[0], values[2], values[3])};
    const gw_params params = {.list = &model, .count = 1};
    uint32_t preset[SHAPE];
    gw_err ignored;
    bool same = model.value != NULL && read_shape(&params, preset, &ignored) &&
                memcmp(preset, values, sizeof preset) == 0;
    return same ? model.value : NULL;
}

static bool is_given(const gw_params *params, int i) {
    return gw_param_text(params, shape_names[i]) != NULL;
}

/* Whether a file holds weights. The config.json beside another file is not its own. */
static bool is_weights(const char *path) {
    gw_safetensors file;
    gw_err ignored;
    bool good = gw_safetensors_begin(path, &file, &ignored);
    if (good) gw_safetensors_close(&file);
    return good;
}

/* Whether an option that is given is not that of the model. A smaller context takes the first of its
 * positions. */
static bool contradicts(const gw_params *params, const uint32_t values[SHAPE]) {
    for (int i = 0; i < SHAPE - 1; i++) {
        char own[NUMBER];
        snprintf(own, sizeof own, "%u", values[i]);
        if (is_given(params, i) && values[i] != 0 &&
            !gw_param_is_same(gw_param_text(params, shape_names[i]), own))
            return true;
    }
    return false;
}

static bool read_manifest_shape(void *context, gw_checkpoint *checkpoint, gw_err *err) {
    uint32_t tensors[GW_GPT_PARAMETERS];
    double dropout;
    return gw_model_shape(checkpoint->manifest, context, &dropout, tensors, err);
}

/* Reads the shape of the model in the checkpoint that gw_init_load will take. Where there is none, that
 * function says why. */
static bool read_checkpoint_shape(const char *init, gw_gpt *shape) {
    gw_checkpoint_choice choice = {.step = GW_CHECKPOINT_NEWEST, .job_name = GW_MODEL_JOB};
    char *copy = strdup(init), *dirs[DIRS];
    uint32_t count;
    gw_err ignored;
    struct stat about;
    GW_ASSERT_MEMORY(copy != NULL);
    bool good = split_list(copy, dirs, &count, &choice, &ignored);
    for (uint32_t i = 0; good && i < count; i++)
        good = is_directory(dirs[i], &about) && !gw_model_is_folder(dirs[i]);
    good = good && gw_checkpoint_use(dirs, count, &choice, NULL, read_manifest_shape, shape, &ignored);
    free(copy);
    return good;
}

/* Reads the shape of the model that --init names. *known becomes false where none can be read here. */
static bool read_init_shape(const char *init, gw_gpt *shape, bool *known, gw_err *err) {
    struct stat about;
    bool there = stat(init, &about) == 0;
    *known = there && (S_ISDIR(about.st_mode) ? gw_model_is_folder(init) : is_weights(init));
    if (*known) return gw_gpt_file_shape(init, shape, err) || gw_fail_in(err, "--init: %s", init);
    *known = (!there || S_ISDIR(about.st_mode)) && read_checkpoint_shape(init, shape);
    return true;
}

bool gw_init_take_shape(gw_params *params, gw_err *err) {
    const char *init = gw_param_text(params, "init"), *model = gw_param_text(params, "model");
    gw_gpt shape = {0};
    uint32_t without[SHAPE];
    bool known;
    if (init == NULL) return true;
    if (!read_init_shape(init, &shape, &known, err)) return false;
    if (!known) return true;
    if (model == NULL || strcmp(model, GW_GPT_USUAL) != 0 || !read_shape(params, without, err))
        return model != NULL && strcmp(model, GW_GPT_USUAL) != 0;
    const uint32_t values[SHAPE] = {shape.layers, shape.heads, shape.channels, shape.context};
    bool given = false, same = true;
    if (contradicts(params, values)) return true; /* the check of the weights names all options that fit */
    for (int i = 0; i < SHAPE; i++) {
        given |= is_given(params, i);
        same &= is_given(params, i) || values[i] == 0 || values[i] == without[i];
    }
    if (same) return true;
    const char *preset = given ? NULL : preset_of(values);
    if (preset == NULL) return add_shape(params, values, err);
    for (uint32_t i = 0; i < params->count; i++)
        if (strcmp(params->list[i].name, "model") == 0)
            ((gw_param *)(uintptr_t)params->list)[i].value = preset;
    gw_log(GW_INFO, "init", "%s has the shape --model %s", init, preset);
    return true;
}

bool gw_init_load(const gw_params *params, const char *dir, gw_model *model, gw_err *err) {
    *model = (gw_model){0};
    const char *list = gw_param_text(params, "init");
    char *copy = list != NULL ? strdup(list) : NULL, *dirs[DIRS];
    if (list == NULL) return true;
    if (copy == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    struct stat own = {0}, given;
    uint32_t count;
    gw_checkpoint_choice choice = {.step = GW_CHECKPOINT_NEWEST};
    bool good = split_list(copy, dirs, &count, &choice, err) && check_choices(dirs, count, err);
    bool from_dirs = good && !gw_model_is_folder(list) && is_directory(dirs[0], &given);
    for (uint32_t i = 0; from_dirs && good && i < count; i++)
        if (gw_model_is_folder(dirs[i]))
            good = gw_fail(
                err, GW_E_USAGE,
                "%s holds a model, not checkpoints: give it alone, without other folders and without @STEP",
                dirs[i]);
    for (uint32_t i = 0; from_dirs && good && i < count; i++) {
        bool same = is_directory(dirs[i], &given) && is_directory(dir, &own) && given.st_ino == own.st_ino &&
                    given.st_dev == own.st_dev;
        if (same)
            good = gw_fail(err, GW_E_USAGE, "%s is this peer's own --dir: give other directories", dirs[i]);
    }
    if (from_dirs && good) good = load_model(dirs, count, &choice, model, err);
    char beside[GW_PATH_BYTES];
    bool both = !from_dirs && good && gw_model_has_directory(list, beside);
    if (!from_dirs && good && stat(list, &given) == 0)
        gw_log(GW_INFO, "init", "the job begins with the weights of --init %s%s%s", list,
               both ? ", and not of the checkpoints in " : "", both ? beside : "");
    free(copy);
    return good || gw_fail_in(err, "--init");
}
