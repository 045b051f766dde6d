#include "tools/godwit/text/number.h"

#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gw_number_read(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
    char *end;
    if (text[0] < '0' || text[0] > '9') return false; /* strtoull takes signs and blanks */
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*end != '\0' || errno != 0 || number < least || number > most) return false;
    *value = number;
    return true;
}

uint64_t gw_number_of_option(struct argp_state *state, const char *option, const char *text, uint64_t least,
                             uint64_t most) {
    uint64_t value = least;
    if (!gw_number_read(text, least, most, &value))
        gw_argp_error(state, "%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, option, text,
                      least, most);
    return value;
}

uint64_t gw_number_memory_of_option(struct argp_state *state, const char *option, const char *text) {
    static const char units[] = "MGT";
    char digits[24];
    size_t length = strspn(text, "0123456789");
    const char *unit = text[length] != '\0' ? strchr(units, text[length]) : units;
    uint64_t mib = 0;
    bool good = length > 0 && length < sizeof digits && unit != NULL &&
                (text[length] == '\0' || text[length + 1] == '\0');
    snprintf(digits, sizeof digits, "%.*s", (int)length, text);
    good = good && gw_number_read(digits, 1, UINT32_MAX >> (10 * (unit - units)), &mib);
    if (!good)
        gw_argp_error(state, "%s: '%s' is no amount of memory such as 512M, 2G or 2048 (MiB)", option, text);
    return mib << (good ? 10 * (unit - units) : 0);
}

const char *gw_number_memory(uint64_t mib, char text[GW_NUMBER_MEMORY_TEXT]) {
    bool whole = mib >= 1024 && mib % 1024 == 0;
    snprintf(text, GW_NUMBER_MEMORY_TEXT, "%llu %s", (unsigned long long)(whole ? mib / 1024 : mib),
             whole ? "GiB" : "MiB");
    return text;
}
