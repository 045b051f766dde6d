/* What a peer tells the service manager that has started it (core/os/notify.h; systemd's Type=notify):
 *
 * - READY=1 when its event loop runs: the command line, the key, the port, the directory and the data have
 *   been found good, and the peer answers `godwit status`. It may wait for other peers then. Where it takes
 *   longer to get there, as it does with large data, READY=1 is sent after GW_SUPERVISOR_READY_NS all the
 *   same, so that nobody waits for minutes until the service has started.
 * - STATUS= with the live line: step, what the peer does or waits for, loss, speed. At most once a second,
 *   when it changes.
 * - WATCHDOG=1 from the event loop, twice in each WATCHDOG_USEC: a loop that does not turn is found. While
 *   there is no loop yet, or none any more, a thread sends it: what happens then has limits of its own.
 * - STOPPING=1 once this peer leaves or the job ends, and from then on EXTEND_TIMEOUT_USEC every second, as
 *   saving a state takes its time. A loop that no longer turns asks for no more time.
 *
 * A message that the service manager does not take at once is sent again a second later; nothing waits for
 * it.
 *
 * Threads: the main thread, which runs the loop. NULL stands for nobody who listens; every function does
 * nothing then. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_SUPERVISOR_H
#define GODWIT_TOOLS_GODWIT_SHOW_SUPERVISOR_H

#include "core/base/err.h"
#include "net/loop/loop.h"
#include "tools/godwit/show/snapshot.h"

#define GW_SUPERVISOR_READY_NS UINT64_C(10000000000)

typedef struct gw_supervisor gw_supervisor;

/* Takes the service manager's variables out of the environment. *supervisor is NULL where there are none,
 * and where they make no sense, which is logged. READY=1 is sent after `ready_ns` at the latest. Before
 * any other thread is started. */
bool gw_supervisor_open(gw_supervisor **supervisor, uint64_t ready_ns, gw_err *err);
/* The loop is about to run, and has ended. It may begin and end several times. */
void gw_supervisor_begin_loop(gw_supervisor *supervisor, gw_loop *loop);
void gw_supervisor_end_loop(gw_supervisor *supervisor);
/* Shows a snapshot. `ends`: this process is about to end by itself. */
void gw_supervisor_show(gw_supervisor *supervisor, const gw_node_snapshot *snapshot, bool ends);
void gw_supervisor_close(gw_supervisor *supervisor);

#endif
