#include "kernels/cores.h"

#include "kernels/control_groups.h"

#include <sched.h>
#include <string.h>

/* Microseconds of time in each period of so many. */
static uint64_t cores_in(uint64_t quota, uint64_t period) {
    if (quota == UINT64_MAX || period == UINT64_MAX || period == 0) return UINT64_MAX;
    uint64_t cores = quota / period + (quota % period > 0 ? 1 : 0);
    return cores > 0 ? cores : 1;
}

/* "150000 100000" (version 2), or each in a file of its own. */
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

uint32_t gw_cores_allowed(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 1 ? (uint32_t)count : 1;
}

uint32_t gw_cores(void) {
    uint64_t groups = gw_cores_of_groups(GW_OWN_GROUPS);
    uint32_t allowed = gw_cores_allowed();
    return groups < allowed ? (uint32_t)groups : allowed;
}
