/* The merges of a tokenizer: for two neighbouring tokens, how early they are joined and to what. */
#ifndef GODWIT_KERNELS_DATA_BPE_PAIRS_H
#define GODWIT_KERNELS_DATA_BPE_PAIRS_H

#include "core/base/err.h"

#include <stdint.h>

typedef struct gw_bpe_pair {
    uint32_t left, right;
    uint32_t rank;   /* from 1 on; the least of a piece is joined first */
    uint32_t joined; /* the token that they become */
} gw_bpe_pair;

typedef struct gw_bpe_pairs { /* a hash table; all zeros: empty */
    gw_bpe_pair *slots;       /* of rank 0: free */
    uint32_t count, capacity; /* the latter 0 or a power of two */
} gw_bpe_pairs;

/* NULL: they have no merge. Takes constant time, but for pairs that somebody has chosen to collide. */
const gw_bpe_pair *gw_bpe_pairs_find(const gw_bpe_pairs *pairs, uint32_t left, uint32_t right);

/* One that is not there yet. Fails with GW_E_NOMEM. */
bool gw_bpe_pairs_add(gw_bpe_pairs *pairs, const gw_bpe_pair *pair, gw_err *err);

void gw_bpe_pairs_free(gw_bpe_pairs *pairs);

#endif
