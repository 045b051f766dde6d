/* Cuts a text into the pieces of byte-pair encoding, such as words, numbers, punctuation and blanks. A
 * tokenizer has several steps for this, and each divides the parts of the step before it. */
#ifndef GODWIT_KERNELS_DATA_BPE_CUTTER_H
#define GODWIT_KERNELS_DATA_BPE_CUTTER_H

#include "kernels/data/bpe/inside.h"

enum {
    /* The most bytes of a piece. A longer piece is cut at the end of a character. */
    GW_BPE_PIECE = 1 << 20,
    /* The number of bytes from which a part is determined; bytes behind them have no influence on it. */
    GW_BPE_WINDOW = GW_BPE_PIECE + 64,
};

/* Receives a piece of 1 to GW_BPE_PIECE bytes. A failure ends the cutting. */
typedef bool gw_bpe_take_piece(void *context, const char *piece, size_t length, gw_err *err);

typedef struct gw_bpe_cutter {
    const gw_bpe *bpe;
    pcre2_match_data *match[GW_BPE_STEPS];
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
    char *spaced;     /* buffer for a part with a space in front of it */
    size_t look_back; /* number of bytes before a part that the first step's pattern may read */
    gw_bpe_take_piece *take;
    void *context;
} gw_bpe_cutter;

/* Opens a cutter, which passes pieces to `take`. `bpe` outlives it. Fails with GW_E_NOMEM. */
bool gw_bpe_cutter_open(const gw_bpe *bpe, gw_bpe_take_piece *take, void *context, gw_bpe_cutter *cutter,
                        gw_err *err);
void gw_bpe_cutter_close(gw_bpe_cutter *cutter);

/* A text that is cut while it arrives. All of it is UTF-8. */
typedef struct gw_bpe_cut {
    const char *text; /* text that the pattern may look back at, and behind it the text to cut */
    size_t at;        /* start of the next piece; all pieces before have been passed to `take` */
    size_t length;
    bool ended;       /* no text follows */
    bool after_match; /* a match has ended at `at` */
} gw_bpe_cut;

/* Cuts from `at` on, and advances `at` behind the last piece that no following text can change; where `ended`
 * is set, this is the text's end. Fails as `take` does, or with GW_E_LIMIT where a pattern takes too many
 * steps. It takes time linear in the text, except with malicious patterns. */
bool gw_bpe_cutter_cut(gw_bpe_cutter *cutter, gw_bpe_cut *cut, gw_err *err);

#endif
