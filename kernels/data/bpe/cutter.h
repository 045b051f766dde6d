/* Cuts a text into the pieces of byte-pair encoding, such as words, numbers, punctuation and blanks: by the
 * steps of a tokenizer, each of which divides the parts that the one before it has left. */
#ifndef GODWIT_KERNELS_DATA_BPE_CUTTER_H
#define GODWIT_KERNELS_DATA_BPE_CUTTER_H

#include "kernels/data/bpe/inside.h"

enum {
    /* The most bytes of a piece: a longer one is cut there, at a character's end. */
    GW_BPE_PIECE = 1 << 20,
    /* The bytes that are looked at to find a part of a text: what stands behind them has no influence. */
    GW_BPE_WINDOW = GW_BPE_PIECE + 64,
};

/* Receives a piece of 1 to GW_BPE_PIECE bytes. */
typedef bool gw_bpe_take_piece(void *context, const char *piece, size_t length, gw_err *err);

typedef struct gw_bpe_cutter {
    const gw_bpe *bpe;
    pcre2_match_data *match[GW_BPE_STEPS];
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
    char *spaced;     /* a part with a space in front of it */
    size_t look_back; /* bytes before a part that the first step's pattern may look at */
    gw_bpe_take_piece *take;
    void *context;
} gw_bpe_cutter;

/* Opens a cutter. `bpe` outlives it. Fails only for lack of memory. */
bool gw_bpe_cutter_open(const gw_bpe *bpe, gw_bpe_take_piece *take, void *context, gw_bpe_cutter *cutter,
                        gw_err *err);
void gw_bpe_cutter_close(gw_bpe_cutter *cutter);

/* A text that is cut as it comes. All of it is UTF-8. */
typedef struct gw_bpe_cut {
    const char *text; /* what the pattern may look back at, and then what is to be cut */
    size_t at;        /* where the next piece begins; what is before it has been taken */
    size_t length;
    bool ended;       /* nothing follows */
    bool after_match; /* a match has ended at `at` */
} gw_bpe_cut;

/* Cuts from `at` on; advances `at` behind the last piece that is certain whatever follows. Where `ended`,
 * that is all. Fails as `take` does, or with GW_E_LIMIT where a pattern takes too many steps. Takes time
 * linear in the text, unless a pattern of the tokenizer is a malicious one. */
bool gw_bpe_cutter_cut(gw_bpe_cutter *cutter, gw_bpe_cut *cut, gw_err *err);

#endif
