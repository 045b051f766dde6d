/* Text of unknown origin (parameters, paths, what a job reports) for formats that must be UTF-8: JSON,
 * metrics.
 */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_UTF8_H
#define GODWIT_TOOLS_GODWIT_TEXT_UTF8_H

#include <stddef.h>

/* A copy in which U+FFFD stands for each byte that is no part of UTF-8, to be freed; NULL out of memory. */
char *gw_utf8(const char *text, size_t length);

#endif
