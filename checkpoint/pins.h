/* The multiset of pinned chunks, which are (name, tag) pairs. It has no lock of its own: its owner, the
 * store, guards it. */
#ifndef GODWIT_CHECKPOINT_PINS_H
#define GODWIT_CHECKPOINT_PINS_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_pin {
    gw_hash name;
    uint64_t tag;
} gw_pin;

typedef struct gw_pins {
    gw_pin *list;
    size_t count, capacity;
    bool sorted;
} gw_pins;

/* Adds a pair. Returns false when out of memory. */
bool gw_pins_add(gw_pins *pins, uint64_t tag, const gw_hash *name);
/* Removes the pair once; does nothing if it is not in the multiset. */
void gw_pins_remove(gw_pins *pins, uint64_t tag, const gw_hash *name);
/* Removes all pairs of a tag. */
void gw_pins_release(gw_pins *pins, uint64_t tag);
/* Whether some pair has this name. Sorts the list if it has changed, so that many queries in a row are
 * cheap. */
bool gw_pins_has(gw_pins *pins, const gw_hash *name);
void gw_pins_free(gw_pins *pins);

/* Orders names bytewise, for qsort and bsearch. Either argument may point to a gw_pin, which begins with
 * its name. */
int gw_pins_compare(const void *a, const void *b);

#endif
