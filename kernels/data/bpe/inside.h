/* What the files of the tokenizer share: a vocabulary in its working form. */
#ifndef GODWIT_KERNELS_DATA_BPE_INSIDE_H
#define GODWIT_KERNELS_DATA_BPE_INSIDE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "kernels/data/bpe/bpe.h"
#include "kernels/data/bpe/pairs.h"

#include <pcre2.h>

#define GW_BPE_END_OF_TEXT "<|endoftext|>" /* as in texts and vocabularies */

enum { GW_BPE_BYTES = 256, GW_BPE_NO_TOKEN = -1 };

typedef struct gw_bpe_token {
    char *bytes; /* NULL: no token has this number */
    size_t length;
} gw_bpe_token;

struct gw_bpe {
    gw_bpe_token *tokens;
    uint32_t size;
    uint32_t byte_token[GW_BPE_BYTES];
    int64_t end_of_text; /* GW_BPE_NO_TOKEN where there is none */
    gw_bpe_pairs pairs;
    pcre2_code *pattern; /* pattern of a piece */
};

#endif
