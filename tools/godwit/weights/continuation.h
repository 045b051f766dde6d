/* The continuation of a text by a language model, token by token, for `godwit generate` and for the samples of a run. */
#ifndef GODWIT_TOOLS_GODWIT_WEIGHTS_CONTINUATION_H
#define GODWIT_TOOLS_GODWIT_WEIGHTS_CONTINUATION_H

#include "core/base/err.h"
#include "kernels/model/gpt/decode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_continuation_options {
    const char *prompt;    /* NULL: the token that separates texts, or a line break where there is none */
    const char *tokenizer; /* its folder; NULL: tokens are bytes */
    bool bytes;            /* tokens are bytes even if the model has more of them */
    bool ignore_end;       /* with a tokenizer: go on after the end of a text */
    uint64_t tokens;       /* the most tokens to write */
    gw_gpt_sampling sampling;
} gw_continuation_options;

typedef struct gw_continuation gw_continuation;

/* Reads the tokenizer and the prompt for models of this vocabulary. The texts of the options outlive it. Returns
 * NULL on failure, with GW_E_USAGE where the options do not fit the vocabulary. Blocks. */
gw_continuation *gw_continuation_open(const gw_continuation_options *options, uint32_t vocabulary,
                                      gw_err *err);
void gw_continuation_close(gw_continuation *continuation); /* NULL is allowed */

/* Takes the next bytes of the text; false ends it. */
typedef bool gw_continuation_take(void *context, const char *bytes, size_t length);

/* Gives the prompt and then its continuation, token by token, and always the same one for the same parameters. The
 * model has the vocabulary that was given. One thread at a time. Fails only for want of memory. */
bool gw_continuation_write(gw_continuation *continuation, const gw_gpt *gpt, const float *const *parameters,
                           gw_continuation_take *take, void *context, gw_err *err);

#endif
