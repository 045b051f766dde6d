/* Unicode's normalization form C. That of whole tokenizers is compared with the tokenizers library
 * (tests/cluster/tokenizers_tokens.py). */
#include "kernels/data/bpe/nfc.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void expect(const char *text, size_t length, const char *expected, size_t expected_length) {
    char *out;
    size_t got;
    gw_err err;
    cr_assert(gw_nfc(text, length, &out, &got, &err), "%s", err.text);
    cr_expect(got == expected_length && memcmp(out, expected, got) == 0, "'%.*s' became '%.*s'", (int)length,
              text, (int)got, out);
    free(out);
}

#define EXPECT(text, expected) expect(text, sizeof(text) - 1, expected, sizeof(expected) - 1)

Test(nfc, accents_join_their_letters) {
    EXPECT("", "");
    EXPECT("plain \xc3\xa9", "plain \xc3\xa9");
    EXPECT("cafe\u0301s", "caf\xc3\xa9s");
    EXPECT("a\u0302\u0323", "\u1ead");        /* in their order whatever the text's */
    EXPECT("\u212b\u2126", "\xc3\x85\u03a9"); /* characters that are other ones */
    EXPECT("\u0958", "\u0915\u093c");         /* one that is always taken apart */
    EXPECT("\u1100\u1161\u11a8", "\uac01");
    EXPECT("a\0e\u0301", "a\0\xc3\xa9");
    EXPECT("\U0001d160", "\U0001d158\U0001d165\U0001d16e"); /* the one that grows most */
}

Test(nfc, what_is_no_character_stays_and_separates) {
    EXPECT("e\xff\u0301", "e\xff\u0301");
    EXPECT("\xe2\x82", "\xe2\x82");
    EXPECT("e\u0301\x80o\u0308", "\xc3\xa9\x80\xc3\xb6");
}

enum { MOST = 3000 };

/* Normalizes a text that comes in parts of random sizes, as far as it is settled each time. */
static size_t normalize_parts(const char *text, size_t length, gw_rng *rng, char *out) {
    size_t begin = 0, end = 0, used = 0, got;
    char *made;
    gw_err err;
    while (begin < length) {
        end += 1 + gw_rng_below(rng, 9);
        if (end > length) end = length;
        size_t settled = end == length ? end - begin : gw_nfc_settled(text + begin, end - begin);
        cr_assert_leq(settled, end - begin);
        cr_assert(gw_nfc(text + begin, settled, &made, &got, &err), "%s", err.text);
        memcpy(out + used, made, got);
        used += got;
        begin += settled;
        free(made);
    }
    return used;
}

Test(nfc, it_does_not_matter_how_a_text_comes) {
    static const char *const bits[] = {"a",      "e",      "\u0301",     "\u0323", "\u0302", "\u1100",
                                       "\u1161", "\u11a8", "\uac00",     "\u0b47", "\u0b56", "\u3042",
                                       "\u0f73", "\u0344", "\xff",       "\xe3",   " ",      "\u0958",
                                       "\u0cc6", "\u0cc2", "\U0001d15e", "\u2adc", "=",      "\u0338"};
    gw_rng rng = gw_rng_seeded(11);
    for (int round = 0; round < 2000; round++) {
        char text[MOST] = "", parts[GW_NFC_GROWTH * MOST], *whole;
        size_t count = gw_rng_below(&rng, 60), length = 0, got;
        gw_err err;
        for (size_t i = 0; i < count; i++) {
            const char *bit = bits[gw_rng_below(&rng, sizeof bits / sizeof bits[0])];
            memcpy(text + length, bit, strlen(bit));
            length += strlen(bit);
        }
        cr_assert(gw_nfc(text, length, &whole, &got, &err), "%s", err.text);
        cr_assert(normalize_parts(text, length, &rng, parts) == got && memcmp(parts, whole, got) == 0,
                  "'%.*s'", (int)length, text);
        free(whole);
    }
}

/* Otherwise a text of marks alone would have to be held as a whole. */
Test(nfc, little_waits_for_what_follows) {
    enum { MARKS = 10000 };
    char *text = malloc(2 * MARKS);
    cr_assert_not_null(text);
    for (int i = 0; i < MARKS; i++) memcpy(text + 2 * i, "\u0301", 2);
    size_t settled = gw_nfc_settled(text, 2 * MARKS);
    cr_expect(settled >= 2 * MARKS - GW_NFC_HELD && settled % 2 == 0, "%zu", settled);
    cr_expect_eq(gw_nfc_settled(text, GW_NFC_HELD), 0);
    memset(text, 0x80, 2 * MARKS);
    cr_expect_geq(gw_nfc_settled(text, 2 * MARKS), 2 * MARKS - GW_NFC_HELD);
    cr_expect_eq(gw_nfc_settled("abc", 3), 2);
    cr_expect_eq(gw_nfc_settled("ab\u0301", 4), 1);
    free(text);
}
