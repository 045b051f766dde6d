/* The owner's side of operations over RDMA: who may reach this peer's words, by which queue pairs, with which
 * keys. A *guest* is the other side of an end of the path; it asks by a queue pair that it dials for that
 * alone.
 *
 * Fence. gw_rdma_owner_fence_begin bars the queue pairs of guests that are no members and deregisters the
 * words; _fence_end registers the fresh words under keys that were not in use lately, and tells the members.
 * A barred queue pair has lost its access rights: its device refuses every operation that comes by it,
 * whatever key it names, from the moment that the fence's call goes on. As to what can be done to the words,
 * that is all that destroying the queue pair does; but a destroyed one answers nothing, so that the guest
 * could not say of an operation on its way whether it happened, and its retries would run out. A barred one
 * says that nothing has happened. It is destroyed when the guest has heard (over the encrypted stream) that
 * the words are not for it any more, and hung up. What is lent of data regions is revoked (net/rdma/loans.h).
 * Where the device takes no rights away, the queue pair is
 * moved to its error state instead, in which it serves nothing.
 *
 * Threads: the control thread's, but for the fence's functions (any thread, one fence at a time). */
#ifndef GODWIT_NET_RDMA_OWNER_H
#define GODWIT_NET_RDMA_OWNER_H

#include "net/rail/path.h"
#include "net/rdma/cm.h"
#include "net/rdma/loans.h"
#include "net/rdma/message.h"
#include "net/rdma/words.h"

typedef struct gw_rdma_owner gw_rdma_owner;

typedef struct gw_rdma_guest {
    gw_rdma_owner *owner;
    gw_path_endpoint *endpoint; /* whose peer asks, and is told */
    gw_rdma_connection *connection;
    /* under the owner's lock */
    struct gw_rdma_guest *next;
    gw_rdma_queue *queue; /* by which it asks; NULL: none */
    bool answered;        /* the queue is connected */
    bool barred;
    bool standing; /* the link goes by this path: the guest is told keys */
} gw_rdma_guest;

/* Holds `memory`; `host` outlives it. NULL on failure. */
gw_rdma_owner *gw_rdma_owner_open(const gw_path_host *host, gw_rdma_memory *memory, gw_err *err);
/* All guests have left. */
void gw_rdma_owner_close(gw_rdma_owner *owner);
/* See gw_rdma_words_domain. */
const gw_word_domain *gw_rdma_owner_domain(const gw_rdma_owner *owner);

void gw_rdma_guest_enter(gw_rdma_guest *guest, gw_rdma_owner *owner, gw_path_endpoint *endpoint);
void gw_rdma_guest_leave(gw_rdma_guest *guest); /* no-op for who has not entered */
/* The guest dials: another queue pair for it to ask by, to be connected, in place of what it had. NULL: it
 * may not, or it failed. */
gw_rdma_queue *gw_rdma_guest_serve(gw_rdma_guest *guest);
/* It is connected. */
void gw_rdma_guest_answered(gw_rdma_guest *guest, gw_rdma_connection *connection);
/* Destroys what the guest asks by, if there is anything. */
void gw_rdma_guest_dismiss(gw_rdma_guest *guest);
/* The link goes by this path: the guest is told the words' keys now, if it is a member, and at every fence.
 */
void gw_rdma_guest_stand(gw_rdma_guest *guest);

/* What this peer lends, the data regions' parts through here: to members, as the fence stands. */
gw_rdma_loans *gw_rdma_owner_loans(gw_rdma_owner *owner);
/* NULL: it is not for that peer, or cannot be lent. */
const gw_rdma_loan *gw_rdma_owner_lend(gw_rdma_owner *owner, const gw_peer_id *to,
                                       const gw_rdma_want_message *want);

/* See gw_path_ops. */
void gw_rdma_owner_fence_begin(gw_rdma_owner *owner, const gw_peer_id *members, uint32_t count);
void gw_rdma_owner_fence_end(gw_rdma_owner *owner, const gw_fence *fence);
/* The device was removed, and no end is left: lets go of it. Control thread. */
void gw_rdma_owner_let_go(gw_rdma_owner *owner);
/* Another device's memory, which is held; gw_rdma_owner_found is to follow when it can be used. On failure
 * too, _let_go takes it back. Control thread. */
bool gw_rdma_owner_take(gw_rdma_owner *owner, gw_rdma_memory *memory, gw_err *err);
/* The device acts again: what a loss took from the guests is theirs again without a fence. Control thread. */
void gw_rdma_owner_found(gw_rdma_owner *owner);

#endif
