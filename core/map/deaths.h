/* The tasks that ran when a peer's process was killed: a task that kills the process that runs it would take down one after
 * another. A task that ran in a process that was killed is a suspect, and is run once more, alone; when that process is
 * killed, too, the task has failed. Pure; one thread at a time. Running out of memory ends the process. */
#ifndef GODWIT_CORE_MAP_DEATHS_H
#define GODWIT_CORE_MAP_DEATHS_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_MAP_DEATHS_MOST = 2 /* processes that may be killed while they run a task */ };

/* A process that was killed. */
typedef struct gw_map_death {
    gw_peer_id peer;
    uint32_t number; /* of this peer, each has another one */
    uint32_t *tasks, count;
} gw_map_death;

typedef struct gw_map_deaths {
    gw_map_death *list;
    uint32_t count, room;
    uint32_t tasks;  /* all tasks are below it */
    uint8_t *killed; /* of each task: in how many of these it ran; NULL: there are none */
} gw_map_deaths;

/* Adds one, and copies its tasks; those that are none of the map are left out. Returns false where it is known. */
bool gw_map_deaths_add(gw_map_deaths *deaths, const gw_peer_id *peer, uint32_t number, const uint32_t *tasks,
                       uint32_t count);
/* How many processes were killed while they ran a task. */
uint32_t gw_map_deaths_of(const gw_map_deaths *deaths, uint32_t task);
void gw_map_deaths_free(gw_map_deaths *deaths);

#endif
