/* A team of threads that run a task at the same time: one thread for each part of a device. */
#ifndef GODWIT_KERNELS_HOST_TEAM_H
#define GODWIT_KERNELS_HOST_TEAM_H

#include "core/base/err.h"

#include <stdint.h>

typedef struct gw_team gw_team;

/* The task of member `member`, on its thread. The thread has the floating-point mode of
 * kernels/host/fpmode.h. */
typedef bool gw_team_task(void *context, uint32_t member, gw_err *err);

gw_team *gw_team_open(uint32_t members, gw_err *err); /* NULL on failure */
/* No task may be running. NULL is allowed. */
void gw_team_close(gw_team *team);

/* Has every member run the task, and returns when all have finished. Returns false if one failed; *err is
 * that of the first member that did. Any thread; concurrent calls run one after the other. */
bool gw_team_run(gw_team *team, gw_team_task *task, void *context, gw_err *err);

#endif
