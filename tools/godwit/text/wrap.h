/* Text for people on a terminal of 80 columns. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_WRAP_H
#define GODWIT_TOOLS_GODWIT_TEXT_WRAP_H

#include <stddef.h>

/* Returns the number of columns of the terminal on stdout; 80 where stdout is no terminal, or does not
 * tell. */
size_t gw_terminal_width(void);

/* Breaks a text at spaces into lines of fewer than `width` characters of UTF-8, so that no terminal breaks words.
 * The first line begins `before` characters behind the left edge, and the others with two spaces. A longer word
 * has a line of its own. The caller frees the result. */
char *gw_wrap(const char *text, size_t width, size_t before);

/* Prints a text to stdout in lines of at most 79 characters, broken at spaces, each behind `indent`. */
void gw_print_wrapped(const char *indent, const char *text);

#endif
