/* The tasks of a map that a leader may deal next: those that were never dealt, in their order, and those that are to be
 * dealt once more. What a peer held that has vanished is dealt after GW_MAP_SUPPLY_LATE_NS, or when there is nothing else:
 * it may be cut off for a moment, and go on with it. These are few, and somebody may wait for them. A leader that follows
 * upon another one, which may be cut off as well and deal on, begins further behind for GW_MAP_SUPPLY_SKIP_NS. Pure; one thread at a time. Running out of memory ends the process. */
#ifndef GODWIT_CORE_MAP_SUPPLY_H
#define GODWIT_CORE_MAP_SUPPLY_H

#include <stdbool.h>
#include <stdint.h>

#define GW_MAP_SUPPLY_LATE_NS UINT64_C(300000000)
#define GW_MAP_SUPPLY_SKIP_NS UINT64_C(10000000000)

/* A task that is dealt again late. */
typedef struct gw_map_late {
    uint32_t task;
    uint64_t due_ns;
} gw_map_late;

typedef struct gw_map_supply {
    uint32_t tasks;
    uint32_t frontier; /* tasks from here on were never offered */
    uint32_t skipped, skipped_end;
    uint64_t
        skips_until_ns; /* the skipped ones come after the others before that, and before them from then on */
    uint32_t *again, again_count, again_room;
    gw_map_late *late; /* by when they are due, from `late_first` on */
    uint32_t late_first, late_count, late_room;
} gw_map_supply;

/* Begins anew: all tasks are offered, in their order. */
void gw_map_supply_begin(gw_map_supply *supply);
/* What lies before `from` is late, and half of what lies behind it is skipped for now; before anything was offered. */
void gw_map_supply_follow(gw_map_supply *supply, uint32_t from, uint64_t now_ns);
/* Offers a task once more: soon, or late. Nothing changes where it was not offered yet. */
void gw_map_supply_again(gw_map_supply *supply, uint32_t task);
void gw_map_supply_late(gw_map_supply *supply, uint32_t task, uint64_t now_ns);
/* The next task, which may have a holder or a row by now. False: there is none. */
bool gw_map_supply_next(gw_map_supply *supply, uint32_t *task, uint64_t now_ns);
void gw_map_supply_free(gw_map_supply *supply);

#endif
