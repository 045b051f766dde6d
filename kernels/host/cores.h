/* The number of processor cores that this process may use. */
#ifndef GODWIT_KERNELS_HOST_CORES_H
#define GODWIT_KERNELS_HOST_CORES_H

#include <stdint.h>

/* Cores that the process's affinity allows; at least 1. Any thread. */
uint32_t gw_cores_allowed(void);

/* Cores that the process may use: those of gw_cores_allowed, or fewer where its control groups (a container,
 * a service) give it less processor time. A part of a core counts as one. Any thread; reads small files. */
uint32_t gw_cores(void);

/* Cores whose time the groups that the file `list` names allow (gw_groups_least): cpu.max of version 2,
 * cpu.cfs_quota_us / cpu.cfs_period_us of version 1. UINT64_MAX: there is no quota, or it cannot be read. */
uint64_t gw_cores_of_groups(const char *list, const char *mounts);

#endif
