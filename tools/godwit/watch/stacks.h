/* Where threads of this process are, for the log: what the watchdog shows of one that hangs.
 *
 * A thread is sent a signal, whose handler notes the return addresses; names are added by a thread of their
 * own. Of one that takes no signal (it is inside of the kernel, say waiting for a disk that does not answer)
 * the log gets what the kernel tells of it. Threads go by their names (pthread_setname_np): gw-worker-3,
 * gw-compute, gw-payload, gw-disk, gw-checkpoint, gw-data-files, gw-gpu, gw-part-1.
 *
 * Nothing here waits for a disk, which may be what all hang in: a thread has half a second to answer, or, if
 * it has begun to, a whole one; names have some seconds (tools/godwit/watch/symbol_thread.h), and while they
 * cannot be had addresses take their place. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_STACKS_H
#define GODWIT_TOOLS_GODWIT_WATCH_STACKS_H

#include "core/base/err.h"

#include <stdbool.h>

/* Once, before any thread is asked for: from here on the signal is taken. The caller blocks the signals that
 * are not for every thread. */
bool gw_stacks_open(gw_err *err);

/* Any thread: logs the stacks of the process's first thread, which runs the loop. */
void gw_stacks_log_first(void);
/* Any thread: the same of all threads called `name`, or `name` and a number ("gw-worker": all of them), a few
 * at most; the caller's own is left out. */
void gw_stacks_log(const char *name);

#endif
