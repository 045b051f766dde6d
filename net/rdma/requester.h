/* This peer's operations on another's words: one READ, WRITE or atomic of the device each, by a queue pair of
 * their own. What it cannot do, the rails can: it passes.
 *
 * An operation goes directly only when the owner has told the keys of its words for the operation's fence.
 * When these are the owner's no more, its device refuses: nothing has happened, the operation goes by the
 * rails, and the queue pair is to be replaced.
 *
 * Whoever posts to a queue pair that has nothing else to do waits for the answer, polling, for as long as a
 * card takes to give it: a thief has nothing better to do, and no thread must be woken. What takes longer,
 * and what is posted beside other work, is left to the thread of small operations.
 *
 * Threads: any. */
#ifndef GODWIT_NET_RDMA_REQUESTER_H
#define GODWIT_NET_RDMA_REQUESTER_H

#include "net/rdma/message.h"

/* All of a path's; looked after by the thread of small operations. */
typedef struct gw_rdma_requesters gw_rdma_requesters;
typedef struct gw_rdma_requester gw_rdma_requester;

typedef struct gw_rdma_requester_events {
    void (*completed)(gw_path_endpoint *endpoint, const gw_completion *completion);
    void (*passed)(gw_path_endpoint *endpoint, const gw_op *op); /* by the rails, please */
    /* The queue pair is of no more use. `refused`: by the owner's fence, and not because it is gone. */
    void (*broken)(gw_path_endpoint *endpoint, const gw_err *why, bool refused);
} gw_rdma_requester_events;

/* Watched by `thread` from now on. NULL on failure. */
gw_rdma_requesters *gw_rdma_requesters_open(gw_rail_thread *thread, const gw_rdma_requester_events *events,
                                            gw_err *err);
/* All its requesters have been closed. */
void gw_rdma_requesters_close(gw_rdma_requesters *requesters);

/* For the words of end->peer; no queue pair yet. Holds `memory`. NULL on failure. */
gw_rdma_requester *gw_rdma_requester_open(gw_rdma_requesters *requesters, gw_path_endpoint *endpoint,
                                          gw_rdma_memory *memory, gw_err *err);
/* Completes what is outstanding with GW_OP_UNKNOWN; afterwards the end is not touched any more. */
void gw_rdma_requester_close(gw_rdma_requester *requester);

/* A new queue pair to be connected, in place of what there was: what was outstanding is completed with
 * GW_OP_UNKNOWN. NULL on failure. */
gw_rdma_queue *gw_rdma_requester_renew(gw_rdma_requester *requester, gw_err *err);
/* It is connected. */
void gw_rdma_requester_use(gw_rdma_requester *requester);
/* The keys to use from now on. */
void gw_rdma_requester_told(gw_rdma_requester *requester, const gw_rdma_words_message *words);
/* As gw_path_ops' post; the events may come from inside. */
gw_path_posted gw_rdma_requester_post(gw_rdma_requester *requester, const gw_op *op,
                                      gw_completion *completion);
void gw_rdma_requester_abandon(gw_rdma_requester *requester);

#endif
