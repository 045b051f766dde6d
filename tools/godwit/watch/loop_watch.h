/* Watches an event loop from a thread of its own, because the loop's timers do not run while a callback
 * does not return. A turn of the loop is progress: the loop hangs when it has not turned for longer than
 * the patience while this process did run (tools/godwit/watch/watchdog.h). */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_LOOP_WATCH_H
#define GODWIT_TOOLS_GODWIT_WATCH_LOOP_WATCH_H

#include "core/base/err.h"
#include "net/loop/loop.h"

typedef struct gw_loop_watch gw_loop_watch;

/* Called once, on the watching thread, when the loop hangs; may end the process. */
typedef void gw_loop_hangs(void *context, double seconds);

/* Starts the watch. The caller is the loop's thread, and runs the loop soon and until the watch is closed.
 * Returns NULL on failure. */
gw_loop_watch *gw_loop_watch_open(gw_loop *loop, uint64_t patience_ns, gw_loop_hangs *hangs, void *context,
                                  gw_err *err);
/* Ends the watch, on the loop's thread. Waits for a call of `hangs` under way. NULL is allowed. */
void gw_loop_watch_close(gw_loop_watch *watch);

#endif
