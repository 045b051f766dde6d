/* Control groups (containers, services): the strictest bound of a process's group and of all groups above it,
 * from the files that the kernel offers. */
#ifndef GODWIT_KERNELS_HOST_CONTROL_GROUPS_H
#define GODWIT_KERNELS_HOST_CONTROL_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_GROUP_LINE = 64 };

typedef enum gw_group_version { GW_GROUPS_1 = 1, GW_GROUPS_2 } gw_group_version;

/* Reads a bound from the files in a group's folder. UINT64_MAX: the group sets none, or it cannot be read. */
typedef uint64_t gw_group_measure(gw_group_version version, const char *folder);

/* The least value of `of` for the groups that the file `list` names (as /proc/self/cgroup) and for the groups
 * above them. Their hierarchies lie in the folder `mounts` (as /sys/fs/cgroup); of version 1, only that of
 * `controller` is read. UINT64_MAX: no group sets a bound. Any thread. */
uint64_t gw_groups_least(const char *list, const char *mounts, const char *controller, gw_group_measure *of);

/* The first two arguments of gw_groups_least for this process's own groups. */
#define GW_OWN_GROUPS "/proc/self/cgroup", "/sys/fs/cgroup"

/* Reads the first line of a group's file. Returns false where the file is missing or empty. */
bool gw_group_line(const char *folder, const char *name, char line[GW_GROUP_LINE]);
/* The unsigned number at the start of a text, which a blank or the text's end must follow; UINT64_MAX where
 * there is none ("max", "-1"). */
uint64_t gw_group_number(const char *text);

#endif
