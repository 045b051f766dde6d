/* The runtime of one peer: everything between a parsed command line and an exit code. It joins the brain
 * (core/brain/peer.h) to sockets, disk, workers and the people who watch.
 *
 *   node.c       the main loop: events in, actions out
 *   start.c      opens and closes everything in order
 *   actions.c    carries out the actions of the brain
 *   links.c      sockets of the control plane; what arrives becomes events
 *   task.c       tasks of the compute helper, and whether one hangs
 *   progress.c   whether requests to helpers and threads make progress
 *   signals.c    the thread that obeys signals
 *   seeds.c      where the seeds of --join are
 *   known.c      the format of the file of known peers; remember.c reads and writes it
 *   identity.c   what must be alike on every peer of a job
 *   other_job.c  checkpoints of other jobs
 *   gpu.c        sums and figures of the peer's GPUs
 *   publish.c    what people see
 *
 * The work itself is in tools/godwit/work. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_NODE_H
#define GODWIT_TOOLS_GODWIT_NODE_NODE_H

#include "tools/godwit/options/options.h"
#include "tools/godwit/show/console.h"

/* Runs a peer until it is through and returns the process's exit code: 0 when the job is done or stopped, or
 * this peer left as asked; 1 when it failed, was turned away, or its last state could not be saved; 2 for
 * options that make no sense. What went wrong has then been said on the console. Main thread; installs
 * handlers for SIGTERM, SIGINT and SIGHUP. */
int gw_node_run(const gw_run_options *options, gw_console *console);

#endif
