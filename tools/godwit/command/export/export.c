/* `godwit export` writes a checkpoint as safetensors: of the job gpt, as the files that Hugging Face's
 * transformers load; of any job, its state tensors under their own names. */
#include "core/os/directory.h"
#include "core/os/output.h"
#include "kernels/device/class.h"
#include "kernels/model/gpt/file.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/export/stream.h"
#include "tools/godwit/command/export/tokenizer.h"
#include "tools/godwit/command/spool.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/weights/model.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WEIGHTS "model.safetensors" /* the file name that transformers looks for */
#define STDOUT  "-"

typedef struct arguments {
    char **dirs;
    uint32_t dir_count;
    const char *to;
    const char *tensors;   /* NULL: a gpt's weights for transformers, another job's under its own names */
    const char *tokenizer; /* NULL: none goes along */
    gw_real kind;          /* GW_REALS: as they are stored */
    bool force;
    gw_checkpoint_choice choice;
} arguments;

enum { KEY_TO = 256, KEY_STEP, KEY_JOB, KEY_TENSORS, KEY_DTYPE, KEY_TOKENIZER, KEY_FORCE, KEY_BEST };

static const struct argp_option export_options[] = {
    {"to", KEY_TO, "FILE", 0,
     "Write the weights to this file, or to " WEIGHTS " in this folder (FOLDER/ makes it), and of a gpt "
     "config.json beside them; -: to standard output (" WEIGHTS ")",
     0},
    {"step", KEY_STEP, "N", 0, "Take the checkpoint of step N (the newest that is whole)", 0},
    {"best", KEY_BEST, 0, 0, "Take the checkpoint of the best evaluation (godwit run --keep-best)", 0},
    {"job", KEY_JOB, "HEX", 0, "Take the job whose id begins with HEX (the one that was saved last)", 0},
    {"tensors", KEY_TENSORS, "LIST", 0,
     "Write these tensors, under the job's own names: names and patterns separated by commas "
     "('h.0.*,wte.weight'), "
     "weights (all but an optimizer's moments), or all (a gpt for transformers; weights of another job)",
     0},
    {"dtype", KEY_DTYPE, "f32|f16|bf16", 0, "Round real numbers to this type (as they are stored)", 0},
    {"tokenizer", KEY_TOKENIZER, "DIR", 0,
     "Write the tokenizer in DIR beside a gpt, for AutoTokenizer of transformers; bytes: one for a model of "
     "bytes",
     0},
    {"force", KEY_FORCE, 0, 0, "Replace files that this command did not write, or wrote of another job", 0},
    {0},
};

static const char export_doc[] =
    "Writes the newest whole checkpoint of a job as safetensors. Of the job gpt these are the model's "
    "weights with "
    "the names of GPT-2's tensors, and a config.json for them: GPT2LMHeadModel.from_pretrained of "
    "transformers "
    "loads the folder as it is. Of any other job they are its state tensors under their own names.\v"
    "Each peer may hold only a part of a checkpoint. Where a peer runs in a directory, it is asked for what "
    "other peers hold, and with --from a peer elsewhere is; else give the directories of several peers. "
    "DIR@STEP, DIR@best, DIR@JOB: and DIR@JOB:STEP choose a checkpoint as --step, --best and --job do. "
    "Nothing in them is changed, and the job may be running.";

/* Reads "bf16"; in any case, as programs differ in it. */
static gw_real read_kind(struct argp_state *state, const char *text) {
    char upper[8] = "";
    for (size_t i = 0; text[i] != '\0' && i + 1 < sizeof upper; i++)
        upper[i] = (char)toupper((unsigned char)text[i]);
    gw_real kind = strlen(text) < sizeof upper ? gw_real_named(upper) : GW_REALS;
    if (kind == GW_REALS || kind == GW_REAL_F64)
        gw_argp_error(state, "--dtype: '%s' is none of f32, f16 and bf16", text);
    return kind;
}

static error_t parse_export(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->choice.place;
        return 0;
    case KEY_TO:
        if (arg[0] == '\0') gw_argp_error(state, "--to: give a file, a folder, or - for standard output");
        a->to = arg;
        return 0;
    case KEY_JOB:
        a->choice.job = gw_checkpoint_job_of_option(state, arg);
        return 0;
    case KEY_BEST:
        a->choice.best = true;
        return 0;
    case KEY_STEP:
        a->choice.step = gw_number_of_option(state, "--step", arg, 0, UINT64_MAX - 1);
        return 0;
    case KEY_TENSORS:
        a->tensors = arg;
        return 0;
    case KEY_DTYPE:
        a->kind = read_kind(state, arg);
        return 0;
    case KEY_TOKENIZER:
        a->tokenizer = arg;
        return 0;
    case KEY_FORCE:
        a->force = true;
        return 0;
    case ARGP_KEY_ARGS:
        a->dirs = state->argv + state->next;
        a->dir_count = (uint32_t)(state->argc - state->next);
        if (!gw_checkpoint_choice_take(a->dirs[a->dir_count - 1], &a->choice))
            gw_argp_error(state, "%s: give a step and a job once, here or by --step, --best and --job",
                          a->dirs[a->dir_count - 1]);
        return 0;
    case ARGP_KEY_SUCCESS:
        if (a->choice.best && a->choice.step != GW_CHECKPOINT_NEWEST)
            gw_argp_error(state, "--best and --step exclude each other: give one of them");
        if (a->tokenizer != NULL && a->tensors != NULL)
            gw_argp_error(
                state, "--tokenizer goes along with a gpt for transformers, which --tensors does not write");
        if (a->tokenizer != NULL && strcmp(a->to, STDOUT) == 0)
            gw_argp_error(state, "--tokenizer needs a folder: --to - writes to standard output");
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (a->choice.place.from == NULL)
            gw_argp_error(state, "give the directory of a peer, or several, or a running peer by --from");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

enum { NOTES = 6, TYPE_TEXT = 8 };

/* What the files say about where their numbers are from. */
typedef struct origin {
    char id[GW_HASH_TEXT], state[GW_HASH_TEXT], build[GW_BUILD_ID_TEXT], step[24];
    gw_safetensors_note notes[NOTES];
} origin;

static void describe_origin(const gw_manifest *manifest, gw_real kind, origin *o) {
    gw_hex(manifest->job_id.bytes, sizeof manifest->job_id.bytes, o->id);
    gw_hex(manifest->root.bytes, sizeof manifest->root.bytes, o->state);
    gw_build_id(o->build);
    snprintf(o->step, sizeof o->step, "%" PRIu64, manifest->step);
    const gw_safetensors_note notes[NOTES] = {
        {"job", manifest->job_name}, {"job_id", o->id},
        {"step", o->step},           {"state", o->state},
        {"build", o->build},         {"dtype", kind == GW_REALS ? "as in the state" : gw_real_name(kind)}};
    memcpy(o->notes, notes, sizeof notes);
}

/* One export. The context of gw_checkpoint_use. */
typedef struct job {
    const arguments *a;
    const char *program;
    const char *weights; /* the path of the file of weights; NULL: standard output */
    FILE *report;        /* where people are told what was written */
    bool model;          /* it is a gpt for transformers */
    gw_selection selection;
    gw_export_files files;
    origin origin;
} job;

/* Adds to a failure what can be written nevertheless. Returns false. */
static bool advise_own_names(gw_err *err) {
    gw_err what = *err;
    return gw_fail(err, what.code, "%s; --tensors all writes its tensors under their own names", what.text);
}

/* Selects a gpt's weights for transformers, and makes the files beside them. */
static bool prepare_model(job *j, const gw_manifest *manifest, gw_err *err) {
    gw_gpt gpt;
    uint32_t tensors[GW_GPT_PARAMETERS], end;
    bool ends = false;
    gw_gpt_about about = {.kind = j->a->kind == GW_REALS ? GW_REAL_F32 : j->a->kind,
                          .notes = j->origin.notes,
                          .note_count = NOTES};
    if (!gw_model_shape(manifest, &gpt, &about.dropout, tensors, err)) return advise_own_names(err);
    gw_safetensor *list = gw_gpt_file_list(&gpt, NULL, err);
    if (list == NULL ||
        !gw_select_listed(manifest, list, tensors, gw_gpt_parameters(&gpt), j->a->kind, &j->selection, err))
        return false;
    if (j->weights == NULL) return true;
    if (j->a->tokenizer != NULL &&
        !gw_export_tokenizer(j->a->tokenizer, &gpt, j->weights, j->program, &j->files, &ends, &end, err))
        return false;
    if (ends) about.end = &end;
    char *config = gw_gpt_file_make_config(&gpt, &about, err);
    return config != NULL &&
           gw_export_files_add(&j->files, j->weights, GW_GPT_CONFIG, config, strlen(config), err);
}

static bool prepare(job *j, const gw_manifest *manifest, gw_err *err) {
    describe_origin(manifest, j->a->kind, &j->origin);
    j->model = j->a->tensors == NULL && strcmp(manifest->job_name, GW_MODEL_JOB) == 0;
    if (j->model) return prepare_model(j, manifest, err);
    if (j->a->tokenizer != NULL)
        return gw_fail(err, GW_E_USAGE,
                       "--tokenizer goes along with a gpt; this is a checkpoint of the job %s",
                       manifest->job_name);
    const char *choice = j->a->tensors != NULL ? j->a->tensors : GW_SELECT_WEIGHTS;
    return gw_select_own(manifest, choice, j->a->kind, &j->selection, err);
}

/* Checks that no export of another job is replaced, neither weights nor the configuration of other weights
 * beside them. */
static bool check_job(const job *j, gw_err *err) {
    for (int config = 0; config <= j->model; config++) {
        char id[GW_HASH_TEXT];
        if (!gw_export_files_job(j->weights, config != 0, id) || strcmp(id, j->origin.id) == 0) continue;
        return gw_fail(
            err, GW_E_DENIED,
            "%s%s is of the job %.8s, and this checkpoint of the job %.8s: write to another folder, "
            "move it away, or give --force",
            config != 0 ? "the " GW_GPT_CONFIG " beside " : "", j->weights, id, j->origin.id);
    }
    return true;
}

/* Checks that no file is replaced that this command has not written, or has written of another job. */
static bool check_targets(const job *j, gw_err *err) {
    struct stat there;
    if (j->weights == NULL || j->a->force) return true;
    if (!gw_export_files_check(&j->files, j->weights, err) || !check_job(j, err)) return false;
    return stat(j->weights, &there) != 0 || !S_ISREG(there.st_mode) || there.st_size == 0 ||
           gw_safetensors_is_own(j->weights) ||
           gw_fail(err, GW_E_DENIED,
                   "%s exists and is none that this command wrote: name another file, move it away, or give "
                   "--force",
                   j->weights);
}

/* Writes all files so that weights never stand beside the configuration of another model: every operation
 * that can fail is done before the first of them gets its name, and the weights get theirs last. */
static bool write_files(job *j, gw_checkpoint *checkpoint, gw_overflow *overflow, gw_err *err) {
    gw_output output;
    /* a gpt's file is the one that --init makes of the checkpoint itself, so that both begin the same job */
    uint32_t notes = j->model ? 0 : NOTES;
    if (j->weights == NULL) {
        if (!gw_spool_open(&output, err)) return false;
        bool spooled =
            gw_stream_write(checkpoint, &j->selection, j->origin.notes, notes, &output, overflow, err);
        return gw_spool_end(&output, spooled, err);
    }
    bool good = gw_export_files_write(&j->files, err);
    bool opened = good && gw_output_open(j->weights, &output, err);
    good = opened &&
           gw_stream_write(checkpoint, &j->selection, j->origin.notes, notes, &output, overflow, err) &&
           gw_output_flush(&output, err);
    good = gw_export_files_end(&j->files, good, err);
    return opened && gw_output_end(&output, good, err);
}

/* Tells which numbers the chosen type could not hold. */
static void report_overflow(const job *j, const gw_overflow *overflow) {
    if (overflow->count == 0) return;
    bool one = overflow->count == 1;
    fprintf(stderr,
            "%s: %" PRIu64
            " number%s, the first of them in %s, %s beyond %g, the largest of %s, and %s written "
            "as infinite%s\n",
            j->program, overflow->count, one ? "" : "s", overflow->tensor, one ? "is" : "are",
            gw_real_largest(j->a->kind), gw_real_name(j->a->kind), one ? "is" : "are",
            j->a->kind == GW_REAL_F16 ? ": --dtype bf16 holds numbers as large as those of f32" : "");
}

static void report(const job *j, const gw_manifest *manifest, const gw_overflow *overflow) {
    const gw_selection *s = &j->selection;
    const char *name = j->weights != NULL ? j->weights : "standard output";
    if (j->model)
        fprintf(j->report, "%s: %" PRIu64 " parameters after step %" PRIu64 "\n", name, s->numbers,
                manifest->step);
    else
        fprintf(j->report, "%s: %u tensor%s of the job %s with %" PRIu64 " number%s after step %" PRIu64 "\n",
                name, s->count, s->count == 1 ? "" : "s", manifest->job_name, s->numbers,
                s->numbers == 1 ? "" : "s", manifest->step);
    if (s->left_out > 0 && j->a->tensors == NULL)
        fprintf(j->report, "left out: %u tensor%s %s, which --tensors all adds\n", s->left_out,
                s->left_out == 1 ? "" : "s",
                strcmp(manifest->job_name, "program") == 0 ? "beside the model, such as an optimizer's"
                                                           : "with an optimizer's moments");
    if (j->model && j->weights != NULL)
        fprintf(j->report, "beside it: " GW_GPT_CONFIG "%s\n",
                j->a->tokenizer != NULL ? ", and the files of the tokenizer" : "");
    report_overflow(j, overflow);
    /* the file may be meant for another program, so this is no error */
    if (j->model && j->weights != NULL && strcmp(basename(j->weights), WEIGHTS) != 0)
        fprintf(stderr,
                "%s: the from_pretrained of transformers looks for " WEIGHTS " in a folder, not for %s\n",
                j->program, basename(j->weights));
}

/* Refuses a name that says that the file has another format than it will have. */
static bool check_name(const char *to, gw_err *err) {
    const char *name = basename(to), *dot = strrchr(name, '.');
    if (dot == NULL || dot == name || !isalpha((unsigned char)dot[1]) || strcmp(dot, ".safetensors") == 0)
        return true;
    return gw_fail(
        err, GW_E_USAGE,
        "--to %s: the file is written as safetensors, whatever its name: call it %.*s.safetensors, or "
        "name a folder (%.*s/)%s",
        to, (int)(dot - to), to, (int)(dot - to), to,
        strcmp(dot, ".gguf") == 0 || strcmp(dot, ".onnx") == 0
            ? ". Other programs make that format of the folder (tools/gpt.md, What goes out)"
            : "");
}

static bool use(void *context, gw_checkpoint *checkpoint, gw_err *err) {
    job *j = context;
    gw_overflow overflow;
    bool good = prepare(j, checkpoint->manifest, err) && check_targets(j, err) &&
                (j->weights == NULL || check_name(j->weights, err)) &&
                write_files(j, checkpoint, &overflow, err);
    if (good) report(j, checkpoint->manifest, &overflow);
    gw_selection_free(&j->selection);
    gw_export_files_end(&j->files, false, err);
    return good;
}

/* Refuses to put files into the directory of a peer, in which Godwit changes and deletes files. */
static bool check_place(const char *weights, gw_err *err) {
    char marker[GW_PATH_BYTES];
    const char *name = basename(weights);
    int length = (int)(name - weights);
    if (!gw_durable_path(marker, err, "%.*s" GW_DIRECTORY_MARKER, length, weights)) return false;
    return access(marker, F_OK) != 0 ||
           gw_fail(err, GW_E_USAGE,
                   "%s is a directory of Godwit, which keeps nothing else there: name another "
                   "folder by --to",
                   length > 1 ? strndupa(weights, (size_t)length - 1) : ".");
}

/* Finds the path of the file of weights, in memory that the caller frees; makes the folder where `to` ends
 * with a slash. *made becomes the folder that was made, a part of `to`, or NULL. */
static char *find_target(const char *to, const char **made, gw_err *err) {
    struct stat there;
    char *path = NULL;
    size_t length = strlen(to);
    bool slash = to[length - 1] == '/', folder = stat(to, &there) == 0 && S_ISDIR(there.st_mode);
    *made = NULL;
    if (slash && !folder) {
        if (mkdir(to, 0777) != 0) {
            gw_fail_errno(err, errno, "cannot make the folder %s", to);
            return NULL;
        }
        *made = to;
        folder = true;
    }
    if (asprintf(&path, "%s%s%s", to, folder && !slash ? "/" : "", folder ? WEIGHTS : "") >= 0) return path;
    gw_fail(err, GW_E_NOMEM, "out of memory");
    return NULL;
}

static bool export(const arguments *a, const char *program, gw_err *err) {
    job j = {.a = a, .program = program, .report = stdout};
    if (strcmp(a->to, STDOUT) == 0) {
        j.report = stderr;
        if (isatty(STDOUT_FILENO))
            return gw_fail(err, GW_E_USAGE,
                           "--to -: standard output is a terminal; redirect it, or name a file");
        return gw_checkpoint_use(a->dirs, a->dir_count, &a->choice, program, use, &j, err);
    }
    const char *made;
    char *weights = find_target(a->to, &made, err);
    j.weights = weights;
    bool done = weights != NULL && check_place(weights, err) &&
                gw_checkpoint_use(a->dirs, a->dir_count, &a->choice, program, use, &j, err);
    if (!done && made != NULL) rmdir(made);
    free(weights);
    return done;
}

int gw_export_main(int argc, char **argv) {
    arguments a = {.to = WEIGHTS, .kind = GW_REALS, .choice.step = GW_CHECKPOINT_NEWEST};
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
    return gw_command_fail(argv[0], &err);
}
