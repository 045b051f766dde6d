/* What the tasks of a map have left, for `godwit results`: fetched from the nodes where they ran, or that have copies, and
 * put into a folder. Main thread. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_TASKS_H
#define GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_TASKS_H

#include "tools/godwit/command/flock/client.h"

typedef struct gw_flock_tasks {
    uint32_t count, ended, failed; /* failed ones are among those that have ended */
} gw_flock_tasks;

/* Makes in the empty folder `root`, whose path is `folder`:
 *
 *   out, err      what the tasks have written to their outputs, in the order of the tasks
 *   tasks.jsonl   a line for each task that has ended, in this order: its number, inputs, attempt, exit code and so on
 *   work/         the files that are to be brought back
 *
 * Of a map that is not over, what there is by now. Fails where the list of tasks or what one has written is not to be
 * had. */
bool gw_flock_tasks_fetch(gw_flock_client *client, const gw_flock_place *place, const json_t *job, int root,
                          const char *folder, gw_flock_tasks *tasks, gw_err *err);

#endif
