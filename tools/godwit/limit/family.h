/* The processes that a process has started, and those that these have, as long as it adopts those that lose their parents
 * (PR_SET_CHILD_SUBREAPER): by them a keeper holds a job to the memory that it asked for, where no control group does
 * (group.h). Processes come and go meanwhile, so that all of it is what was seen at one moment.
 *
 * Any thread; each call reads /proc. */
#ifndef GODWIT_TOOLS_GODWIT_LIMIT_FAMILY_H
#define GODWIT_TOOLS_GODWIT_LIMIT_FAMILY_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The memory that all descendants of a process have, without what belongs to files. Memory that several of them share
 * counts once, if need be: it is added up carefully only where a quick look finds more than `limit_bytes`. *largest becomes
 * the one that has most; 0: none has any. */
uint64_t gw_family_memory(pid_t root, uint64_t limit_bytes, pid_t *largest);

/* Has a process and its descendants run on the processors `set`: each of their threads that runs on those of `before`. The
 * others have chosen theirs by themselves. */
void gw_family_set_cores(pid_t root, const cpu_set_t *before, const cpu_set_t *set);

#endif
