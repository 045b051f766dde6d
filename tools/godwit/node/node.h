/* The runtime of one peer: everything between a parsed command line and an exit code. It joins the brain
 * (core/brain/peer.h) to sockets, disk, workers and the people who watch.
 *
 *   node.c       the main loop: events in, actions out
 *   start.c      opens and closes everything in order
 *   actions.c    carries out the actions of the brain
 *   feed.h       the inlet for events
 *   job.c        the job's code, plan and identity
 *   network.c    sockets of the control plane, and the data links that follow them
 *   gpu.c        sums and figures of the peer's GPUs
 *   record.c     what survives the process: the record and the claim journal
 *   remember.c   keeps the file of known peers; known.c is its format
 *   seeds.c      looks up the seeds of --join
 *   reach.c      finds out why another peer is not met
 *   progress.c   whether requests and tasks make progress
 *   publish.c    what people see
 *   configuration.c  what the run is, for people who look at its curves
 *   signals.c    the thread that obeys signals
 *
 * The work itself is in tools/godwit/work. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_NODE_H
#define GODWIT_TOOLS_GODWIT_NODE_NODE_H

#include "tools/godwit/options/options.h"
#include "tools/godwit/show/console.h"

/* Runs a peer until it is through and returns the process's exit code: 0 when the job is done or stopped, or
 * this peer left as asked; 1 when it failed, was turned away, or its last state could not be saved; 2 for
 * options that make no sense. The console has then said what went wrong. Main thread; installs handlers for
 * SIGTERM, SIGINT and SIGHUP. */
int gw_node_run(const gw_run_options *options, gw_console *console);

#endif
