/* How many processor cores there are for this process. */
#ifndef GODWIT_KERNELS_HOST_CORES_H
#define GODWIT_KERNELS_HOST_CORES_H

#include <stdint.h>

/* Those that it may run on; at least 1. Any thread. */
uint32_t gw_cores_allowed(void);

/* The same, or as many as its control groups (a container, a service) give it the time of, if that is less. A
 * part of one counts as one. Any thread; reads some small files. */
uint32_t gw_cores(void);

/* What the groups that the file `list` names give (gw_groups_least): of version 2, cpu.max, and of version 1,
 * cpu/.../cpu.cfs_quota_us by cpu.cfs_period_us. UINT64_MAX: there is no quota, or it cannot be read. */
uint64_t gw_cores_of_groups(const char *list, const char *mounts);

#endif
