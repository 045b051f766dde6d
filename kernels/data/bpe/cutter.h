/* Cuts a text into the pieces that byte-pair encoding works on: words, numbers, punctuation and blanks. */
#ifndef GODWIT_KERNELS_DATA_BPE_CUTTER_H
#define GODWIT_KERNELS_DATA_BPE_CUTTER_H

#include "kernels/data/bpe/inside.h"

/* The pattern of a piece, to be freed by pcre2_code_free; NULL: no memory. */
pcre2_code *gw_bpe_pattern(void);

typedef struct gw_bpe_cutter {
    const pcre2_code *pattern;
    pcre2_match_data *match;
    const char *text;
    size_t length;
    size_t at;    /* the next piece begins here; the caller moves it on */
    size_t valid; /* from `at` up to here it is UTF-8; not above `at`: nobody has looked */
} gw_bpe_cutter;

bool gw_bpe_cutter_open(const gw_bpe *bpe, gw_bpe_cutter *cutter, gw_err *err); /* fails for lack of memory */
void gw_bpe_cutter_close(gw_bpe_cutter *cutter);

/* Goes on with this text, which stays the caller's. */
void gw_bpe_cutter_take(gw_bpe_cutter *cutter, const char *text, size_t length);

/* How long the piece at `at` (< length) is. A byte that belongs to no character of UTF-8 is one by itself.
 * All pieces together take time in proportion to the text. */
size_t gw_bpe_cutter_piece(gw_bpe_cutter *cutter);

#endif
