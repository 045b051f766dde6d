#include "kernels/data/bpe/vocabulary.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS_MOST = 1 << 24, MERGES_MOST = 1 << 24 };

/* Vocabularies spell bytes as letters: printable bytes as themselves, the others as U+0100 and following. */
void gw_bpe_reading_begin(gw_bpe_reading *r, gw_bpe *bpe) {
    unsigned next = GW_BPE_BYTES;
    *r = (gw_bpe_reading){.bpe = bpe};
    for (int i = 0; i < GW_BPE_LETTERS; i++) r->byte_of[i] = -1;
    for (unsigned b = 0; b < GW_BPE_BYTES; b++) {
        bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        unsigned code = shown ? b : next++;
        r->byte_of[code] = (int16_t)b;
        if (code < 0x80) {
            r->letter[b][0] = (char)code;
        } else {
            r->letter[b][0] = (char)(0xc0 | code >> 6);
            r->letter[b][1] = (char)(0x80 | (code & 0x3f));
        }
    }
}

/* Writes the bytes that a token's letters stand for to `bytes`; false for other characters. */
static bool spell_back(const gw_bpe_reading *r, const char *letters, char *bytes, size_t *length) {
    *length = 0;
    for (const unsigned char *c = (const unsigned char *)letters; *c != '\0'; c++) {
        unsigned code = *c;
        if (code >= 0x80) {
            if ((code & 0xe0) != 0xc0 || (c[1] & 0xc0) != 0x80) return false;
            code = (code & 0x1f) << 6 | (*++c & 0x3f);
        }
        if (code >= GW_BPE_LETTERS || r->byte_of[code] < 0) return false;
        bytes[(*length)++] = (char)r->byte_of[code];
    }
    return true;
}

/* Enlarges the vocabulary so that it has room for a token of this number. */
static bool reach(gw_bpe *bpe, uint32_t number, gw_err *err) {
    if (number < bpe->size) return true;
    uint32_t size = number + 1;
    gw_bpe_token *grown = realloc(bpe->tokens, size * sizeof *grown);
    if (grown == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %u tokens", size);
    memset(grown + bpe->size, 0, (size - bpe->size) * sizeof *grown);
    bpe->tokens = grown;
    bpe->size = size;
    return true;
}

bool gw_bpe_set_token(gw_bpe *bpe, uint32_t number, const char *text, size_t length, gw_err *err) {
    if (number >= TOKENS_MOST)
        return gw_fail(err, GW_E_LIMIT, "token '%.40s' has no number below %d", text, TOKENS_MOST);
    if (!reach(bpe, number, err)) return false;
    gw_bpe_token *t = &bpe->tokens[number];
    if (t->bytes != NULL) return true;
    t->bytes = malloc(length + 1);
    if (t->bytes == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a token");
    memcpy(t->bytes, text, length);
    t->length = length;
    return true;
}

static bool add_token(gw_bpe_reading *r, const char *letters, const json_t *number, gw_err *err) {
    json_int_t id = json_integer_value(number);
    if (!json_is_integer(number) || id < 0 || id >= TOKENS_MOST)
        return gw_fail(err, GW_E_INVALID, "token '%.40s' has no number below %d", letters, TOKENS_MOST);
    if (!reach(r->bpe, (uint32_t)id, err)) return false;
    gw_bpe_token *t = &r->bpe->tokens[id];
    if (t->bytes != NULL) return gw_fail(err, GW_E_INVALID, "two tokens have the number %d", (int)id);
    size_t length = strlen(letters);
    t->bytes = malloc(length + 1);
    if (t->bytes == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a token");
    t->made = spell_back(r, letters, t->bytes, &t->length) && t->length > 0;
    if (!t->made) {
        memcpy(t->bytes, letters, length);
        t->length = length;
    }
    return true;
}

int64_t gw_bpe_number_of(const gw_bpe_reading *r, const char *letters, size_t length) {
    const json_t *number = json_object_getn(r->numbers, letters, length);
    return number != NULL ? json_integer_value(number) : GW_BPE_NO_TOKEN;
}

bool gw_bpe_read_tokens(gw_bpe_reading *r, json_t *numbers, gw_err *err) {
    const char *letters;
    json_t *number;
    if (!json_is_object(numbers)) return gw_fail(err, GW_E_INVALID, "is no object of tokens and numbers");
    r->numbers = numbers;
    json_object_foreach(numbers, letters, number) if (!add_token(r, letters, number, err)) return false;
    for (int b = 0; b < GW_BPE_BYTES; b++)
        r->bpe->byte_token[b] = gw_bpe_number_of(r, r->letter[b], strlen(r->letter[b]));
    return true;
}

bool gw_bpe_read_merge(gw_bpe_reading *r, const char *left_text, size_t left_length, const char *right_text,
                       size_t right_length, gw_err *err) {
    char joined[2 * GW_BPE_TOKEN_MOST];
    if (left_length > GW_BPE_TOKEN_MOST || right_length > GW_BPE_TOKEN_MOST)
        return gw_fail(err, GW_E_LIMIT, "a part of it is longer than %d bytes", GW_BPE_TOKEN_MOST);
    memcpy(joined, left_text, left_length);
    memcpy(joined + left_length, right_text, right_length);
    int64_t left = gw_bpe_number_of(r, left_text, left_length),
            right = gw_bpe_number_of(r, right_text, right_length),
            both = gw_bpe_number_of(r, joined, left_length + right_length);
    if (left == GW_BPE_NO_TOKEN || right == GW_BPE_NO_TOKEN || both == GW_BPE_NO_TOKEN)
        return gw_fail(err, GW_E_INVALID, "a part of '%.*s %.*s' is no token", (int)left_length, left_text,
                       (int)right_length, right_text);
    gw_bpe_pairs *pairs = &r->bpe->pairs;
    if (gw_bpe_pairs_find(pairs, (uint32_t)left, (uint32_t)right) != NULL)
        return gw_fail(err, GW_E_INVALID, "'%.*s %.*s' is there twice", (int)left_length, left_text,
                       (int)right_length, right_text);
    if (pairs->count == MERGES_MOST) return gw_fail(err, GW_E_LIMIT, "has more than %d merges", MERGES_MOST);
    const gw_bpe_pair pair = {(uint32_t)left, (uint32_t)right, pairs->count + 1, (uint32_t)both};
    return gw_bpe_pairs_add(pairs, &pair, err);
}
