#include "tools/godwit/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the character that the text begins with; 0: it begins with none. */
static size_t character(const unsigned char *text, size_t left) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* that needs so many bytes */
    if (text[0] < 0x80) return 1;
    size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc0 || text[0] > 0xf7 || length > left) return 0;
    uint32_t value = text[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (text[i] & 0x3f);
    }
    bool surrogate = value >= 0xd800 && value < 0xe000;
    return value >= least[length] && value <= 0x10ffff && !surrogate ? length : 0;
}

char *gw_utf8(const char *text, size_t length) {
    static const char replacement[] = "\xef\xbf\xbd";
    char *copy = malloc(3 * length + 1), *to = copy;
    if (copy == NULL) return NULL;
    for (size_t i = 0; i < length;) {
        size_t bytes = character((const unsigned char *)text + i, length - i), good = bytes > 0 ? bytes : 3;
        memcpy(to, bytes > 0 ? text + i : replacement, good);
        to += good;
        i += bytes > 0 ? bytes : 1;
    }
    *to = '\0';
    return copy;
}
