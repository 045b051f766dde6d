/* Watches an event loop from a thread of its own: the loop's timers, the watchdog of all else among them, do
 * not run while a callback does not return. The loop's turns are its progress: while it is stuck for longer
 * than a patience, and this process does run (tools/godwit/watch/watchdog.h), it hangs. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_LOOP_WATCH_H
#define GODWIT_TOOLS_GODWIT_WATCH_LOOP_WATCH_H

#include "core/base/err.h"
#include "net/loop/loop.h"

typedef struct gw_loop_watch gw_loop_watch;

/* Called once, on the watching thread; may end the process. */
typedef void gw_loop_hangs(void *context, double seconds);

/* The loop's thread, which runs the loop from soon on until the watch is closed. NULL on failure. */
gw_loop_watch *gw_loop_watch_open(gw_loop *loop, uint64_t patience_ns, gw_loop_hangs *hangs, void *context,
                                  gw_err *err);
/* The loop's thread. Waits for a `hangs` that is being called. NULL is allowed. */
void gw_loop_watch_close(gw_loop_watch *watch);

#endif
