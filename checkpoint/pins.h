/* The multiset of pinned chunks: (name, tag) pairs. A plain data structure: its owner (the store) guards it.
 */
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

/* False when out of memory. */
bool gw_pins_add(gw_pins *pins, uint64_t tag, const gw_hash *name);
/* Takes back one add of that pair; nothing when there is none. */
void gw_pins_remove(gw_pins *pins, uint64_t tag, const gw_hash *name);
void gw_pins_release(gw_pins *pins, uint64_t tag);
/* Whether a pair of that name is in; sorts when needed, so that many questions in a row are cheap. */
bool gw_pins_has(gw_pins *pins, const gw_hash *name);
void gw_pins_free(gw_pins *pins);

/* Orders names bytewise, for qsort and bsearch; a gw_pin may stand for its name. */
int gw_pins_compare(const void *a, const void *b);

#endif
