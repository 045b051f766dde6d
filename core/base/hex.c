#include "core/base/hex.h"

#include <stdint.h>
#include <string.h>

static uint8_t value_of(char digit) {
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

bool gw_unhex(const char *text, void *bytes, size_t count) {
    uint8_t *to = bytes;
    if (text == NULL || strlen(text) != 2 * count || strspn(text, "0123456789abcdef") != 2 * count)
        return false;
    for (size_t i = 0; i < count; i++)
        to[i] = (uint8_t)(value_of(text[2 * i]) << 4 | value_of(text[2 * i + 1]));
    return true;
}
