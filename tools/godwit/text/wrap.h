/* Text for people on a terminal of 80 columns. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_WRAP_H
#define GODWIT_TOOLS_GODWIT_TEXT_WRAP_H

#include <stddef.h>

/* Columns of the terminal that stdout is; 80 where it is none, or does not say. */
size_t gw_terminal_width(void);

/* Prints a text to stdout, broken at spaces, each line after `indent`. */
void gw_print_wrapped(const char *indent, const char *text);

#endif
