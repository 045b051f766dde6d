/* The memory that this process may use: the machine's, or less where its control groups (a container, a
 * service) set a limit. */
#ifndef GODWIT_KERNELS_HOST_MEMORY_LIMIT_H
#define GODWIT_KERNELS_HOST_MEMORY_LIMIT_H

#include <stdint.h>

/* The total, in bytes. Any thread; reads small files. */
uint64_t gw_memory_limit(void);

/* The part of it that is free now, in bytes, given what this and other processes use. Cached pages of files
 * count as free where the kernel drops them on demand. UINT64_MAX: unknown. Any thread; reads small files. */
uint64_t gw_memory_left(void);

/* How many processes the kernel has killed for lack of memory since the machine booted, in any group. 0: it
 * does not tell. Any thread; reads a small file. */
uint64_t gw_memory_kills(void);

/* The least limit of the groups that the file `list` names (as /proc/self/cgroup) and of those above them,
 * whose hierarchies lie in the folder `mounts` (as /sys/fs/cgroup): memory.max of version 2,
 * memory.limit_in_bytes of version 1. UINT64_MAX: there is none, or it cannot be read. */
uint64_t gw_memory_limit_of_groups(const char *list, const char *mounts);

/* The least that is free under the limits of the same groups. Their use is memory.current of version 2,
 * memory.usage_in_bytes of version 1, both without idle pages of files (memory.stat). */
uint64_t gw_memory_left_of_groups(const char *list, const char *mounts);

#endif
