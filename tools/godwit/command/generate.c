/* `godwit generate` continues a text with a trained language model. */
#include "kernels/data/bpe/bpe.h"
#include "kernels/device/class.h"
#include "kernels/math/blas.h"
#include "kernels/model/gpt/decode.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/options/command_line.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/weights/model.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTE_VALUES = 256, TOKENS_MOST = 1 << 30, NO_TOKEN = -1 };

typedef struct arguments {
    char **dirs;
    uint32_t dir_count;
    const char *prompt, *tokenizer; /* prompt: NULL = the token before a text, or a line break */
    bool bytes;                     /* the tokens are bytes, even if the model has more of them */
    bool ignore_end;
    uint64_t tokens;
    gw_model_choice choice;
    gw_gpt_sampling sampling;
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
    {"job", KEY_JOB, "HEX", 0, "Take the job whose id begins with HEX (the one that was saved last)", 0},
    {0},
};

static const char generate_doc[] =
    "Prints a text and its continuation by the model of the newest whole checkpoint of a gpt job.\v"
    "Each peer holds a part of a checkpoint. If one directory does not hold all of it, give several.";

static double number(struct argp_state *state, const char *name, const char *text, double most) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0.0 && value <= most))
        argp_error(state, "--%s: '%s' is not a number from 0 to %g", name, text, most);
    return value;
}

static error_t parse_generate(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case KEY_PROMPT:
        a->prompt = arg;
        return 0;
    case KEY_TOKENIZER:
        a->tokenizer = arg;
        return 0;
    case KEY_BYTES:
        a->bytes = true;
        return 0;
    case KEY_IGNORE_END:
        a->ignore_end = true;
        return 0;
    case KEY_TOKENS:
        a->tokens = gw_number_of_option(state, "--tokens", arg, 1, TOKENS_MOST);
        return 0;
    case KEY_TEMPERATURE:
        a->sampling.temperature = number(state, "temperature", arg, 1e6);
        return 0;
    case KEY_TOP_K:
        a->sampling.top = (uint32_t)gw_number_of_option(state, "--top-k", arg, 0, TOKENS_MOST);
        return 0;
    case KEY_SEED:
        a->sampling.seed = gw_number_of_option(state, "--seed", arg, 0, INT64_MAX);
        return 0;
    case KEY_JOB:
        if (!gw_model_is_job(arg))
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
    case ARGP_KEY_SUCCESS:
        if (a->bytes && a->tokenizer != NULL)
            argp_error(state, "--bytes and --tokenizer exclude each other: give one of them");
        if (a->ignore_end && a->tokenizer == NULL)
            argp_error(state, "--ignore-end needs --tokenizer: without one, texts have no end");
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "give the directory of a peer, or several");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Feeds tokens in as few calls as possible; returns the logits after the last one. */
static const float *feed(gw_gpt_decoder *decoder, const uint32_t *tokens, uint64_t count) {
    const float *logits = NULL;
    for (uint64_t i = 0; i < count; i += GW_GPT_FEED)
        logits = gw_gpt_decoder_feed(decoder, tokens + i,
                                     (uint32_t)(count - i < GW_GPT_FEED ? count - i : GW_GPT_FEED));
    return logits;
}

/* Begins a new context with the last `keep` tokens of the text; returns the logits after them. */
static const float *feed_end(gw_gpt_decoder *decoder, const uint32_t *text, uint64_t length, uint64_t keep) {
    if (keep > length) keep = length;
    decoder->position = 0;
    return feed(decoder, text + (length - keep), keep);
}

/* The text so far, and the tokenizer; without one, tokens are bytes. */
typedef struct text {
    gw_bpe *bpe;
    int64_t end;        /* the token that separates texts; NO_TOKEN = none */
    const char *prompt; /* the prompt as it is printed */
    uint32_t *tokens;   /* with room for all tokens that will be written */
    size_t length;
} text;

static void show(const text *t, uint32_t token) {
    size_t length = 1;
    char byte = (char)token;
    const char *bytes = t->bpe != NULL ? gw_bpe_decode(t->bpe, token, &length) : &byte;
    fwrite(bytes, 1, length, stdout);
    fflush(stdout);
}

/* Returns how many of the model's tokens may be drawn: those that the tokenizer knows, or the bytes. */
static uint32_t drawn_tokens(const text *t, uint32_t vocabulary) {
    uint32_t known = t->bpe != NULL ? gw_bpe_size(t->bpe) : BYTE_VALUES;
    return vocabulary < known ? vocabulary : known;
}

/* Excludes numbers that are gaps in the tokenizer's table from the draw. */
static void hide_gaps(const text *t, uint32_t drawn, float *logits) {
    size_t length;
    for (uint32_t i = 0; t->bpe != NULL && i < drawn; i++) {
        gw_bpe_decode(t->bpe, i, &length);
        if (length == 0) logits[i] = -__builtin_inff();
    }
}

static void continue_text(gw_gpt_decoder *decoder, const arguments *a, text *t, float *scratch) {
    const gw_gpt *gpt = decoder->gpt;
    const uint32_t drawn = drawn_tokens(t, gpt->vocabulary);
    const float *logits = feed_end(decoder, t->tokens, t->length, gpt->context);
    for (uint64_t i = 0; i < a->tokens && !ferror(stdout); i++) {
        hide_gaps(t, drawn, decoder->logits);
        uint32_t token = gw_gpt_sample(&a->sampling, i, drawn, logits, scratch);
        if (token == t->end && !a->ignore_end) break;
        t->tokens[t->length++] = token;
        show(t, token);
        if (i + 1 == a->tokens) break;
        if (decoder->position == gpt->context)
            logits = feed_end(decoder, t->tokens, t->length, (gpt->context + 1) / 2);
        else
            logits = gw_gpt_decoder_feed(decoder, &token, 1);
    }
}

static bool open_tokenizer(const arguments *a, uint32_t vocabulary, text *t, gw_err *err) {
    uint32_t end;
    if (!gw_bpe_open(a->tokenizer, &t->bpe, err)) return gw_fail_in(err, "--tokenizer");
    if (gw_bpe_size(t->bpe) > vocabulary)
        return gw_fail(err, GW_E_USAGE, "--tokenizer: the tokenizer has %u tokens, and the model only %u",
                       gw_bpe_size(t->bpe), vocabulary);
    if (gw_bpe_end_of_text(t->bpe, &end)) t->end = end;
    return true;
}

/* Sets the tokens to begin with: those of the prompt, or the token before a text. */
static bool take_prompt(const arguments *a, text *t, gw_err *err) {
    bool separator_only = a->prompt == NULL && t->end != NO_TOKEN;
    t->prompt = a->prompt != NULL ? a->prompt : separator_only ? "" : "\n";
    size_t bytes = strlen(t->prompt), known = bytes;
    if (bytes > 0 && t->bpe != NULL) {
        if (!gw_bpe_encode(t->bpe, t->prompt, bytes, &t->tokens, &t->length, err))
            return gw_fail_in(err, "--prompt");
        known = t->length;
    }
    if (separator_only) known = 1;
    uint32_t *grown = realloc(t->tokens, (known + a->tokens) * sizeof *grown);
    if (grown == NULL)
        return gw_fail(err, GW_E_NOMEM, "out of memory: %llu tokens",
                       (unsigned long long)(known + a->tokens));
    t->tokens = grown;
    for (; t->length < known; t->length++)
        t->tokens[t->length] = separator_only ? (uint32_t)t->end : (unsigned char)t->prompt[t->length];
    return true;
}

static bool read_prompt(const gw_model *model, const arguments *a, text *t, gw_err *err) {
    uint32_t vocabulary = model->gpt.vocabulary;
    if (a->prompt != NULL && a->prompt[0] == '\0')
        return gw_fail(err, GW_E_USAGE, "--prompt: the text is empty");
    if (a->tokenizer == NULL && !a->bytes && vocabulary > BYTE_VALUES)
        return gw_fail(err, GW_E_USAGE,
                       "the model has %u tokens, more than there are bytes: give --tokenizer, or --bytes if "
                       "it was trained on bytes",
                       vocabulary);
    if ((a->tokenizer != NULL && !open_tokenizer(a, vocabulary, t, err)) || !take_prompt(a, t, err))
        return false;
    for (size_t i = 0; i < t->length; i++)
        if (t->tokens[i] >= vocabulary)
            return gw_fail(err, GW_E_USAGE, "--prompt: byte %u is not among the model's %u tokens",
                           t->tokens[i], vocabulary);
    return true;
}

static bool generate(const gw_model *model, const arguments *a, gw_err *err) {
    text t = {.end = NO_TOKEN};
    gw_gpt_decoder decoder;
    float *scratch = calloc(model->gpt.vocabulary, sizeof *scratch);
    bool done = scratch != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
    done = done && read_prompt(model, a, &t, err) &&
           gw_gpt_decoder_open(&model->gpt, (const float *const *)model->parameters, &decoder, err);
    if (done) {
        fputs(t.prompt, stdout);
        continue_text(&decoder, a, &t, scratch);
        putchar('\n');
        gw_gpt_decoder_close(&decoder);
    }
    gw_bpe_close(t.bpe);
    free(t.tokens);
    free(scratch);
    return done;
}

int gw_generate_main(int argc, char **argv) {
    arguments a = {
        .tokens = 500, .choice.step = GW_MODEL_NEWEST, .sampling = {.temperature = 0.8, .seed = 1}};
    const struct argp argp = {
        .options = generate_options, .parser = parse_generate, .args_doc = "DIR...", .doc = generate_doc};
    char **whole = gw_command_line("generate", argc, argv);
    if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0) {
        free(whole);
        return 2;
    }
    gw_model model;
    gw_err err;
    bool done = gw_cpu_class_apply(NULL, whole, &err) && gw_blas_check(&err) &&
                gw_model_load(a.dirs, a.dir_count, &a.choice, argv[0], &model, &err);
    if (done) {
        done = generate(&model, &a, &err);
        gw_model_free(&model);
    }
    free(whole);
    if (!done) fprintf(stderr, "%s: %s\n", argv[0], err.text);
    return done ? 0 : err.code == GW_E_USAGE ? 2 : 1;
}
