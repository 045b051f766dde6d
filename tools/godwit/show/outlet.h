/* One of the process's outputs, written by a thread of its own: a reader who is slow or stands still (a
 * pager, Ctrl-S on a terminal) must not hold up a peer, which the others would take for dead. What is not
 * written yet waits in memory, up to GW_OUTLET_BYTES; beyond that whole pieces are left out, and counted. So
 * are those that come while a disk is full: a run outlives that, and what it prints later is written again.
 * After another error that may pass (a file server that does not answer) the piece is tried again, every few
 * seconds.
 *
 * Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_OUTLET_H
#define GODWIT_TOOLS_GODWIT_SHOW_OUTLET_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_OUTLET_BYTES = 8 << 20 };

typedef struct gw_outlet gw_outlet;

/* `fd` stays the caller's, and must stay open. NULL on failure. */
gw_outlet *gw_outlet_open(int fd, gw_err *err);
/* Waits until everything is written or cannot be, which two seconds of errors say, and ends the thread.
 * Returns as gw_outlet_failure. NULL is allowed. */
int gw_outlet_close(gw_outlet *outlet);

/* Queues a piece (copied). Order is kept, and a piece is written whole or not at all; but for one at which
 * the disk became full, whose beginning is a line of its own. */
void gw_outlet_put(gw_outlet *outlet, const char *bytes, size_t count);
/* Nothing waits. */
bool gw_outlet_idle(gw_outlet *outlet);
/* Waits until nothing waits, but at most so long. */
void gw_outlet_flush(gw_outlet *outlet, uint64_t patience_ns);

/* The errno with which the last write failed; 0 = it did not. */
int gw_outlet_failure(gw_outlet *outlet);
/* After such a failure nothing is written any more (EPIPE: the reader has gone; EIO of a terminal: it hung
 * up). False for 0, and for all that may pass. */
bool gw_outlet_failure_stays(const gw_outlet *outlet, int failure);
/* Whether pieces wait for the end of such a failure; else room is missing, and each is left out. Pure. */
bool gw_outlet_lacks_room(int failure);
/* Pieces left out so far; what comes after a failure that stays is not counted. */
uint64_t gw_outlet_left_out(gw_outlet *outlet);

#endif
