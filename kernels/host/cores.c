#include "kernels/host/cores.h"

#include "kernels/host/control_groups.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

enum { MOST_CORES = 1 << 20 }; /* the largest processor set that is tried */

/* Cores for `quota` microseconds of processor time in every `period` microseconds. */
static uint64_t cores_in(uint64_t quota, uint64_t period) {
    if (quota == UINT64_MAX || period == UINT64_MAX || period == 0) return UINT64_MAX;
    uint64_t cores = quota / period + (quota % period > 0 ? 1 : 0);
    return cores > 0 ? cores : 1;
}

/* The cores of one group: "150000 100000" in one file (version 2), or each number in its own (version 1). */
static uint64_t cores_of_group(gw_group_version version, const char *folder) {
    char quota[GW_GROUP_LINE], period[GW_GROUP_LINE];
    if (version == GW_GROUPS_1)
        return gw_group_line(folder, "cpu.cfs_quota_us", quota) &&
                       gw_group_line(folder, "cpu.cfs_period_us", period)
                   ? cores_in(gw_group_number(quota), gw_group_number(period))
                   : UINT64_MAX;
    const char *blank = gw_group_line(folder, "cpu.max", quota) ? strchr(quota, ' ') : NULL;
    return blank != NULL ? cores_in(gw_group_number(quota), gw_group_number(blank + 1)) : UINT64_MAX;
}

uint64_t gw_cores_of_groups(const char *list, const char *mounts) {
    return gw_groups_least(list, mounts, "cpu", cores_of_group);
}

/* Counts the allowed processors in a set with `room` bits. Returns 0 where the set is too small or the call
 * fails; errno tells which. */
static uint32_t count_allowed(size_t room) {
    cpu_set_t *set = CPU_ALLOC(room);
    size_t bytes = CPU_ALLOC_SIZE(room);
    if (set == NULL) return 0;
    int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    return (uint32_t)count;
}

uint32_t gw_cores_allowed(void) {
    uint32_t count = 0;
    errno = EINVAL; /* the kernel's answer to a set that is too small */
    for (size_t room = CPU_SETSIZE; count == 0 && errno == EINVAL && room <= MOST_CORES; room *= 2)
        count = count_allowed(room);
    return count > 1 ? count : 1;
}

uint32_t gw_cores(void) {
    uint64_t groups = gw_cores_of_groups(GW_OWN_GROUPS);
    uint32_t allowed = gw_cores_allowed();
    return groups < allowed ? (uint32_t)groups : allowed;
}
