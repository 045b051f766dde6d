#include "checkpoint/pins.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(offsetof(gw_pin, name) == 0, "gw_pins_compare reads a pin as its name");

int gw_pins_compare(const void *a, const void *b) {
    return memcmp(a, b, sizeof(gw_hash));
}

bool gw_pins_add(gw_pins *pins, uint64_t tag, const gw_hash *name) {
    if (pins->count == pins->capacity) {
        size_t capacity = pins->capacity > 0 ? 2 * pins->capacity : 64;
        gw_pin *list = realloc(pins->list, capacity * sizeof *list);
        if (list == NULL) return false;
        pins->list = list;
        pins->capacity = capacity;
    }
    pins->list[pins->count++] = (gw_pin){*name, tag};
    pins->sorted = false;
    return true;
}

void gw_pins_remove(gw_pins *pins, uint64_t tag, const gw_hash *name) {
    for (size_t i = 0; i < pins->count; i++) {
        if (pins->list[i].tag != tag || !gw_hash_equal(&pins->list[i].name, name)) continue;
        pins->list[i] = pins->list[--pins->count];
        pins->sorted = false;
        return;
    }
}

void gw_pins_release(gw_pins *pins, uint64_t tag) {
    size_t kept = 0;
    for (size_t i = 0; i < pins->count; i++)
        if (pins->list[i].tag != tag) pins->list[kept++] = pins->list[i];
    pins->count = kept;
}

bool gw_pins_has(gw_pins *pins, const gw_hash *name) {
    if (pins->count == 0) return false;
    if (!pins->sorted) qsort(pins->list, pins->count, sizeof *pins->list, gw_pins_compare);
    pins->sorted = true;
    return bsearch(name, pins->list, pins->count, sizeof *pins->list, gw_pins_compare) != NULL;
}

void gw_pins_free(gw_pins *pins) {
    free(pins->list);
    *pins = (gw_pins){0};
}
