/* Encodes one piece of a text after the other: the core of byte-pair encoding. Every piece of n bytes takes
 * O(n log n); encoded pieces are cached. */
#ifndef GODWIT_KERNELS_DATA_BPE_PIECES_H
#define GODWIT_KERNELS_DATA_BPE_PIECES_H

#include "kernels/data/bpe/cutter.h"

struct gw_bpe_symbol;
struct gw_bpe_known;

typedef struct gw_bpe_pieces {
    const gw_bpe *bpe;
    struct gw_bpe_symbol *symbols; /* of the present piece */
    uint64_t *heap;                /* its pairs with a merge, by rank, then by position */
    size_t heap_count;
    struct gw_bpe_known *known; /* pieces encoded before */
    uint32_t *whole; /* hash table of the tokens by their bytes, for gw_bpe.whole_first; otherwise NULL */
    uint32_t whole_mask;
    uint64_t work; /* pairs looked up and steps in the heap, so far */
} gw_bpe_pieces;

/* Opens an encoder. `bpe` outlives it. Fails with GW_E_NOMEM. */
bool gw_bpe_pieces_open(const gw_bpe *bpe, gw_bpe_pieces *pieces, gw_err *err);
void gw_bpe_pieces_close(gw_bpe_pieces *pieces);

/* Writes the tokens of a piece of 1 to GW_BPE_PIECE bytes, at most one for each byte, and their number. Fails
 * with GW_E_INVALID, naming the byte, where the vocabulary has neither a token for a byte nor one for unknown
 * bytes. */
bool gw_bpe_pieces_encode(gw_bpe_pieces *pieces, const char *piece, size_t length, uint32_t *tokens,
                          size_t *count, gw_err *err);

#endif
