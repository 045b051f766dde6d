/* Text of unknown origin: parameters, paths, what a job reports, what another peer says. Any thread. */
#ifndef GODWIT_CORE_BASE_UTF8_H
#define GODWIT_CORE_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character that the `left` (1 or more) bytes at `text` begin with; 0: they begin with none. */
size_t gw_utf8_character(const char *text, size_t left);

/* For one line of a log or a terminal: puts '?' in place of every byte of a control character (line breaks,
 * tabs and escapes among them) and of what is no UTF-8. All other characters stay. */
void gw_utf8_make_printable(char *text);

#endif
