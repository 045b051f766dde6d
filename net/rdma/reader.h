/* The asking side of large transfers: FETCHes and READs of data regions whose bytes the device READs from the
 * owner's memory straight into the caller's buffer, with no thread of the owner's and no copy on the way.
 *
 * The owner is told what is wanted, over the encrypted stream, and answers where it lies and with which key
 * (net/rdma/loans.h); the bytes are READ by a queue pair of this room's own, and the loan is given back. A
 * READ is cut into parts that may each be lent, a FETCH is one; several are under way at once. Small ones go
 * by the rails: there a message each way is all it takes.
 *
 * Nothing of this changes anything at the owner, so that whatever fails (it cannot be lent, the key was
 * revoked, the queue pair broke) goes by the rails after all, from its beginning. A queue pair that broke is
 * replaced, whatever it broke of, and the link does not mind: Soft-RoCE, when a key is revoked in the middle
 * of a READ, refuses the READ's first packet, which who has had that one does not heed, and its retries run
 * out as if there were nobody. Whether there is somebody shows in the rails, by what goes there instead.
 *
 * Where several in a row break before anything was READ, or one cannot be connected, all goes by the rails
 * for a while, 30 s and then ever longer, up to ten minutes; the log says when that begins, and when it is
 * over.
 *
 * Threads: _takes, _post and _abandon any; the rest is the control thread's. Completions and what is passed
 * on come on the control thread, and from _post, _abandon and _close. */
#ifndef GODWIT_NET_RDMA_READER_H
#define GODWIT_NET_RDMA_READER_H

#include "net/rdma/message.h"

enum { GW_RDMA_READ_LEAST = 64 * 1024 /* more than so many bytes are READ */ };

/* How long something that failed between two peers is left alone (net/loop/backoff.h). The log says when that begins and when it
 * is over; tries in between that fail are logged at the level DEBUG. Thread: its owner's. All zeros: it works. */
typedef struct gw_rdma_pause {
    uint64_t ns; /* the last pause; 0: it works */
} gw_rdma_pause;

/* Notes a failure, and returns how long the next try is to wait. `meanwhile` says what is done instead: "large transfers come
 * in messages". */
uint64_t gw_rdma_pause_begin(gw_rdma_pause *pause, const gw_peer_id *peer, const gw_err *why,
                             const char *meanwhile);
/* Notes a success. `again` says what works again: "large transfers are READ again". */
void gw_rdma_pause_end(gw_rdma_pause *pause, const gw_peer_id *peer, const char *again);

/* All of a path's. */
typedef struct gw_rdma_readers gw_rdma_readers;
typedef struct gw_rdma_reader gw_rdma_reader;

/* A queue pair is needed: gw_rdma_reader_renew, and have it connected. */
typedef void gw_rdma_reader_needed(gw_path_endpoint *endpoint);

/* NULL on failure. */
gw_rdma_readers *gw_rdma_readers_open(gw_loop *loop, gw_rdma_reader_needed *needed, gw_err *err);
/* All readers have been closed. NULL is allowed. */
void gw_rdma_readers_close(gw_rdma_readers *readers);

/* For the memory of end->peer. Holds `memory`. NULL on failure. */
gw_rdma_reader *gw_rdma_reader_open(gw_rdma_readers *readers, gw_path_endpoint *endpoint,
                                    gw_rdma_memory *memory, gw_err *err);
/* Completes what is under way with GW_OP_UNKNOWN. NULL is allowed. */
void gw_rdma_reader_close(gw_rdma_reader *reader);

/* Whether an operation is of this room's kind; gw_rdma_reader_post may pass on it all the same. */
bool gw_rdma_reader_takes(const gw_op *op);
gw_path_posted gw_rdma_reader_post(gw_rdma_reader *reader, const gw_op *op);
void gw_rdma_reader_abandon(gw_rdma_reader *reader);
/* The owner's answer. False: it makes no sense. */
bool gw_rdma_reader_lent(gw_rdma_reader *reader, const gw_rdma_lent_message *lent);

/* A new queue pair to be connected, in place of what there was. NULL on failure. */
gw_rdma_queue *gw_rdma_reader_renew(gw_rdma_reader *reader, gw_err *err);
/* It is connected. */
void gw_rdma_reader_use(gw_rdma_reader *reader);
/* Its connection failed, or the other side has ended it. In the first case nothing is READ for a while. */
void gw_rdma_reader_lost(gw_rdma_reader *reader, const gw_err *why);

#endif
