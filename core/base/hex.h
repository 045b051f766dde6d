/* Reads what gw_hex (id.h) has written. Pure; any thread. */
#ifndef GODWIT_CORE_BASE_HEX_H
#define GODWIT_CORE_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* Reads a text of exactly 2 * count lower-case hexadecimal digits. On failure, and where `text` is NULL, the bytes stay as
 * they are. */
bool gw_unhex(const char *text, void *bytes, size_t count);

#endif
