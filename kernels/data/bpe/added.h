/* Tokens that are recognised in a text as they are spelled, before it is cut into pieces: those that end a
 * text or mark its parts, and others that were added to a vocabulary. */
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
    bool single_word;                /* only where no letter, mark or digit stands beside it */
    bool strip_before, strip_behind; /* the white space beside it belongs to it */
} gw_bpe_added_token;

typedef struct gw_bpe_added {
    gw_bpe_added_token *list; /* after gw_bpe_added_sort by first byte, and of one byte the longest first */
    uint32_t count;
    size_t longest; /* bytes; 0 for an empty list */
    bool strips_before;
    bool has_single;     /* a token has single_word */
    uint32_t first[257]; /* list[first[b]] to list[first[b + 1]] (not included) begin with byte b */
} gw_bpe_added;

/* Adds a token; its text, which is not empty, is copied. Fails with GW_E_NOMEM. */
bool gw_bpe_added_add(gw_bpe_added *added, const gw_bpe_added_token *token, gw_err *err);
/* Prepares the search, after the last token has been added. */
void gw_bpe_added_sort(gw_bpe_added *added);
void gw_bpe_added_free(gw_bpe_added *added);

/* The longest token that the text begins with; NULL where there is none. */
const gw_bpe_added_token *gw_bpe_added_at(const gw_bpe_added *added, const char *text, size_t length);

/* Bytes of the character of white space (Unicode's White_Space) that a text begins, or ends, with; 0 where it
 * is none. */
size_t gw_bpe_space_begins(const char *text, size_t length);
size_t gw_bpe_space_ends(const char *text, size_t length);

#endif
