/* Outputs of tasks that have ended, given on in the order of the tasks (--keep-order): an output waits until all tasks
 * before its own have ended. One thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_ORDER_H
#define GODWIT_TOOLS_GODWIT_MAP_ORDER_H

#include "tools/godwit/map/store.h"

/* What a task leaves when it has ended. */
typedef struct gw_map_ended {
    gw_map_output output, errors;
    char text[]; /* the tag of its lines; "": none */
} gw_map_ended;

typedef struct gw_map_order {
    gw_map_store *store;
    uint64_t next; /* the first task that has not ended */
    struct gw_map_place {
        bool ended;
        gw_map_ended *left; /* NULL: nothing */
    } * places;             /* a ring, by the number of the task; tasks from `next` on */
    uint64_t room;          /* a power of two, or 0 */
} gw_map_order;

/* Notes that a task has ended, which leaves `left` (NULL: nothing). Fails with GW_E_NOMEM, and where an output that has to
 * wait cannot be kept. */
bool gw_map_order_put(gw_map_order *order, uint64_t task, gw_map_ended *left, gw_err *err);

/* Takes the next task in the row, if it has ended: *left becomes what it has left, which is then the caller's. */
bool gw_map_order_take(gw_map_order *order, gw_map_ended **left);

/* An ended task with these outputs, which are taken from the caller. NULL when memory runs out. */
gw_map_ended *gw_map_ended_make(gw_map_output *output, gw_map_output *errors, const char *text);
void gw_map_ended_free(gw_map_store *store, gw_map_ended *ended); /* NULL is allowed */

void gw_map_order_free(gw_map_order *order);

#endif
