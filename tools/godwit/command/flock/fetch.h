/* Fetches what has become of the tasks of a map on a flock: the rows from one node that runs it, and what tasks wrote from
 * the nodes where they ran, or those that have copies of it, as soon as rows are committed. Files: tools/godwit/map/child. Main thread. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_FETCH_H
#define GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_FETCH_H

#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/map/runner.h"

typedef struct gw_flock_fetch gw_flock_fetch;

/* Begins to fetch what has become of the tasks of a job. The client stays the caller's, and is connected anew to the member of
 * this place when that has been restarted; both outlive the fetch. */
gw_flock_fetch *gw_flock_fetch_open(gw_flock_client *client, const gw_flock_place *place, const char *job,
                                    uint32_t tasks);
/* Looks for outputs in the folders of another job as well, one that this one tries again. */
void gw_flock_fetch_also(gw_flock_fetch *fetch, const char *job);
void gw_flock_fetch_close(gw_flock_fetch *fetch); /* NULL is allowed */
/* Looks once, and gives each task that is ready to `take`. As gw_map_runner's fetch. */
bool gw_flock_fetch_more(gw_flock_fetch *fetch, gw_map_store *store, gw_map_take *take, void *map, bool *over,
                         gw_err *err);

#endif
