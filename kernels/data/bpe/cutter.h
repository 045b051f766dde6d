/* Cuts a text into the pieces of byte-pair encoding: words, numbers, punctuation and blanks. */
#ifndef GODWIT_KERNELS_DATA_BPE_CUTTER_H
#define GODWIT_KERNELS_DATA_BPE_CUTTER_H

#include "kernels/data/bpe/inside.h"

/* The pattern of a piece, freed by pcre2_code_free; NULL where memory is short. */
pcre2_code *gw_bpe_pattern(void);

typedef struct gw_bpe_cutter {
    const pcre2_code *pattern;
    pcre2_match_data *match;
    const char *text;
    size_t length;
    size_t at;    /* start of the next piece; the caller advances it */
    size_t valid; /* the text is UTF-8 from `at` up to here; not above `at`: unchecked */
} gw_bpe_cutter;

/* fails only for lack of memory */
bool gw_bpe_cutter_open(const gw_bpe *bpe, gw_bpe_cutter *cutter, gw_err *err);
void gw_bpe_cutter_close(gw_bpe_cutter *cutter);

/* Continues with this text, which the caller keeps. */
void gw_bpe_cutter_take(gw_bpe_cutter *cutter, const char *text, size_t length);

/* The length of the piece at `at`, which is below `length`. A byte outside any UTF-8 character is a piece of
 * its own. All pieces together take time linear in the text. */
size_t gw_bpe_cutter_piece(gw_bpe_cutter *cutter);

#endif
