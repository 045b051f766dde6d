/* Checks text of unknown origin: parameters, paths, what a job reports, what another peer sends. Any
 * thread. */
#ifndef GODWIT_CORE_BASE_UTF8_H
#define GODWIT_CORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the character with which the `left` (1 or more) bytes at `text` begin; 0: they begin with
 * none. */
size_t gw_utf8_character(const char *text, size_t left);

/* Whether a text is fit for one line of a log or a terminal: UTF-8 without control characters (line breaks,
 * tabs and escapes included). If it is not, *wrong becomes the position of the first byte that is neither, or
 * where the first control character begins, and *control tells which of them it is. */
bool gw_utf8_is_printable(const char *text, size_t *wrong, bool *control);

/* Copies as much of a text as fits `capacity` bytes with its terminator, cut between two characters, makes it
 * printable, and returns `copy`. A text that was cut ends with "...". `capacity` is at least 8. */
const char *gw_utf8_shorten(const char *text, char *copy, size_t capacity);

/* Makes a text fit for one line of a log or a terminal: replaces by '?' every byte of a control character
 * (line breaks, tabs and escapes included) and every byte that is not UTF-8. All other characters stay. */
void gw_utf8_make_printable(char *text);

#endif
