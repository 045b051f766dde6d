/* Logs where threads of this process are: the watchdog shows it of a thread that hangs.
 *
 * The thread gets a signal, whose handler notes the return addresses; the thread of symbols.h adds the
 * names. A thread that takes no signal is inside the kernel, for example waiting for a disk that does not
 * answer; the log gets what the kernel tells of it. Threads are identified by their names
 * (pthread_setname_np): gw-worker-3, gw-compute, gw-payload, gw-disk, gw-checkpoint, gw-data-files,
 * gw-gpu, gw-part-1.
 *
 * Nothing here waits for a disk, which may be what all threads hang in. A thread has half a second to
 * answer, or a whole one if it has begun to. Names have some seconds (tools/godwit/watch/symbols.h);
 * without them addresses are logged. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_STACKS_H
#define GODWIT_TOOLS_GODWIT_WATCH_STACKS_H

#include "core/base/err.h"

#include <stdbool.h>

/* Installs the signal handler and starts the thread of symbols.h, before the other functions are called. A
 * process whose peer begins again calls it again, which changes nothing. The caller blocks the signals that
 * are not for every thread. Main thread. */
bool gw_stacks_open(gw_err *err);

/* Logs the stack of the process's first thread, which runs the loop. Thread: any. */
void gw_stacks_log_first(void);
/* Logs the stacks of all threads called `name`, or `name` and a number ("gw-worker": all workers), up to
 * 16 of them and without the caller's own. Thread: any. */
void gw_stacks_log(const char *name);

#endif
