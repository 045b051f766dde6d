/* A model that goes on writing: what comes after the tokens it has been fed. Keys and values of earlier
 * tokens are kept, so that each new one costs only itself. Inference: bits may differ between ways of cutting
 * the same tokens into calls. */
#ifndef GODWIT_KERNELS_MODEL_GPT_DECODE_H
#define GODWIT_KERNELS_MODEL_GPT_DECODE_H

#include "kernels/model/gpt/gpt.h"

enum { GW_GPT_FEED = 64 }; /* tokens that one call takes, at most */

typedef struct gw_gpt_decoder {
    const gw_gpt *gpt;
    const float *const *parameters; /* by number */
    uint32_t position;              /* tokens fed so far; at most gpt->context. Set it to 0 to begin anew */
    float *cache;                   /* [layers, context, 2 channels]: keys and values */
    float *x, *norm, *wide, *attended, *scores, *logits;
    void *memory;
    size_t bytes;
} gw_gpt_decoder;

/* `gpt` and `parameters` outlive it. One thread. */
bool gw_gpt_decoder_open(const gw_gpt *gpt, const float *const *parameters, gw_gpt_decoder *decoder,
                         gw_err *err);
void gw_gpt_decoder_close(gw_gpt_decoder *decoder);

/* Feeds 1 to GW_GPT_FEED tokens, which must fit the context. Returns the logits [vocabulary] of what follows
 * the last of them, valid until the next call. */
const float *gw_gpt_decoder_feed(gw_gpt_decoder *decoder, const uint32_t *tokens, uint32_t count);

/* How the next token is drawn from logits. */
typedef struct gw_gpt_sampling {
    double temperature; /* 0: always the likeliest */
    uint32_t top;       /* only among so many likeliest, of equals the first; 0: among all */
    uint64_t seed;
} gw_gpt_sampling;

/* The token that is drawn as number `draw` of this seed. `scratch` has room for `vocabulary` floats. Pure. */
uint32_t gw_gpt_sample(const gw_gpt_sampling *sampling, uint64_t draw, uint32_t vocabulary,
                       const float *logits, float *scratch);

#endif
