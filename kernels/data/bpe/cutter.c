#include "kernels/data/bpe/cutter.h"

#include "core/base/assert.h"

/* Unicode's White_Space, which is the meaning of \s in the regex engine of GPT-2's pattern; PCRE's \s has
 * U+180E as well. */
#define SPACES                                                                                               \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|"
                              "[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+";

pcre2_code *gw_bpe_pattern(void) {
    int code;
    PCRE2_SIZE where;
    return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED,
                         &code, &where, NULL);
}

bool gw_bpe_cutter_open(const gw_bpe *bpe, gw_bpe_cutter *cutter, gw_err *err) {
    *cutter = (gw_bpe_cutter){.pattern = bpe->pattern,
                              .match = pcre2_match_data_create_from_pattern(bpe->pattern, NULL)};
    return cutter->match != NULL || gw_fail(err, GW_E_NOMEM, "no memory to cut a text into pieces");
}

void gw_bpe_cutter_close(gw_bpe_cutter *cutter) {
    pcre2_match_data_free(cutter->match);
}

void gw_bpe_cutter_take(gw_bpe_cutter *cutter, const char *text, size_t length) {
    cutter->text = text;
    cutter->length = length;
    cutter->at = cutter->valid = 0;
}

/* Bytes of the UTF-8 character at `s`; 0 where there is none. Overlong forms and surrogates do not count. */
static size_t character(const unsigned char *s, size_t length) {
    if (s[0] < 0x80) return 1;
    size_t bytes = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || bytes > length) return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    bool odd = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return odd ? 0 : bytes;
}

static void find_valid(gw_bpe_cutter *c) {
    size_t bytes;
    c->valid = c->at;
    while (c->valid < c->length &&
           (bytes = character((const unsigned char *)c->text + c->valid, c->length - c->valid)) > 0)
        c->valid += bytes;
}

/* PCRE receives only valid UTF-8: if it checked by itself, it would check all of the rest each time. */
size_t gw_bpe_cutter_piece(gw_bpe_cutter *c) {
    GW_ASSERT(c->at < c->length);
    if (c->valid <= c->at) find_valid(c);
    if (c->valid == c->at) return 1;
    int found = pcre2_match(c->pattern, (PCRE2_SPTR)c->text + c->at, c->valid - c->at, 0, PCRE2_NO_UTF_CHECK,
                            c->match, NULL);
    GW_ASSERT(found > 0); /* every character begins a piece */
    return pcre2_get_ovector_pointer(c->match)[1];
}
