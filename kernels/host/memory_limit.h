/* How much memory there is for this process: what the machine has, or what its control group (a container, a
 * service) may take, if that is less. */
#ifndef GODWIT_KERNELS_HOST_MEMORY_LIMIT_H
#define GODWIT_KERNELS_HOST_MEMORY_LIMIT_H

#include <stdint.h>

/* In bytes. Any thread; reads some small files. */
uint64_t gw_memory_limit(void);

/* Of it, what is not in use now, by this process or others; of files that were read nothing counts as used
 * that the kernel gives up at will. UINT64_MAX: nobody knows. The same. */
uint64_t gw_memory_left(void);

/* The least limit of the groups that the file `list` names (as /proc/self/cgroup), and of those above them,
 * whose hierarchies lie in the folder `mounts` (as /sys/fs/cgroup): of version 2, memory.max, and of version
 * 1, memory/.../memory.limit_in_bytes. UINT64_MAX: there is none, or it cannot be read. */
uint64_t gw_memory_limit_of_groups(const char *list, const char *mounts);

/* The least of what the same groups may take beside what is in use in them: of version 2, memory.current, and
 * of version 1, memory.usage_in_bytes, both without idle pages of files (memory.stat). */
uint64_t gw_memory_left_of_groups(const char *list, const char *mounts);

#endif
