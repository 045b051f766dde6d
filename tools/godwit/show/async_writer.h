/* Writes one of the process's outputs from a thread of its own. A reader that is slow or does not read (a
 * pager, Ctrl-S on a terminal) must not block a peer, which the others would take for dead. Pieces that are
 * not written yet wait in memory, up to GW_ASYNC_WRITER_BYTES; beyond that, whole pieces are left out and
 * counted. Pieces are also left out and counted while a disk is full: a run outlives that, and what it prints
 * later is written again. After another error that may pass (a file server that does not answer) the piece is
 * tried again every few seconds.
 *
 * Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_ASYNC_WRITER_H
#define GODWIT_TOOLS_GODWIT_SHOW_ASYNC_WRITER_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_ASYNC_WRITER_BYTES = 8 << 20 };

typedef struct gw_async_writer gw_async_writer;

/* Starts the thread. `fd` stays the caller's, and must stay open. Returns NULL on failure. */
gw_async_writer *gw_async_writer_open(int fd, gw_err *err);
/* Waits until everything is written, or errors have lasted for two seconds, and ends the thread. Returns as
 * gw_async_writer_failure. NULL is allowed. */
int gw_async_writer_close(gw_async_writer *writer);

/* Queues a piece (copied). Order is kept. A piece is written whole or not at all, except for one during which
 * the disk became full: its beginning becomes a line of its own. */
void gw_async_writer_put(gw_async_writer *writer, const char *bytes, size_t count);
/* Whether no piece waits. */
bool gw_async_writer_idle(gw_async_writer *writer);
/* Returns when no piece waits, or after `patience_ns`. */
void gw_async_writer_flush(gw_async_writer *writer, uint64_t patience_ns);

/* The errno with which the last write failed; 0 = it did not. */
int gw_async_writer_failure(gw_async_writer *writer);
/* Whether nothing is written any more after this failure (EPIPE: the reader has gone; EIO of a terminal: it
 * hung up). False for 0, and for failures that may pass. */
bool gw_async_writer_failure_stays(const gw_async_writer *writer, int failure);
/* Whether the failure is a lack of room, during which pieces are left out; during other failures that may
 * pass they wait. Pure. */
bool gw_async_writer_lacks_room(int failure);
/* Pieces left out so far, except for those after a failure that stays. */
uint64_t gw_async_writer_left_out(gw_async_writer *writer);

#endif
