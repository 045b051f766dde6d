/* What runs the tasks of a map elsewhere: on a flock, whose command implements it (tools/godwit/command/flock/map.c). The
 * map reads the inputs, hands all tasks over, and prints what comes back. Thread: the map's. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_RUNNER_H
#define GODWIT_TOOLS_GODWIT_MAP_RUNNER_H

#include "core/map/table.h"
#include "tools/godwit/map/store.h"

/* Takes what has become of the task at a position of the list: its row, and what it wrote, which is the taker's. */
typedef void gw_map_take(void *map, uint32_t position, const gw_map_row *row, gw_map_written *written);

typedef struct gw_map_runner {
    void *context;
    /* Hands over a list of tasks (task_list.h). */
    bool (*submit)(void *context, const void *list, size_t length, uint32_t tasks, gw_err *err);
    /* Calls `take` for tasks that have become known to have ended, each once. *over: no more will come, as the job has
     * ended. Fails where results are lost or nobody can be asked. */
    bool (*fetch)(void *context, gw_map_store *store, gw_map_take *take, void *map, bool *over, gw_err *err);
    /* The name of a node, or the beginning of its id where that is not known; it is valid until the next call. */
    const char *(*name)(void *context, const gw_peer_id *node);
    /* Has no more tasks started. When those that run have ended, no more will come. */
    void (*ease)(void *context);
    /* Has all tasks ended. */
    void (*cancel)(void *context);
} gw_map_runner;

#endif
