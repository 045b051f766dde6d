#include "tools/godwit/report.h"

#include <stdio.h>
#include <string.h>

bool gw_report_next(const char **rest, char key[GW_REPORT_KEY], const char **value, size_t *length) {
    for (;;) {
        *rest += strspn(*rest, " ");
        size_t word = strcspn(*rest, " ");
        if (word == 0) return false;
        const char *begin = *rest, *equals = memchr(begin, '=', word);
        *rest += word;
        if (equals == NULL || equals == begin || equals - begin >= GW_REPORT_KEY) continue;
        snprintf(key, GW_REPORT_KEY, "%.*s", (int)(equals - begin), begin);
        *value = equals + 1;
        *length = word - (size_t)(equals + 1 - begin);
        return true;
    }
}
