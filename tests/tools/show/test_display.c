/* What is shown of a run where memory has run out. */
#include "last_words.h"
#include "tools/godwit/show/display.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <string.h>

int __wrap_vasprintf(char **text, const char *format, va_list args);

int __wrap_vasprintf(char **text, const char *format, va_list args) {
    (void)format, (void)args;
    *text = NULL;
    return -1;
}

static void show_a_line(void *unused) {
    (void)unused;
    gw_err err;
    gw_display *display = gw_display_open(GW_DISPLAY_AUTO, &err);
    gw_display_out(display, "a line");
}

Test(display, a_line_for_which_there_is_no_memory_ends_the_process_but_not_as_a_bug) {
    char said[1000];
    last_words(show_a_line, NULL, said, sizeof said);
    cr_expect_not_null(strstr(said, "memory has run out"), "%s", said);
    cr_expect_null(strstr(said, "broken invariant"), "%s", said);
}
