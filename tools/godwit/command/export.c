/* `godwit export` writes a trained language model as the files that Hugging Face's transformers load. */
#include "core/os/output.h"
#include "kernels/model/gpt/file.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/weights/model.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WEIGHTS "model.safetensors" /* the file name that transformers looks for */

typedef struct arguments {
    char **dirs;
    uint32_t dir_count;
    const char *to;
    gw_checkpoint_choice choice;
} arguments;

enum { KEY_TO = 256, KEY_STEP, KEY_JOB };

static const struct argp_option export_options[] = {
    {"to", KEY_TO, "FILE", 0, "Write the weights to this file (" WEIGHTS "), and config.json beside it", 0},
    {"step", KEY_STEP, "N", 0, "Take the checkpoint of step N (the newest that is whole)", 0},
    {"job", KEY_JOB, "HEX", 0, "Take the job whose id begins with HEX (the one that was saved last)", 0},
    {0},
};

static const char export_doc[] =
    "Writes the model of the newest whole checkpoint of a gpt job as safetensors, with the names of "
    "GPT-2's tensors, and a config.json for it. GPT2LMHeadModel.from_pretrained of transformers loads the "
    "folder as it is.\v"
    "Each peer may hold only a part of a checkpoint. Where a peer runs in a directory, it is asked for what "
    "other peers hold, and with --from a peer elsewhere is; else give the directories of several peers. "
    "Nothing in them is changed.";

static error_t parse_export(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->choice.place;
        return 0;
    case KEY_TO:
        a->to = arg;
        if (strcmp(basename(arg), GW_GPT_CONFIG) == 0)
            argp_error(state, "--to: the configuration is written to '%s'; name another file for the weights",
                       arg);
        return 0;
    case KEY_JOB:
        if (!gw_checkpoint_is_job(arg))
            argp_error(state,
                       "--job: '%s' cannot be the beginning of a job's id: give up to 64 hexadecimal digits",
                       arg);
        a->choice.job = arg;
        return 0;
    case KEY_STEP:
        a->choice.step = gw_number_of_option(state, "--step", arg, 0, UINT64_MAX - 1);
        return 0;
    case ARGP_KEY_ARGS:
        a->dirs = state->argv + state->next;
        a->dir_count = (uint32_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (a->choice.place.from == NULL)
            argp_error(state, "give the directory of a peer, or several, or a running peer by --from");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Checks that the configuration may be written at `path`: there is no such file, or it describes a GPT-2,
 * or it is no regular file, which is not read. */
static bool may_write_config(const char *path, gw_err *err) {
    struct stat there;
    json_error_t why;
    if (stat(path, &there) != 0 || !S_ISREG(there.st_mode)) return true;
    json_t *config = json_load_file(path, 0, &why);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    bool ours = type != NULL && strcmp(type, "gpt2") == 0;
    json_decref(config);
    return ours ||
           gw_fail(err, GW_E_DENIED,
                   "%s exists and does not describe a GPT-2: write to another folder, or move the file away",
                   path);
}

/* Writes both files so that weights never stand beside the configuration of another model: every operation
 * that can fail is done before the weights take their place. */
static bool write_files(const gw_model *model, const char *weights, const char *config, gw_err *err) {
    gw_output output;
    if (!gw_output_open(config, &output, err)) return false;
    bool written = gw_gpt_file_write_config(&model->gpt, model->dropout, &output, err) &&
                   gw_output_flush(&output, err) &&
                   gw_gpt_file_write(&model->gpt, (const float *const *)model->parameters, weights, err);
    return gw_output_end(&output, written, err);
}

/* Hints that from_pretrained looks for another file name. The file may be meant for another program, so it
 * is not an error. */
static void hint_at_name(const char *to, const char *program) {
    if (strcmp(basename(to), WEIGHTS) != 0)
        fprintf(stderr,
                "%s: the from_pretrained of transformers looks for " WEIGHTS " in a folder, not for %s\n",
                program, basename(to));
}

static bool export(const arguments *a, const char *program, gw_err *err) {
    gw_model model;
    char *config = gw_gpt_file_config(a->to, err);
    bool done = config != NULL && may_write_config(config, err) &&
                gw_model_load(a->dirs, a->dir_count, &a->choice, program, &model, err);
    if (done) {
        done = write_files(&model, a->to, config, err);
        if (done) {
            printf("%s: %llu parameters after step %llu\n", a->to,
                   (unsigned long long)gw_gpt_size(&model.gpt), (unsigned long long)model.step);
            hint_at_name(a->to, program);
        }
        gw_model_free(&model);
    }
    free(config);
    return done;
}

int gw_export_main(int argc, char **argv) {
    arguments a = {.to = WEIGHTS, .choice.step = GW_CHECKPOINT_NEWEST};
    static const struct argp_child children[] = {{&gw_client_place_argp, 0, NULL, 0}, {0}};
    const struct argp argp = {.options = export_options,
                              .parser = parse_export,
                              .args_doc = "[DIR...]",
                              .children = children,
                              .doc = export_doc};
    if (gw_argp_parse(&argp, argc, argv, &a) != 0) return 2;
    gw_output_clean_on_signals();
    gw_err err;
    if (export(&a, argv[0], &err)) return 0;
    fprintf(stderr, "%s: %s\n", argv[0], err.text);
    return err.code == GW_E_USAGE ? 2 : 1;
}
