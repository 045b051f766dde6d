#include "tools/godwit/map/values.h"

#include <stdlib.h>
#include <string.h>

gw_map_values *gw_map_values_make(uint32_t count, const char *const *texts, const size_t *lengths) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += lengths[i] + 1;
    gw_map_values *values = malloc(sizeof *values + count * sizeof(char *) + bytes);
    if (values == NULL) return NULL;
    values->count = count;
    char *to = (char *)(values->text + count);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(to, texts[i], lengths[i]);
        to[lengths[i]] = '\0';
        values->text[i] = to;
        to += lengths[i] + 1;
    }
    return values;
}

size_t gw_map_values_bytes(const gw_map_values *values) {
    size_t bytes = values->count > 0 ? values->count - 1 : 0;
    for (uint32_t i = 0; i < values->count; i++) bytes += strlen(values->text[i]);
    return bytes;
}

void gw_map_values_join(const gw_map_values *values, char *to) {
    for (uint32_t i = 0; i < values->count; i++) {
        size_t length = strlen(values->text[i]);
        if (i > 0) *to++ = ' ';
        memcpy(to, values->text[i], length);
        to += length;
    }
}
