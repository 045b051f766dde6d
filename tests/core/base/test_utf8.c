/* Text of unknown origin becomes one line that a terminal can show. */
#include "core/base/utf8.h"

#include <criterion/criterion.h>
#include <string.h>

static const char bird[] = "\xf0\x9f\x90\xa6"; /* a character of four bytes */

Test(utf8, a_text_that_fits_stays) {
    char copy[16];
    cr_assert_str_eq(gw_utf8_shorten("", copy, 8), "");
    cr_assert_str_eq(gw_utf8_shorten("1234567", copy, 8), "1234567");
    cr_assert_str_eq(gw_utf8_shorten("a\nb\xff", copy, 8), "a?b?");
}

/* Wherever the cut falls, no character is divided, and the text with its ellipsis fits. */
Test(utf8, a_text_is_cut_between_characters) {
    char text[64] = "", copy[64];
    cr_assert_str_eq(gw_utf8_shorten("12345678", copy, 8), "1234...");
    for (int i = 0; i < 8; i++) strcat(text, bird);
    for (size_t capacity = 8; capacity <= 33; capacity++) {
        gw_utf8_shorten(text, copy, capacity);
        size_t length = strlen(copy), kept = capacity == 33 ? 32 : (capacity - 4) / 4 * 4;
        cr_assert_lt(length, capacity);
        cr_assert_eq(strncmp(copy, text, kept), 0);
        cr_assert_str_eq(copy + kept, capacity == 33 ? "" : "...");
    }
}

Test(utf8, what_is_wrong_with_a_text_is_told) {
    size_t wrong;
    bool control;
    cr_assert(gw_utf8_is_printable("", &wrong, &control));
    cr_assert(gw_utf8_is_printable(bird, &wrong, &control));
    cr_assert_not(gw_utf8_is_printable("ab\x1b[0m", &wrong, &control));
    cr_assert(wrong == 2 && control);
    cr_assert_not(gw_utf8_is_printable("abc\x80", &wrong, &control));
    cr_assert(wrong == 3 && !control);
}
