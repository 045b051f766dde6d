#include "core/base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

size_t gw_utf8_character(const char *text, size_t left) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800,
                                     0x10000}; /* the least code point that needs so many bytes */
    const unsigned char *bytes = (const unsigned char *)text;
    if (bytes[0] < 0x80) return 1;
    size_t length = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
    if (bytes[0] < 0xc0 || bytes[0] > 0xf7 || length > left) return 0;
    uint32_t value = bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    bool surrogate = value >= 0xd800 && value < 0xe000;
    return value >= least[length] && value <= 0x10ffff && !surrogate ? length : 0;
}

/* Whether a character is of one of the two blocks of control characters. The second block, U+0080 to
 * U+009F, contains an introducer of escape sequences as well. */
static bool is_control(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    if (length == 1) return bytes[0] < ' ' || bytes[0] == 0x7f;
    return length == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0;
}

void gw_utf8_make_printable(char *text) {
    for (size_t left = strlen(text), length; left > 0; text += length, left -= length) {
        length = gw_utf8_character(text, left);
        bool good = length > 0 && !is_control(text, length);
        if (length == 0) length = 1;
        if (!good) memset(text, '?', length);
    }
}
