/* How much memory there is for this process: what the machine has, or what its control group (a container, a
 * service) may take, if that is less. */
#ifndef GODWIT_KERNELS_MEMORY_LIMIT_H
#define GODWIT_KERNELS_MEMORY_LIMIT_H

#include <stdint.h>

/* In bytes. Any thread; reads some small files. */
uint64_t gw_memory_limit(void);

/* The least limit of the groups that the file `list` names (as /proc/self/cgroup), and of those above them,
 * whose hierarchies lie in the folder `mounts` (as /sys/fs/cgroup): of version 2, memory.max, and of version
 * 1, memory/.../memory.limit_in_bytes. UINT64_MAX: there is none, or it cannot be read. */
uint64_t gw_memory_limit_of_groups(const char *list, const char *mounts);

#endif
