/* The tasks that the child of a map runs: files in its folder, by which it is known what ran when it was killed
 * (core/map/deaths.h).
 *
 *   running    of the child that lives, for each slot 1 + the task that runs there u32, 0: none
 *   killed.N   what `running` was when a child was killed by a signal for which nobody had asked, N from 1 on
 *
 * The child writes the first one, and its member makes the others of it. Nothing is flushed: what a machine that ends takes
 * along, no task is to blame for. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_RUNNING_H
#define GODWIT_TOOLS_GODWIT_FLOCK_RUNNING_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Makes the file `running`, in which nothing runs. Returns its descriptor, or -1. */
int gw_running_open(const char *folder, gw_err *err);
/* Notes what runs in a slot; UINT32_MAX: nothing. Fails with GW_E_IO. */
bool gw_running_note(int fd, uint32_t slot, uint32_t task, gw_err *err);

/* Notes that the child was killed. Returns the number of that, or 0 where it ran nothing, or it is noted already. */
uint32_t gw_running_killed(const char *folder);
/* Reads what ran when a child was killed: tasks that rise, which the caller frees. False: there was none of this number. */
bool gw_running_read(const char *folder, uint32_t number, uint32_t **tasks, uint32_t *count);

#endif
