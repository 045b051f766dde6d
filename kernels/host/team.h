/* Threads that do the same thing at the same time: one for each part of a device. */
#ifndef GODWIT_KERNELS_HOST_TEAM_H
#define GODWIT_KERNELS_HOST_TEAM_H

#include "core/base/err.h"

#include <stdint.h>

typedef struct gw_team gw_team;

/* What member `member` does, on its thread, whose floating-point mode is the one of kernels/host/fpmode.h. */
typedef bool gw_team_task(void *context, uint32_t member, gw_err *err);

gw_team *gw_team_open(uint32_t members, gw_err *err); /* NULL on failure */
/* Nothing runs. NULL is allowed. */
void gw_team_close(gw_team *team);

/* Any thread; several take turns. All members run the task, and it returns when all have. False if one has
 * failed: *err is the first member's that has. */
bool gw_team_run(gw_team *team, gw_team_task *task, void *context, gw_err *err);

#endif
