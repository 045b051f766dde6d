/* Lines for a terminal. */
#include "tools/godwit/text/wrap.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void wraps(const char *text, size_t width, size_t before, const char *expected) {
    char *wrapped = gw_wrap(text, width, before);
    cr_expect_str_eq(wrapped, expected);
    free(wrapped);
}

Test(wrap, lines_are_broken_at_spaces) {
    wraps("", 10, 0, "");
    wraps("it fits", 8, 0, "it fits");
    wraps("it fits", 7, 0, "it\n  fits");
    wraps("it fits", 10, 3, "it\n  fits");
    wraps("step 5  loss=1  4/s", 15, 0, "step 5  loss=1\n  4/s");
    wraps("  begins with  two", 30, 0, "  begins with  two");
    wraps("a-word-that-is-longer than a line", 10, 0, "a-word-that-is-longer\n  than a\n  line");
    wraps("größe größe größe", 13, 0, "größe größe\n  größe");
}
