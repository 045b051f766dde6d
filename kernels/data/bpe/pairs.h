/* The merges of a tokenizer: for two neighbouring tokens, their rank and the token that they become. */
#ifndef GODWIT_KERNELS_DATA_BPE_PAIRS_H
#define GODWIT_KERNELS_DATA_BPE_PAIRS_H

#include "core/base/err.h"

#include <stdint.h>

typedef struct gw_bpe_pair {
    uint32_t left, right;
    uint32_t rank;   /* from 1 on; the lowest rank in a piece is joined first */
    uint32_t joined; /* the token that they become */
} gw_bpe_pair;

typedef struct gw_bpe_pairs { /* A hash table. All zeros is the empty table. */
    gw_bpe_pair *slots;       /* a free slot has rank 0 */
    uint32_t count, capacity; /* capacity is 0 or a power of two */
} gw_bpe_pairs;

/* Finds the merge of two tokens; NULL where they have none. Takes constant time, except for pairs that were
 * chosen to collide. */
const gw_bpe_pair *gw_bpe_pairs_find(const gw_bpe_pairs *pairs, uint32_t left, uint32_t right);

/* Adds a pair that is not in the table. Fails with GW_E_NOMEM. */
bool gw_bpe_pairs_add(gw_bpe_pairs *pairs, const gw_bpe_pair *pair, gw_err *err);

void gw_bpe_pairs_free(gw_bpe_pairs *pairs);

#endif
