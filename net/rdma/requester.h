/* This peer's operations on another peer's words: one READ, WRITE or atomic of the device each, on a queue
 * pair of their own. Operations that cannot be done this way are passed to the rails.
 *
 * An operation goes directly only if the owner has told the keys of its words for the operation's fence. When
 * the owner has withdrawn them, its device refuses the operation: nothing has happened, the operation goes by
 * the rails, and the queue pair must be replaced.
 *
 * A thread that posts to an idle queue pair polls for the answer, for about as long as a card takes to give
 * it: a thief has nothing better to do, and no thread needs to be woken. Operations that take longer, and
 * those posted beside other work, are left to the thread of small operations.
 *
 * Threads: any. */
#ifndef GODWIT_NET_RDMA_REQUESTER_H
#define GODWIT_NET_RDMA_REQUESTER_H

#include "net/rdma/message.h"

/* All requesters of a path. The thread of small operations polls them. */
typedef struct gw_rdma_requesters gw_rdma_requesters;
typedef struct gw_rdma_requester gw_rdma_requester;

typedef struct gw_rdma_requester_events {
    void (*completed)(gw_path_endpoint *endpoint, const gw_completion *completion);
    void (*passed)(gw_path_endpoint *endpoint,
                   const gw_op *op); /* the operation has not happened and is to go by the rails */
    /* The queue pair is of no more use. `refused`: the owner's fence has refused an operation; otherwise the
     * connection is lost. */
    void (*broken)(gw_path_endpoint *endpoint, const gw_err *why, bool refused);
} gw_rdma_requester_events;

/* Opens an empty list that `thread` polls. NULL on failure. */
gw_rdma_requesters *gw_rdma_requesters_open(gw_rail_thread *thread, const gw_rdma_requester_events *events,
                                            gw_err *err);
/* Closes it. All its requesters must have been closed. */
void gw_rdma_requesters_close(gw_rdma_requesters *requesters);

/* Opens a requester for the words of endpoint->peer, without a queue pair. Holds `memory`. NULL on
 * failure. */
gw_rdma_requester *gw_rdma_requester_open(gw_rdma_requesters *requesters, gw_path_endpoint *endpoint,
                                          gw_rdma_memory *memory, gw_err *err);
/* Completes outstanding operations with GW_OP_UNKNOWN and frees the requester. The endpoint is not used
 * afterwards. */
void gw_rdma_requester_close(gw_rdma_requester *requester);

/* Replaces the queue pair by a new one, which the caller is to connect. Outstanding operations complete with
 * GW_OP_UNKNOWN. NULL on failure. */
gw_rdma_queue *gw_rdma_requester_renew(gw_rdma_requester *requester, gw_err *err);
/* Notes that the queue pair is connected. */
void gw_rdma_requester_use(gw_rdma_requester *requester);
/* Sets the keys of the owner's words. */
void gw_rdma_requester_set_keys(gw_rdma_requester *requester, const gw_rdma_words_message *words);
/* As `post` of gw_path_ops. The events may be called from inside. */
gw_path_posted gw_rdma_requester_post(gw_rdma_requester *requester, const gw_op *op,
                                      gw_completion *completion);
void gw_rdma_requester_abandon(gw_rdma_requester *requester);

#endif
