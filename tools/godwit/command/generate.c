/* `godwit generate` continues a text with a trained language model. */
#include "core/base/utf8.h"
#include "kernels/device/class.h"
#include "kernels/math/blas.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/options/command_line.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/weights/continuation.h"
#include "tools/godwit/weights/model.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKENS_MOST = 1 << 30 };

typedef struct arguments {
    char **dirs;
    uint32_t dir_count;
    gw_checkpoint_choice choice;
    gw_continuation_options text;
} arguments;

enum {
    KEY_PROMPT = 256,
    KEY_TOKENIZER,
    KEY_BYTES,
    KEY_IGNORE_END,
    KEY_TOKENS,
    KEY_TEMPERATURE,
    KEY_TOP_K,
    KEY_SEED,
    KEY_STEP,
    KEY_BEST,
    KEY_JOB
};

static const struct argp_option generate_options[] = {
    {"prompt", KEY_PROMPT, "TEXT", 0,
     "Begin with this text (a line break, or a new text if the tokenizer has <|endoftext|>)", 0},
    {"tokenizer", KEY_TOKENIZER, "DIR", 0,
     "The tokenizer in DIR: tokenizer.json, or vocab.json and merges.txt (tokens are bytes)", 0},
    {"bytes", KEY_BYTES, 0, 0,
     "Tokens are bytes, also if the model has more tokens, which are not drawn then", 0},
    {"ignore-end", KEY_IGNORE_END, 0, 0,
     "With --tokenizer: go on with another text after the end of one, <|endoftext|>", 0},
    {"tokens", KEY_TOKENS, "N", 0, "Write N tokens, or fewer if the text ends (500)", 0},
    {"temperature", KEY_TEMPERATURE, "X", 0,
     "0: always the likeliest token; 1: the model's own distribution (0.8)", 0},
    {"top-k", KEY_TOP_K, "N", 0, "Draw from the N likeliest tokens only; 0: from all (0)", 0},
    {"seed", KEY_SEED, "N", 0, "The same seed writes the same text (1)", 0},
    {"step", KEY_STEP, "N", 0, "Take the checkpoint of step N (the newest that is whole)", 0},
    {"best", KEY_BEST, 0, 0, "Take the checkpoint of the best evaluation (godwit run --keep-best)", 0},
    {"job", KEY_JOB, "HEX", 0, "Take the job whose id begins with HEX (the one that was saved last)", 0},
    {0},
};

static const char generate_doc[] =
    "Prints a text and its continuation by the model of the newest whole checkpoint of a gpt job, or by the "
    "model in a folder as 'godwit export --to FOLDER/' and transformers write one.\v"
    "Each peer may hold only a part of a checkpoint. Where a peer runs in a directory, it is asked for what "
    "other peers hold, and with --from a peer elsewhere is; else give the directories of several peers. "
    "DIR@STEP, DIR@best, DIR@JOB: and DIR@JOB:STEP choose a checkpoint as --step, --best and --job do.";

static double number(struct argp_state *state, const char *name, const char *text, double most) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0.0 && value <= most))
        gw_argp_error(state, "--%s: '%s' is not a number from 0 to %g", name, text, most);
    return value;
}

static error_t parse_generate(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->choice.place;
        return 0;
    case KEY_PROMPT:
        a->text.prompt = arg;
        return 0;
    case KEY_TOKENIZER:
        a->text.tokenizer = arg;
        return 0;
    case KEY_BYTES:
        a->text.bytes = true;
        return 0;
    case KEY_IGNORE_END:
        a->text.ignore_end = true;
        return 0;
    case KEY_TOKENS:
        a->text.tokens = gw_number_of_option(state, "--tokens", arg, 1, TOKENS_MOST);
        return 0;
    case KEY_TEMPERATURE:
        a->text.sampling.temperature = number(state, "temperature", arg, 1e6);
        return 0;
    case KEY_TOP_K:
        a->text.sampling.top = (uint32_t)gw_number_of_option(state, "--top-k", arg, 0, TOKENS_MOST);
        return 0;
    case KEY_SEED:
        a->text.sampling.seed = gw_number_of_option(state, "--seed", arg, 0, INT64_MAX);
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
        if (a->text.bytes && a->text.tokenizer != NULL)
            gw_argp_error(state, "--bytes and --tokenizer exclude each other: give one of them");
        if (a->text.ignore_end && a->text.tokenizer == NULL)
            gw_argp_error(state, "--ignore-end needs --tokenizer: without one, texts have no end");
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (a->choice.place.from == NULL)
            gw_argp_error(state, "give the directory of a peer, or several, or a running peer by --from");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What is written to standard output. On a terminal, which control characters could steer, a character
 * whose bytes come in several tokens waits until it is complete. */
typedef struct writer {
    bool terminal;
    char pending[4]; /* the beginning of a character */
    size_t length;
} writer;

/* The length of the character with which these bytes begin, as far as its first byte tells. */
static size_t length_of(unsigned char first) {
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

/* Prints the pending bytes; those that are no character, or a control character other than a line break or
 * a tab, as '?'. */
static void print_pending(writer *w) {
    char text[sizeof w->pending + 1] = "";
    memcpy(text, w->pending, w->length);
    bool blank = w->length == 1 && (text[0] == '\n' || text[0] == '\t');
    if (w->length > 0 && text[0] == '\0') text[0] = '\x7f'; /* a control character within a text */
    if (!blank) gw_utf8_make_printable(text);
    fwrite(text, 1, w->length, stdout);
    w->length = 0;
}

static bool print(void *context, const char *bytes, size_t length) {
    writer *w = context;
    if (!w->terminal) fwrite(bytes, 1, length, stdout);
    for (size_t i = 0; w->terminal && i < length; i++) {
        bool continues = ((unsigned char)bytes[i] & 0xc0) == 0x80;
        if (!continues) print_pending(w);
        w->pending[w->length++] = bytes[i];
        if (w->length >= length_of((unsigned char)w->pending[0])) print_pending(w);
    }
    fflush(stdout);
    return !ferror(stdout);
}

static bool generate(const gw_model *model, const arguments *a, gw_err *err) {
    writer w = {.terminal = isatty(STDOUT_FILENO) == 1};
    gw_continuation *text = gw_continuation_open(&a->text, model->gpt.vocabulary, err);
    if (text == NULL) return false;
    bool good =
        gw_continuation_write(text, &model->gpt, (const float *const *)model->parameters, print, &w, err);
    print_pending(&w);
    if (good) putchar('\n');
    gw_continuation_close(text);
    return good;
}

static bool is_file(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Loads the model of a checkpoint, or the one in a folder that `godwit export` or transformers wrote. */
static bool load(const arguments *a, const char *program, gw_model *model, gw_err *err) {
    const gw_checkpoint_choice *choice = &a->choice;
    char directory[GW_PATH_BYTES];
    if (a->dir_count != 1 || !(gw_model_is_folder(a->dirs[0]) || is_file(a->dirs[0])))
        return gw_model_load(a->dirs, a->dir_count, choice, program, model, err);
    if (choice->best || choice->job != NULL || choice->step != GW_CHECKPOINT_NEWEST ||
        choice->place.from != NULL)
        return gw_fail(err, GW_E_USAGE,
                       "%s holds a model, not checkpoints: it goes without --step, --best, --job and --from",
                       a->dirs[0]);
    if (gw_model_has_directory(a->dirs[0], directory))
        fprintf(stderr, "%s: took the model in %s; there are checkpoints in %s as well\n", program,
                a->dirs[0], directory);
    return gw_blame_named(gw_model_load_folder(a->dirs[0], model, err), err);
}

int gw_generate_main(int argc, char **argv) {
    arguments a = {.choice.step = GW_CHECKPOINT_NEWEST,
                   .text = {.tokens = 500, .sampling = {.temperature = 0.8, .seed = 1}}};
    static const struct argp_child children[] = {{&gw_client_place_argp, 0, NULL, 0}, {0}};
    const struct argp argp = {.options = generate_options,
                              .parser = parse_generate,
                              .args_doc = "[DIR...]",
                              .children = children,
                              .doc = generate_doc};
    char **whole = gw_command_line("generate", argc, argv);
    if (gw_argp_parse(&argp, argc, argv, &a) != 0) {
        free(whole);
        return 2;
    }
    gw_model model = {0};
    gw_err err;
    bool done =
        gw_cpu_class_apply(NULL, whole, &err) && gw_blas_check(&err) && load(&a, argv[0], &model, &err);
    if (done) {
        done = generate(&model, &a, &err);
        gw_model_free(&model);
    }
    free(whole);
    return done ? 0 : gw_command_fail(argv[0], &err);
}
