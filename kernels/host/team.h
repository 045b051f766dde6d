/* A team of threads that run a task at the same time: one thread for each part of a device. */
#ifndef GODWIT_KERNELS_HOST_TEAM_H
#define GODWIT_KERNELS_HOST_TEAM_H

#include "core/base/err.h"

#include <stdint.h>

typedef struct gw_team gw_team;

/* Does the work of member `member`, on its thread, which has the floating-point mode of
 * kernels/host/fpmode.h. */
typedef bool gw_team_task(void *context, uint32_t member, gw_err *err);

/* Starts the threads of a team of `members` members, at least 1. Returns NULL on failure. */
gw_team *gw_team_open(uint32_t members, gw_err *err);
/* No task may be running. NULL is allowed. */
void gw_team_close(gw_team *team);

/* Runs the task on every member, and returns when all have finished. Returns false if one failed; *err is
 * that of the first member that failed. Any thread; concurrent calls run one after the other. */
bool gw_team_run(gw_team *team, gw_team_task *task, void *context, gw_err *err);

#endif
