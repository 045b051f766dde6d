/* The runtime of one peer: everything between a parsed command line and an exit code. It joins the brain
 * (core/brain/peer.h) to sockets, disk, workers and the people who watch.
 *
 *   node.c          the main loop: events in, actions out
 *   node_start.c    opening and closing everything in order
 *   node_actions.c  what each action of the brain means here
 *   node_mail.c     events from other threads to the loop
 *   node_workers.c  the worker pool: own range word, private range, claims
 *   node_helper.c   threads for what may take long
 *   node_task.c     what the compute helper is given, and whether it hangs
 *   node_reduce.c   one reduction
 *   node_state.c    applying, and loading a state
 *   node_fetch.c    chunks by name, from and to other peers
 *   node_save.c     checkpoints
 *   node_wires.c    data connections, one-sided operations on words
 *   node_identity.c what must be alike on every peer of a job
 *   node_other_job.c checkpoints of other jobs
 *   node_publish.c  what people see */
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
