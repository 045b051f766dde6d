/* The requesting side of large transfers: FETCHes, and READs of data regions, whose bytes the device READs
 * from the owner's memory straight into the caller's buffer, without a thread of the owner and without a
 * copy.
 *
 * The owner is told what is requested, over the encrypted stream, and answers with the address and the key
 * (net/rdma/loans.h). The bytes are READ by a queue pair for this purpose, and the loan is given back. A READ
 * operation is cut into parts that can each be lent; a FETCH is one part. Several parts are under way at
 * once. Small transfers go by the rails, where they take only one message each way.
 *
 * These transfers change nothing at the owner. Therefore whatever fails (it cannot be lent, the key was
 * revoked, the queue pair broke) is repeated by the rails from its beginning. A queue pair that broke is
 * replaced whatever the reason was, and the link stays up: when a key is revoked in the middle of a READ,
 * Soft-RoCE refuses the READ's first packet; the reader, which has had that packet, ignores the refusal, and
 * its retries run out as if the owner were gone. Whether the owner is gone shows on the rails, by the
 * transfers that go there instead.
 *
 * If several queue pairs in a row break before anything was READ, or one cannot be connected, all transfers
 * go by the rails for a while (gw_rdma_pause).
 *
 * Threads: gw_rdma_reader_takes, _post and _abandon any; all others the control thread. Completions, and
 * operations that are passed on, come on the control thread and from inside _post, _abandon and _close. */
#ifndef GODWIT_NET_RDMA_READER_H
#define GODWIT_NET_RDMA_READER_H

#include "net/rdma/message.h"

enum { GW_RDMA_READ_LEAST = 64 * 1024 /* transfers of more bytes than this are READ */ };

/* How long something that failed between two peers is left alone (net/loop/backoff.h). The log says when that
 * begins and when it is over; tries in between that fail are logged at the level DEBUG. Thread: its owner's.
 * All zeros: it works. */
typedef struct gw_rdma_pause {
    uint64_t ns; /* the last pause; 0: it works */
} gw_rdma_pause;

/* Notes a failure, and returns how long the next try is to wait. `meanwhile` says what is done instead:
 * "large transfers come in messages". */
uint64_t gw_rdma_pause_begin(gw_rdma_pause *pause, const gw_peer_id *peer, const gw_err *why,
                             const char *meanwhile);
/* Notes a success. `again` says what works again: "large transfers are READ again". */
void gw_rdma_pause_end(gw_rdma_pause *pause, const gw_peer_id *peer, const char *again);

/* All readers of a path. */
typedef struct gw_rdma_readers gw_rdma_readers;
typedef struct gw_rdma_reader gw_rdma_reader;

/* Asks for a queue pair: the receiver calls gw_rdma_reader_renew and has the result connected. */
typedef void gw_rdma_reader_needed(gw_path_endpoint *endpoint);

/* Opens an empty list. NULL on failure. */
gw_rdma_readers *gw_rdma_readers_open(gw_loop *loop, gw_rdma_reader_needed *needed, gw_err *err);
/* Closes it. All readers must have been closed. NULL is allowed. */
void gw_rdma_readers_close(gw_rdma_readers *readers);

/* Opens a reader for the memory of endpoint->peer. Holds `memory`. NULL on failure. */
gw_rdma_reader *gw_rdma_reader_open(gw_rdma_readers *readers, gw_path_endpoint *endpoint,
                                    gw_rdma_memory *memory, gw_err *err);
/* Completes what is under way with GW_OP_UNKNOWN, and frees the reader. NULL is allowed. */
void gw_rdma_reader_close(gw_rdma_reader *reader);

/* Whether an operation is large enough to be READ; gw_rdma_reader_post may pass on it all the same. */
bool gw_rdma_reader_takes(const gw_op *op);
gw_path_posted gw_rdma_reader_post(gw_rdma_reader *reader, const gw_op *op);
void gw_rdma_reader_abandon(gw_rdma_reader *reader);
/* Takes the owner's answer. False if it is malformed. */
bool gw_rdma_reader_lent(gw_rdma_reader *reader, const gw_rdma_lent_message *lent);

/* Replaces the queue pair by a new one, which the caller is to connect. NULL on failure. */
gw_rdma_queue *gw_rdma_reader_renew(gw_rdma_reader *reader, gw_err *err);
/* Notes that the queue pair is connected. */
void gw_rdma_reader_use(gw_rdma_reader *reader);
/* Notes that the connection failed, or that the other side has ended it. If it failed, nothing is READ for a
 * while. */
void gw_rdma_reader_lost(gw_rdma_reader *reader, const gw_err *why);

#endif
