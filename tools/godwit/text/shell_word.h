/* Words of a command line as a shell reads them. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_SHELL_WORD_H
#define GODWIT_TOOLS_GODWIT_TEXT_SHELL_WORD_H

#include <stddef.h>
#include <stdio.h>

/* Writes a word so that a shell reads it as that one word and expands nothing in it: plainly where it has ordinary
 * characters only, and otherwise in single quotes, with quotes and backslashes outside of them. Shells of the Bourne
 * family, csh and fish read it alike, unless it has a line feed (csh). */
void gw_shell_word(FILE *out, const char *word);

/* The same, to memory: writes the quoted word without a zero behind it, at most GW_SHELL_WORD_BYTES of its length, and
 * returns how many bytes that are. */
size_t gw_shell_quote(const char *word, char *quoted);
#define GW_SHELL_WORD_BYTES(length) (4 * (length) + 2)

/* Reads the next word of *line, which then begins at the one after it, to `to`, which has room for the rest of the
 * line. Returns the end of what was written, behind its zero; NULL where a shell would expand something in the word,
 * or a quote does not end. */
char *gw_shell_read_word(const char **line, char *to);

#endif
