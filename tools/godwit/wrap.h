/* Text for people on a terminal of 80 columns. */
#ifndef GODWIT_GODWIT_WRAP_H
#define GODWIT_GODWIT_WRAP_H

/* Prints a text to stdout, broken at spaces, each line after `indent`. */
void gw_print_wrapped(const char *indent, const char *text);

#endif
