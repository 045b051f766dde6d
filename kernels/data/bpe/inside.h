/* What the files of the tokenizer share: a vocabulary in its working form. */
#ifndef GODWIT_KERNELS_DATA_BPE_INSIDE_H
#define GODWIT_KERNELS_DATA_BPE_INSIDE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "kernels/data/bpe/added.h"
#include "kernels/data/bpe/bpe.h"
#include "kernels/data/bpe/pairs.h"

#include <pcre2.h>

#define GW_BPE_END_OF_TEXT "<|endoftext|>" /* as in texts and vocabularies */

enum {
    GW_BPE_BYTES = 256,
    GW_BPE_NO_TOKEN = -1,
    GW_BPE_STEPS = 16,        /* the most steps */
    GW_BPE_ADDED_MOST = 4096, /* the most bytes of an added token */
};

typedef struct gw_bpe_token {
    char *bytes; /* NULL: no token has this number */
    size_t length;
    bool made; /* merges may make it: it is spelled in letters of bytes */
} gw_bpe_token;

/* A step of cutting texts: the parts that match a pattern, and those between them. */
typedef struct gw_bpe_step {
    pcre2_code *pattern;
    bool drop_matches, drop_gaps; /* these parts are no text to be encoded */
} gw_bpe_step;

struct gw_bpe {
    gw_bpe_token *tokens;
    uint32_t size;
    int64_t byte_token[GW_BPE_BYTES]; /* GW_BPE_NO_TOKEN where there is none */
    int64_t end_of_text;              /* GW_BPE_NO_TOKEN where there is none */
    int64_t unknown;                  /* for a byte without a token; GW_BPE_NO_TOKEN: the text is refused */
    bool fuse_unknown;                /* neighbouring unknown bytes are one token */
    bool whole_first;                 /* a piece that is a token is that one, whatever its merges say */
    gw_bpe_pairs pairs;
    /* The tokens that are recognised in a text before it is cut; [0] are sought first, [1] in what is
     * between those. */
    gw_bpe_added added[2];
    gw_bpe_step steps[GW_BPE_STEPS]; /* each cuts the parts that the step before it has left */
    uint32_t step_count;
    int32_t space_step; /* before this step a part gets a space in front, if it has none; -1: none does */
};

/* The working form of an empty vocabulary. Freed by gw_bpe_close. */
gw_bpe *gw_bpe_new(gw_err *err);

/* Adds a step that cuts as GPT-2 does. Fails with GW_E_NOMEM, or with GW_E_LIMIT where there are too many. */
bool gw_bpe_add_usual_step(gw_bpe *bpe, gw_err *err);

#endif
