#include "tools/godwit/weights/continuation.h"

#include "kernels/data/bpe/bpe.h"

#include <stdlib.h>
#include <string.h>

enum { BYTE_VALUES = 256, NO_TOKEN = -1 };

struct gw_continuation {
    gw_continuation_options options;
    uint32_t vocabulary;
    gw_bpe *bpe;        /* NULL: tokens are bytes */
    int64_t end;        /* the token that separates texts; NO_TOKEN = none */
    const char *prompt; /* the prompt as it is shown */
    uint32_t *tokens;   /* the prompt's, with room for all tokens that will be written */
    size_t length;      /* tokens of the prompt */
};

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

/* Returns how many of the model's tokens may be drawn: those that the tokenizer knows, or the bytes. */
static uint32_t drawn_tokens(const gw_continuation *t, uint32_t vocabulary) {
    uint32_t known = t->bpe != NULL ? gw_bpe_size(t->bpe) : BYTE_VALUES;
    return vocabulary < known ? vocabulary : known;
}

/* Excludes numbers that are gaps in the tokenizer's table from the draw. */
static void hide_gaps(const gw_continuation *t, uint32_t drawn, float *logits) {
    size_t length;
    for (uint32_t i = 0; t->bpe != NULL && i < drawn; i++) {
        gw_bpe_decode(t->bpe, i, &length);
        if (length == 0) logits[i] = -__builtin_inff();
    }
}

static bool give(const gw_continuation *t, uint32_t token, gw_continuation_take *take, void *context) {
    size_t length = 1;
    char byte = (char)token;
    const char *bytes = t->bpe != NULL ? gw_bpe_decode(t->bpe, token, &length) : &byte;
    return take(context, bytes, length);
}

static void continue_text(gw_gpt_decoder *decoder, const gw_continuation *t, float *scratch,
                          gw_continuation_take *take, void *context) {
    const gw_gpt *gpt = decoder->gpt;
    const gw_continuation_options *o = &t->options;
    const uint32_t drawn = drawn_tokens(t, gpt->vocabulary);
    size_t written = t->length;
    const float *logits = feed_end(decoder, t->tokens, written, gpt->context);
    for (uint64_t i = 0; i < o->tokens; i++) {
        hide_gaps(t, drawn, decoder->logits);
        uint32_t token = gw_gpt_sample(&o->sampling, i, drawn, logits, scratch);
        if (token == t->end && !o->ignore_end) break;
        t->tokens[written++] = token;
        if (!give(t, token, take, context) || i + 1 == o->tokens) break;
        if (decoder->position == gpt->context)
            logits = feed_end(decoder, t->tokens, written, (gpt->context + 1) / 2);
        else
            logits = gw_gpt_decoder_feed(decoder, &token, 1);
    }
}

static bool open_tokenizer(gw_continuation *t, gw_err *err) {
    uint32_t end;
    if (!gw_blame_named(gw_bpe_open(t->options.tokenizer, &t->bpe, err), err))
        return gw_fail_in(err, "--tokenizer");
    if (gw_bpe_size(t->bpe) > t->vocabulary)
        return gw_fail(err, GW_E_USAGE, "--tokenizer: the tokenizer has %u tokens, and the model only %u",
                       gw_bpe_size(t->bpe), t->vocabulary);
    if (gw_bpe_end_of_text(t->bpe, &end)) t->end = end;
    return true;
}

/* Sets the tokens to begin with: those of the prompt, or the token before a text. */
static bool take_prompt(gw_continuation *t, gw_err *err) {
    bool separator_only = t->options.prompt == NULL && t->end != NO_TOKEN;
    t->prompt = t->options.prompt != NULL ? t->options.prompt : separator_only ? "" : "\n";
    size_t bytes = strlen(t->prompt), known = bytes;
    if (bytes > 0 && t->bpe != NULL) {
        if (!gw_bpe_encode(t->bpe, t->prompt, bytes, &t->tokens, &t->length, err))
            return gw_fail_in(err, "--prompt");
        known = t->length;
    }
    if (separator_only) known = 1;
    uint32_t *grown = realloc(t->tokens, (known + t->options.tokens) * sizeof *grown);
    if (grown == NULL)
        return gw_fail(err, GW_E_NOMEM, "out of memory: %llu tokens",
                       (unsigned long long)(known + t->options.tokens));
    t->tokens = grown;
    for (; t->length < known; t->length++)
        t->tokens[t->length] = separator_only ? (uint32_t)t->end : (unsigned char)t->prompt[t->length];
    return true;
}

static bool read_prompt(gw_continuation *t, gw_err *err) {
    uint32_t vocabulary = t->vocabulary;
    if (t->options.prompt != NULL && t->options.prompt[0] == '\0')
        return gw_fail(err, GW_E_USAGE, "--prompt: the text is empty");
    if (t->options.tokenizer == NULL && !t->options.bytes && vocabulary > BYTE_VALUES)
        return gw_fail(err, GW_E_USAGE,
                       "the model has %u tokens, more than there are bytes: give --tokenizer, or --bytes if "
                       "it was trained on bytes",
                       vocabulary);
    if ((t->options.tokenizer != NULL && !open_tokenizer(t, err)) || !take_prompt(t, err)) return false;
    for (size_t i = 0; i < t->length; i++)
        if (t->tokens[i] >= vocabulary)
            return gw_fail(err, GW_E_USAGE, "--prompt: byte %u is not among the model's %u tokens",
                           t->tokens[i], vocabulary);
    return true;
}

gw_continuation *gw_continuation_open(const gw_continuation_options *options, uint32_t vocabulary,
                                      gw_err *err) {
    gw_continuation *t = calloc(1, sizeof *t);
    if (t == NULL) {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    t->options = *options;
    t->vocabulary = vocabulary;
    t->end = NO_TOKEN;
    if (read_prompt(t, err)) return t;
    gw_continuation_close(t);
    return NULL;
}

void gw_continuation_close(gw_continuation *t) {
    if (t == NULL) return;
    gw_bpe_close(t->bpe);
    free(t->tokens);
    free(t);
}

bool gw_continuation_write(gw_continuation *t, const gw_gpt *gpt, const float *const *parameters,
                           gw_continuation_take *take, void *context, gw_err *err) {
    gw_gpt_decoder decoder;
    float *scratch = calloc(gpt->vocabulary, sizeof *scratch);
    if (scratch == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool good = gw_gpt_decoder_open(gpt, parameters, &decoder, err);
    if (good) {
        if (take(context, t->prompt, strlen(t->prompt))) continue_text(&decoder, t, scratch, take, context);
        gw_gpt_decoder_close(&decoder);
    }
    free(scratch);
    return good;
}
