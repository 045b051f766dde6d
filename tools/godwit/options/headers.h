/* Where the headers of jobs (core/godwit.h) lie beside this program, and by which command a job in C is
 * compiled. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_HEADERS_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_HEADERS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define GW_HEADERS_INSTALLED "/usr/local/include/godwit"

/* Writes the folder of the headers: that of those installed with this program, of the tree in which it was
 * built, or otherwise the usual place. Returns whether there are headers in that folder. */
bool gw_headers_find(char folder[PATH_MAX]);

/* Quotes a text for a POSIX shell, where it has characters that a shell reads otherwise. */
void gw_headers_quote(const char *text, char *quoted, size_t size);

/* Returns the command that compiles `source` to the shared object `object`; where there are no headers,
 * the word FOLDER stands for theirs. The caller frees it. */
char *gw_headers_compile(const char *source, const char *object);

#endif
