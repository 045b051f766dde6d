/* Added tokens, which are recognised in a text by their spelling before it is cut into pieces: tokens that
 * end a text or mark its parts, and others that were added to a vocabulary. */
#ifndef GODWIT_KERNELS_DATA_BPE_ADDED_H
#define GODWIT_KERNELS_DATA_BPE_ADDED_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_bpe_added_token {
    const char *text; /* owned by the list */
    size_t length;
    uint32_t token;
    bool single_word;                /* recognised only where its neighbours are no letter, mark or digit */
    bool strip_before, strip_behind; /* adjoining white space belongs to the token */
} gw_bpe_added_token;

typedef struct gw_bpe_added {
    /* after gw_bpe_added_sort sorted by first byte; tokens with the same first byte, longest first */
    gw_bpe_added_token *list;
    uint32_t count;
    size_t longest; /* length of the longest token in bytes; 0 for an empty list */
    bool strips_before;
    bool has_single;     /* some token has single_word */
    uint32_t first[257]; /* the tokens list[first[b] .. first[b + 1]) begin with byte b */
} gw_bpe_added;

/* Adds a token; its text, which is not empty, is copied. Fails with GW_E_NOMEM. */
bool gw_bpe_added_add(gw_bpe_added *added, const gw_bpe_added_token *token, gw_err *err);
/* Prepares the search, after the last token has been added. */
void gw_bpe_added_sort(gw_bpe_added *added);
void gw_bpe_added_free(gw_bpe_added *added);

/* Returns the longest token that the text begins with; NULL where there is none. */
const gw_bpe_added_token *gw_bpe_added_at(const gw_bpe_added *added, const char *text, size_t length);

/* The bytes of the white-space character (Unicode's White_Space) at a text's beginning or end; 0 where there
 * is none. */
size_t gw_bpe_space_begins(const char *text, size_t length);
size_t gw_bpe_space_ends(const char *text, size_t length);

#endif
