/* What the files of the tokenizer share: a vocabulary in the form in which it encodes. */
#ifndef GODWIT_KERNELS_DATA_BPE_INSIDE_H
#define GODWIT_KERNELS_DATA_BPE_INSIDE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "kernels/data/bpe/added.h"
#include "kernels/data/bpe/bpe.h"
#include "kernels/data/bpe/pairs.h"

#include <pcre2.h>

#define GW_BPE_END_OF_TEXT "<|endoftext|>" /* the spelling in texts and vocabularies */

enum {
    GW_BPE_BYTES = 256,
    GW_BPE_NO_TOKEN = -1,
    GW_BPE_STEPS = 16,        /* the most steps of a tokenizer */
    GW_BPE_ADDED_MOST = 4096, /* the most bytes of an added token */
};

typedef struct gw_bpe_token {
    char *bytes; /* NULL: no token has this number */
    size_t length;
    bool made; /* its spelling consists of letters of bytes, so that merges may make it */
} gw_bpe_token;

/* A step that divides a text into the parts that match a pattern and the parts between them. */
typedef struct gw_bpe_step {
    pcre2_code *pattern;
    bool drop_matches, drop_gaps; /* matches, or the parts between them, are dropped */
} gw_bpe_step;

struct gw_bpe {
    gw_bpe_token *tokens;
    uint32_t size;
    int64_t byte_token[GW_BPE_BYTES]; /* GW_BPE_NO_TOKEN where there is none */
    int64_t end_of_text;              /* GW_BPE_NO_TOKEN where there is none */
    /* the token of bytes without one; GW_BPE_NO_TOKEN: such texts are refused */
    int64_t unknown;
    bool fuse_unknown; /* neighbouring unknown bytes become one token */
    bool composes; /* texts are normalized (kernels/data/bpe/nfc.h) between added tokens of the first kind */
    /* a piece with the spelling of a token becomes that token, whatever merges would make */
    bool whole_first;
    gw_bpe_pairs pairs;
    /* The tokens that are recognised in a text before it is cut: first those of [0], then those of [1] in
     * the text between them. */
    gw_bpe_added added[2];
    gw_bpe_step steps[GW_BPE_STEPS]; /* each step divides the parts of the step before it */
    uint32_t step_count;
    int32_t space_step; /* the step before which parts without a leading space get one; -1: none */
};

/* Makes an empty vocabulary, which gw_bpe_close frees. Returns NULL and fills *err where memory is short. */
gw_bpe *gw_bpe_new(gw_err *err);

/* Adds a step that cuts as GPT-2 does. Fails with GW_E_NOMEM, or with GW_E_LIMIT where there are too many. */
bool gw_bpe_add_usual_step(gw_bpe *bpe, gw_err *err);

#endif
