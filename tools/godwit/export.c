/* `godwit export`: a trained language model in the files that Hugging Face's transformers load. */
#include "kernels/gpt_file.h"
#include "tools/godwit/commands.h"
#include "tools/godwit/model.h"
#include "tools/godwit/number.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    char **dirs;
    uint32_t dir_count;
    const char *to;
    uint64_t step;
} arguments;

enum { KEY_TO = 256, KEY_STEP };

static const struct argp_option export_options[] = {
    {"to", KEY_TO, "FILE", 0, "Write the weights here (model.safetensors), and config.json beside them", 0},
    {"step", KEY_STEP, "N", 0, "The checkpoint of step N (the newest that is whole)", 0},
    {0},
};

static const char export_doc[] =
    "Writes the model of the newest whole checkpoint of a job gpt as safetensors, with GPT-2's names, and "
    "the config.json for it: transformers' GPT2LMHeadModel.from_pretrained loads the folder as it is.\v"
    "Each peer holds a part of a checkpoint: where one directory does not hold all of it, give several. "
    "Nothing in "
    "them is changed.";

static error_t parse_export(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case KEY_TO:
        a->to = arg;
        return 0;
    case KEY_STEP:
        a->step = gw_number_of_option(state, "--step", arg, 0, UINT64_MAX - 1);
        return 0;
    case ARGP_KEY_ARGS:
        a->dirs = state->argv + state->next;
        a->dir_count = (uint32_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which directory?");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* config.json in the folder of `file`. */
static bool write_config(const gw_model *model, const char *file, gw_err *err) {
    const char *slash = strrchr(file, '/');
    char *path = NULL;
    if (asprintf(&path, "%.*sconfig.json", slash != NULL ? (int)(slash - file + 1) : 0, file) < 0)
        return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool written = gw_gpt_file_write_config(&model->gpt, model->dropout, path, err);
    free(path);
    return written;
}

int gw_export_main(int argc, char **argv) {
    arguments a = {.to = "model.safetensors", .step = GW_MODEL_NEWEST};
    const struct argp argp = {
        .options = export_options, .parser = parse_export, .args_doc = "DIR...", .doc = export_doc};
    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0) return 2;
    gw_model model;
    gw_err err;
    bool done = gw_model_load(a.dirs, a.dir_count, a.step, argv[0], &model, &err);
    if (done) {
        done = gw_gpt_file_write(&model.gpt, (const float *const *)model.parameters, a.to, &err) &&
               write_config(&model, a.to, &err);
        if (done)
            printf("%s: %llu parameters after step %llu\n", a.to, (unsigned long long)gw_gpt_size(&model.gpt),
                   (unsigned long long)model.step);
        gw_model_free(&model);
    }
    if (!done) fprintf(stderr, "%s: %s\n", argv[0], err.text);
    return done ? 0 : 1;
}
