#include "kernels/data/bpe/pairs.h"

#include "core/base/assert.h"
#include "core/rng.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 1024 };

/* The slot of the pair, or the free slot where it belongs. There always is a free slot. */
static gw_bpe_pair *slot_of(const gw_bpe_pairs *pairs, uint32_t left, uint32_t right) {
    uint32_t i = (uint32_t)gw_mix64((uint64_t)left << 32 | right);
    for (;; i++) {
        gw_bpe_pair *slot = &pairs->slots[i & (pairs->capacity - 1)];
        if (slot->rank == 0 || (slot->left == left && slot->right == right)) return slot;
    }
}

const gw_bpe_pair *gw_bpe_pairs_find(const gw_bpe_pairs *pairs, uint32_t left, uint32_t right) {
    if (pairs->count == 0) return NULL;
    const gw_bpe_pair *slot = slot_of(pairs, left, right);
    return slot->rank != 0 ? slot : NULL;
}

static bool grow(gw_bpe_pairs *pairs, gw_err *err) {
    gw_bpe_pairs grown = {.count = pairs->count,
                          .capacity = pairs->capacity == 0 ? FIRST_CAPACITY : 2 * pairs->capacity};
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (grown.slots == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %u merges", grown.capacity / 2);
    for (uint32_t i = 0; i < pairs->capacity; i++) {
        const gw_bpe_pair *pair = &pairs->slots[i];
        if (pair->rank != 0) *slot_of(&grown, pair->left, pair->right) = *pair;
    }
    free(pairs->slots);
    *pairs = grown;
    return true;
}

bool gw_bpe_pairs_add(gw_bpe_pairs *pairs, const gw_bpe_pair *pair, gw_err *err) {
    GW_ASSERT(pair->rank != 0);
    if (pairs->count >= pairs->capacity / 2 && !grow(pairs, err)) return false;
    gw_bpe_pair *slot = slot_of(pairs, pair->left, pair->right);
    GW_ASSERT(slot->rank == 0);
    *slot = *pair;
    pairs->count++;
    return true;
}

void gw_bpe_pairs_free(gw_bpe_pairs *pairs) {
    free(pairs->slots);
    *pairs = (gw_bpe_pairs){.count = 0};
}
