#include "core/base/utf8.h"

#include "core/base/assert.h"

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

bool gw_utf8_is_printable(const char *text, size_t *wrong, bool *control) {
    size_t left = strlen(text), length;
    for (const char *at = text; left > 0; at += length, left -= length) {
        length = gw_utf8_character(at, left);
        *control = length > 0;
        *wrong = (size_t)(at - text);
        if (length == 0 || is_control(at, length)) return false;
    }
    return true;
}

const char *gw_utf8_shorten(const char *text, char *copy, size_t capacity) {
    static const char ellipsis[] = "...";
    GW_ASSERT(capacity >= 2 * sizeof ellipsis);
    size_t length = strnlen(text, capacity);
    bool cut = length == capacity;
    if (cut) length = capacity - sizeof ellipsis;
    /* Bytes of the form 10xxxxxx continue a character, so none of them may be the first that is left out. */
    for (int i = 0; cut && i < 3 && length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80; i++) length--;
    memcpy(copy, text, length);
    memcpy(copy + length, cut ? ellipsis : "", cut ? sizeof ellipsis : 1);
    gw_utf8_make_printable(copy);
    return copy;
}

void gw_utf8_make_printable(char *text) {
    for (size_t left = strlen(text), length; left > 0; text += length, left -= length) {
        length = gw_utf8_character(text, left);
        bool good = length > 0 && !is_control(text, length);
        if (length == 0) length = 1;
        if (!good) memset(text, '?', length);
    }
}
