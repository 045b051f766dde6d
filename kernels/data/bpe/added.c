#include "kernels/data/bpe/added.h"

#include "core/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { CHARACTER = 4 }; /* the most bytes of a character */

bool gw_bpe_added_add(gw_bpe_added *added, const gw_bpe_added_token *token, gw_err *err) {
    gw_bpe_added_token *grown = realloc(added->list, (added->count + 1) * sizeof *grown);
    if (grown == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a token");
    added->list = grown;
    grown[added->count] = *token;
    char *text = malloc(token->length);
    if (text == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a token");
    memcpy(text, token->text, token->length);
    grown[added->count++].text = text;
    if (token->length > added->longest) added->longest = token->length;
    added->strips_before |= token->strip_before;
    added->has_single |= token->single_word;
    return true;
}

static int compare(const void *a, const void *b) {
    const gw_bpe_added_token *left = a, *right = b;
    unsigned char first = (unsigned char)left->text[0], other = (unsigned char)right->text[0];
    if (first != other) return first < other ? -1 : 1;
    if (left->length != right->length) return left->length > right->length ? -1 : 1;
    return memcmp(left->text, right->text, left->length);
}

void gw_bpe_added_sort(gw_bpe_added *added) {
    if (added->count > 0) qsort(added->list, added->count, sizeof *added->list, compare);
    for (uint32_t byte = 0, i = 0; byte <= 256; byte++) {
        added->first[byte] = i;
        while (byte < 256 && i < added->count && (unsigned char)added->list[i].text[0] == byte) i++;
    }
}

void gw_bpe_added_free(gw_bpe_added *added) {
    for (uint32_t i = 0; i < added->count; i++) free((void *)(uintptr_t)added->list[i].text);
    free(added->list);
    *added = (gw_bpe_added){.list = NULL};
}

const gw_bpe_added_token *gw_bpe_added_at(const gw_bpe_added *added, const char *text, size_t length) {
    unsigned char byte = (unsigned char)text[0];
    for (uint32_t i = added->first[byte]; i < added->first[byte + 1]; i++) {
        const gw_bpe_added_token *token = &added->list[i];
        if (token->length <= length && memcmp(text, token->text, token->length) == 0) return token;
    }
    return NULL;
}

static bool is_space(const char *text, size_t length) {
    static const char *const spaces[] = {"\xc2\x85", "\xc2\xa0", "\u1680", "\u2000", "\u2001",
                                         "\u2002",   "\u2003",   "\u2004", "\u2005", "\u2006",
                                         "\u2007",   "\u2008",   "\u2009", "\u200a", "\u2028",
                                         "\u2029",   "\u202f",   "\u205f", "\u3000"};
    if (length == 1) return text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r');
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (strlen(spaces[i]) == length && memcmp(spaces[i], text, length) == 0) return true;
    return false;
}

size_t gw_bpe_space_begins(const char *text, size_t length) {
    size_t bytes = length > 0 ? gw_utf8_character(text, length) : 0;
    return bytes > 0 && is_space(text, bytes) ? bytes : 0;
}

size_t gw_bpe_space_ends(const char *text, size_t length) {
    for (size_t bytes = 1; bytes <= CHARACTER && bytes <= length; bytes++)
        if (((unsigned char)text[length - bytes] & 0xc0) != 0x80)
            return is_space(text + length - bytes, bytes) ? bytes : 0;
    return 0;
}
