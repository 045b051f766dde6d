/* Where the tasks of a map come from, and where what becomes of them goes, if not from the inputs of the command line and
 * to standard output: a child of a flock (child/child.h) gets them from its siblings. Thread: the map's. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_FEED_H
#define GODWIT_TOOLS_GODWIT_MAP_FEED_H

#include "core/map/table.h"
#include "net/loop/loop.h"
#include "tools/godwit/map/progress.h"
#include "tools/godwit/map/source.h"
#include "tools/godwit/map/store.h"
#include "tools/godwit/map/values.h"

typedef struct gw_map_feed {
    void *context;
    /* Begins, on the map's loop, with the map's store. `trouble` is to be called, with its context, when the map cannot go on. */
    bool (*open)(void *context, gw_loop *loop, gw_map_store *store,
                 void (*trouble)(void *map, const gw_err *err), void *map, gw_err *err);
    /* The next task; the map frees the values. LATER: it is asked again in the loop's next turn. */
    gw_map_next (*next)(void *context, uint64_t *number, gw_map_values **values, gw_err *err);
    /* A task that was given has ended for good. */
    bool (*ended)(void *context, uint64_t number, const gw_map_row *row, gw_map_store *store,
                  const gw_map_written *written, gw_err *err);
    int work; /* the folder from which files are brought back; -1: none are */
    /* How far the whole map is, and the row of some task that failed where there is one. */
    gw_map_counts (*counts)(void *context, gw_map_row *failure);
    /* No more tasks are started here. */
    void (*leave)(void *context);
    /* Ends, when nothing runs any more. False: a disk does not answer, and the process must end as it is. */
    bool (*close)(void *context);
} gw_map_feed;

#endif
