/* Checks text of unknown origin: parameters, paths, what a job reports, what another peer sends. Any
 * thread. */
#ifndef GODWIT_CORE_BASE_UTF8_H
#define GODWIT_CORE_BASE_UTF8_H

#include <stddef.h>

/* The length of the character with which the `left` (1 or more) bytes at `text` begin; 0: they begin with
 * none. */
size_t gw_utf8_character(const char *text, size_t left);

/* Makes a text fit for one line of a log or a terminal: replaces by '?' every byte of a control character
 * (line breaks, tabs and escapes included) and every byte that is not UTF-8. All other characters stay. */
void gw_utf8_make_printable(char *text);

#endif
