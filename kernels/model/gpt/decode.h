/* Text generation: the logits of what follows the tokens fed so far. Keys and values of earlier tokens are
 * kept, so that a new token costs only its own work. Bits may differ between ways of dividing the same tokens
 * into calls. */
#ifndef GODWIT_KERNELS_MODEL_GPT_DECODE_H
#define GODWIT_KERNELS_MODEL_GPT_DECODE_H

#include "kernels/model/gpt/gpt.h"

enum { GW_GPT_FEED = 64 }; /* the most tokens of one call */

typedef struct gw_gpt_decoder {
    const gw_gpt *gpt;
    const float *const *parameters; /* by number */
    /* tokens fed so far, at most gpt->context; the caller sets it to 0 to start again */
    uint32_t position;
    float *cache; /* [layers, context, 2 channels]: keys and values */
    float *x, *norm, *wide, *attended, *scores, *logits;
    void *memory;
    size_t bytes;
} gw_gpt_decoder;

/* Opens a decoder, which one thread uses. `gpt` and `parameters` outlive it. */
bool gw_gpt_decoder_open(const gw_gpt *gpt, const float *const *parameters, gw_gpt_decoder *decoder,
                         gw_err *err);
void gw_gpt_decoder_close(gw_gpt_decoder *decoder);

/* Feeds 1 to GW_GPT_FEED tokens, which must fit the context. Returns logits[vocabulary] of the token after
 * the last, valid until the next call. */
const float *gw_gpt_decoder_feed(gw_gpt_decoder *decoder, const uint32_t *tokens, uint32_t count);

/* How the next token is drawn from logits. */
typedef struct gw_gpt_sampling {
    double temperature; /* 0: the most likely token is taken */
    uint32_t top;       /* draws among this many most likely tokens, the first of equals; 0: among all */
    uint64_t seed;
} gw_gpt_sampling;

/* Draws the token number `draw` of this seed. `scratch` has room for `vocabulary` floats. Pure. */
uint32_t gw_gpt_sample(const gw_gpt_sampling *sampling, uint64_t draw, uint32_t vocabulary,
                       const float *logits, float *scratch);

#endif
