#include "kernels/data/bpe/pieces.h"

#include "core/base/assert.h"
#include "core/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A part of the present piece: a byte, or what bytes were joined to, stored at its first byte's place. */
typedef struct gw_bpe_symbol {
    uint32_t token;
    uint32_t previous, next; /* places in the piece; NOWHERE, or the piece's length: none */
} symbol;

#define NOWHERE UINT32_MAX
#define JOINED  UINT32_MAX /* the token of a symbol that has become part of an earlier one */

enum { KEY_WORDS = 3, KEY_BYTES = 8 * KEY_WORDS, KNOWN_TOKENS = 9, KNOWN = 1 << 15 };

/* An entry of the cache of pieces, one cache line: most pieces are words, and most words occur again. */
typedef struct gw_bpe_known {
    uint64_t key[KEY_WORDS]; /* the bytes, zeros, and the length; all zeros: the entry is empty */
    uint32_t count;
    uint32_t tokens[KNOWN_TOKENS];
} known;

static uint64_t hash_bytes(const char *bytes, size_t length) {
    uint64_t hash = gw_mix64(length), word;
    for (size_t at = 0; at < length; at += sizeof word) {
        word = 0;
        memcpy(&word, bytes + at, length - at < sizeof word ? length - at : sizeof word);
        hash = gw_mix64(hash ^ word);
    }
    return hash;
}

/* The slot of the token with these bytes, or the free slot where it belongs. There always is a free slot. A
 * slot holds a token's number plus 1; 0: it is free. */
static uint32_t *whole_slot(const gw_bpe_pieces *p, const char *bytes, size_t length) {
    for (uint64_t i = hash_bytes(bytes, length);; i++) {
        uint32_t *slot = &p->whole[i & p->whole_mask];
        const gw_bpe_token *token = *slot > 0 ? &p->bpe->tokens[*slot - 1] : NULL;
        if (token == NULL || (token->length == length && memcmp(token->bytes, bytes, length) == 0))
            return slot;
    }
}

static bool list_whole(gw_bpe_pieces *p) {
    uint32_t capacity = 2;
    while (capacity / 2 <= p->bpe->size) capacity *= 2;
    p->whole_mask = capacity - 1;
    p->whole = calloc(capacity, sizeof *p->whole);
    for (uint32_t i = 0; p->whole != NULL && i < p->bpe->size; i++) {
        const gw_bpe_token *token = &p->bpe->tokens[i];
        if (token->made) *whole_slot(p, token->bytes, token->length) = i + 1;
    }
    return p->whole != NULL;
}

bool gw_bpe_pieces_open(const gw_bpe *bpe, gw_bpe_pieces *pieces, gw_err *err) {
    *pieces = (gw_bpe_pieces){.bpe = bpe,
                              .symbols = malloc(GW_BPE_PIECE * sizeof(symbol)),
                              .heap = malloc(2 * GW_BPE_PIECE * sizeof(uint64_t)),
                              .known = calloc(KNOWN, sizeof(known))};
    if (pieces->symbols != NULL && pieces->heap != NULL && pieces->known != NULL &&
        (!bpe->whole_first || list_whole(pieces)))
        return true;
    gw_bpe_pieces_close(pieces);
    return gw_fail(err, GW_E_NOMEM, "no memory to encode a text");
}

void gw_bpe_pieces_close(gw_bpe_pieces *pieces) {
    free(pieces->symbols);
    free(pieces->heap);
    free(pieces->known);
    free(pieces->whole);
    *pieces = (gw_bpe_pieces){.bpe = NULL};
}

static void heap_push(gw_bpe_pieces *p, uint64_t key) {
    size_t i = p->heap_count++;
    for (; i > 0 && p->heap[(i - 1) / 2] > key; i = (i - 1) / 2, p->work++) p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = key;
}

static uint64_t heap_pop(gw_bpe_pieces *p) {
    uint64_t least = p->heap[0], key = p->heap[--p->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < p->heap_count; i = child, p->work++) {
        if (child + 1 < p->heap_count && p->heap[child + 1] < p->heap[child]) child++;
        if (p->heap[child] >= key) break;
        p->heap[i] = p->heap[child];
    }
    p->heap[i] = key;
    return least;
}

/* The merge of the symbol at `at` and the next one; NULL where there is none. */
static const gw_bpe_pair *pair_at(gw_bpe_pieces *p, uint32_t at, uint32_t length) {
    uint32_t next = p->symbols[at].next;
    if (next == length) return NULL;
    p->work++;
    return gw_bpe_pairs_find(&p->bpe->pairs, p->symbols[at].token, p->symbols[next].token);
}

/* Called at most once for each pair of bytes and twice for each join, so the heap holds at most 2 *
 * GW_BPE_PIECE entries. */
static void consider(gw_bpe_pieces *p, uint32_t at, uint32_t length) {
    const gw_bpe_pair *pair = pair_at(p, at, length);
    if (pair != NULL) heap_push(p, (uint64_t)pair->rank << 32 | at);
}

static void join(gw_bpe_pieces *p, uint32_t at, uint32_t token, uint32_t length) {
    symbol *left = &p->symbols[at], *right = &p->symbols[left->next];
    left->token = token;
    left->next = right->next;
    right->token = JOINED;
    if (left->next != length) p->symbols[left->next].previous = at;
    consider(p, at, length);
    if (left->previous != NOWHERE) consider(p, left->previous, length);
}

static bool refuse_byte(unsigned char byte, gw_err *err) {
    char shown[8] = "";
    if (byte > ' ' && byte < 0x7f) snprintf(shown, sizeof shown, " ('%c')", byte);
    return gw_fail(
        err, GW_E_INVALID,
        "the vocabulary has no token for byte 0x%02x%s, which is in the text, and none for what is "
        "unknown: it cannot be encoded",
        byte, shown);
}

/* Makes a symbol of each byte. */
static bool lay_out(gw_bpe_pieces *p, const char *piece, uint32_t length, gw_err *err) {
    const gw_bpe *bpe = p->bpe;
    uint32_t last = NOWHERE;
    bool unknown = false; /* the last symbol is the unknown token */
    for (uint32_t i = 0; i < length; i++) {
        int64_t token = bpe->byte_token[(unsigned char)piece[i]];
        bool lacks = token == GW_BPE_NO_TOKEN;
        if (lacks) token = bpe->unknown;
        if (token == GW_BPE_NO_TOKEN) return refuse_byte((unsigned char)piece[i], err);
        p->symbols[i] = (symbol){.token = (uint32_t)token, .previous = last, .next = i + 1};
        if (lacks && unknown && bpe->fuse_unknown) {
            p->symbols[last].next = i + 1;
            p->symbols[i].token = JOINED;
        } else {
            last = i;
        }
        unknown = lacks;
    }
    return true;
}

/* Joins the pair of the lowest rank, and of several the first, until no merge is left. Joins leave stale
 * entries in the heap, which are recognised and skipped. */
static void join_all(gw_bpe_pieces *p, uint32_t length) {
    p->heap_count = 0;
    for (uint32_t i = 0; i < length; i = p->symbols[i].next) consider(p, i, length);
    while (p->heap_count > 0) {
        uint64_t key = heap_pop(p);
        uint32_t at = (uint32_t)key;
        const gw_bpe_pair *pair = p->symbols[at].token != JOINED ? pair_at(p, at, length) : NULL;
        if (pair != NULL && pair->rank == key >> 32) join(p, at, pair->joined, length);
    }
}

static bool encode(gw_bpe_pieces *p, const char *piece, uint32_t length, uint32_t *tokens, size_t *count,
                   gw_err *err) {
    const uint32_t *whole = p->whole != NULL ? whole_slot(p, piece, length) : NULL;
    *count = 0;
    if (whole != NULL && *whole > 0) {
        tokens[(*count)++] = *whole - 1;
        return true;
    }
    if (!lay_out(p, piece, length, err)) return false;
    join_all(p, length);
    for (uint32_t i = 0; i < length; i = p->symbols[i].next) tokens[(*count)++] = p->symbols[i].token;
    return true;
}

bool gw_bpe_pieces_encode(gw_bpe_pieces *pieces, const char *piece, size_t length, uint32_t *tokens,
                          size_t *count, gw_err *err) {
    GW_ASSERT(length >= 1 && length <= GW_BPE_PIECE);
    if (length >= KEY_BYTES) return encode(pieces, piece, (uint32_t)length, tokens, count, err);
    uint64_t key[KEY_WORDS] = {0};
    memcpy(key, piece, length);
    ((char *)key)[KEY_BYTES - 1] = (char)length;
    known *k = &pieces->known[gw_mix64(key[0] ^ gw_mix64(key[1] ^ gw_mix64(key[2]))) % KNOWN];
    if (memcmp(k->key, key, sizeof key) == 0) {
        memcpy(tokens, k->tokens, k->count * sizeof *tokens);
        *count = k->count;
        return true;
    }
    if (!encode(pieces, piece, (uint32_t)length, tokens, count, err)) return false;
    if (*count <= KNOWN_TOKENS) {
        memcpy(k->key, key, sizeof key);
        k->count = (uint32_t)*count;
        memcpy(k->tokens, tokens, *count * sizeof *tokens);
    }
    return true;
}
