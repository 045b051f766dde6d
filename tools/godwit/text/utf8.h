/* Text of unknown origin (parameters, paths, reports of jobs) for formats that must be UTF-8: JSON and
 * metrics. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_UTF8_H
#define GODWIT_TOOLS_GODWIT_TEXT_UTF8_H

#include <stddef.h>

/* Returns a copy in which U+FFFD replaces each byte that is not part of UTF-8, or NULL when memory runs
 * out. The caller frees. */
char *gw_utf8(const char *text, size_t length);

#endif
