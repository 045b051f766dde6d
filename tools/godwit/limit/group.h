/* Control groups of Linux (cgroups(7), version 2), by which the kernel holds the processes of a job to what the job asked
 * for, and by which all of them are found and ended, also those that have left their process group.
 *
 * A member of a flock has a folder of groups, in which each job that runs has one. It can be made where this process may
 * make groups below its own: as root, or where systemd has delegated that (Delegate=yes). The kernel allows limits only
 * where the group above the folder holds no processes itself, so that this process moves into a group "member" beside
 * the folder if it is alone in its group. What cannot be limited is told by gw_groups.kinds.
 *
 * Any thread; each call waits for the kernel, not for a disk. */
#ifndef GODWIT_TOOLS_GODWIT_LIMIT_GROUP_H
#define GODWIT_TOOLS_GODWIT_LIMIT_GROUP_H

#include "core/base/err.h"
#include "core/os/durable.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* What the kernel limits in the groups of a folder. */
enum { GW_GROUP_MEMORY = 1, GW_GROUP_PROCESSES = 2, GW_GROUP_CORES = 4 };

typedef struct gw_groups {
    char path[GW_PATH_BYTES]; /* "": there are no groups */
    unsigned kinds;
} gw_groups;

/* Makes the folder of groups called `name`, or finds it as an earlier process has left it. Fails, and says why, where no
 * groups can be made. */
bool gw_groups_open(const char *name, gw_groups *groups, gw_err *err);
/* Removes the folder, unless it holds groups that are in use. */
void gw_groups_close(const gw_groups *groups);

typedef struct gw_group_limits {
    uint64_t memory_bytes; /* without swap; 0: no limit */
    uint32_t processes;    /* threads count as well; 0: no limit */
} gw_group_limits;

/* Writes the path of a group in the folder, makes the group if it is not there, and sets its limits, of the kinds that the
 * folder has. What an earlier job has left in it is ended. */
bool gw_group_make(const gw_groups *groups, const char *name, const gw_group_limits *limits,
                   char path[GW_PATH_BYTES], gw_err *err);
/* Sets the limits of a group that is there, in which processes may run. */
bool gw_group_limit(const gw_groups *groups, const char *path, const gw_group_limits *limits, gw_err *err);
/* Has the processes of a group run on these processors alone. */
bool gw_group_set_cores(const char *path, const cpu_set_t *set, gw_err *err);
/* Writes the path of the file by which a process enters a group: it writes "0" into it. */
bool gw_group_entrance(const char *path, char entrance[GW_PATH_BYTES], gw_err *err);

/* How many processes of a group the kernel has killed for lack of memory since it was made. *own becomes whether that was
 * for the group's own limit, and not for lack of memory on the machine. */
uint32_t gw_group_killed(const char *path, bool *own);

/* Kills all processes of a group. Returns whether there is such a group. */
bool gw_group_kill(const char *path);
/* Removes a group whose processes have ended; waits a moment for the last of them. Harmless where there is none. */
void gw_group_remove(const char *path);

#endif
