#include "tools/godwit/text/utf8.h"

#include "core/base/utf8.h"

#include <stdlib.h>
#include <string.h>

char *gw_utf8(const char *text, size_t length) {
    static const char replacement[] = "\xef\xbf\xbd";
    char *copy = malloc(3 * length + 1), *to = copy;
    if (copy == NULL) return NULL;
    for (size_t i = 0; i < length;) {
        size_t bytes = gw_utf8_character(text + i, length - i), good = bytes > 0 ? bytes : 3;
        memcpy(to, bytes > 0 ? text + i : replacement, good);
        to += good;
        i += bytes > 0 ? bytes : 1;
    }
    *to = '\0';
    return copy;
}
