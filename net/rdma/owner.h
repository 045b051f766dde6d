/* The owner's side of operations over RDMA: which peers may reach this peer's words, by which queue pairs and
 * with which keys. A *guest* is the other side of an endpoint; it operates on this peer's words by a queue
 * pair that it dials for that purpose alone.
 *
 * Fence. gw_rdma_owner_fence_begin bars the queue pairs of guests that are not members and deregisters the
 * words; gw_rdma_owner_fence_end registers the fresh words under keys that were not in use lately, and tells
 * them to the members. A barred queue pair has lost its access rights: the device refuses every operation
 * that comes by it, whatever key it names. For the words this has the effect of destroying the queue pair.
 * However, a destroyed queue pair answers nothing, so the guest's retries would run out and it could not tell
 * whether an operation on its way has happened, while a barred one answers that nothing has happened. It is
 * destroyed when the guest has heard, over the encrypted stream, that it has no access any more, and has hung
 * up. If the device cannot take rights away, the queue pair is moved to its error state, in which it serves
 * nothing. Loans of data regions are revoked (net/rdma/loans.h).
 *
 * Threads: the control thread, but for the functions of the fence (any thread, one fence at a time). */
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
    gw_path_endpoint *endpoint; /* the endpoint whose peer is the guest */
    gw_rdma_connection *connection;
    /* The fields below are guarded by the owner's lock. */
    struct gw_rdma_guest *next;
    gw_rdma_queue *queue; /* the queue pair that the guest operates by; NULL: none */
    bool answered;        /* the queue is connected */
    bool barred;
    bool standing; /* the link takes this path, so the guest is told the keys */
} gw_rdma_guest;

/* Opens an owner without guests. Holds `memory`; `host` must outlive it. NULL on failure. */
gw_rdma_owner *gw_rdma_owner_open(const gw_path_host *host, gw_rdma_memory *memory, gw_err *err);
/* Closes it. All guests must have left. */
void gw_rdma_owner_close(gw_rdma_owner *owner);
/* As gw_rdma_words_domain. */
const gw_word_domain *gw_rdma_owner_domain(const gw_rdma_owner *owner);

void gw_rdma_guest_enter(gw_rdma_guest *guest, gw_rdma_owner *owner, gw_path_endpoint *endpoint);
void gw_rdma_guest_leave(gw_rdma_guest *guest); /* does nothing if the guest has not entered */
/* Answers a guest that dials: returns another queue pair for it, to be connected, in place of an earlier one.
 * NULL if it is no member, or on failure. */
gw_rdma_queue *gw_rdma_guest_serve(gw_rdma_guest *guest);
/* Notes that the queue pair is connected. */
void gw_rdma_guest_answered(gw_rdma_guest *guest, gw_rdma_connection *connection);
/* Destroys the guest's connection and queue pair, if there are any. */
void gw_rdma_guest_dismiss(gw_rdma_guest *guest);
/* Notes that the link takes this path: the guest is told the keys of the words now, if it is a member, and
 * after every fence. */
void gw_rdma_guest_stand(gw_rdma_guest *guest);

/* The loans of this peer. Parts of data regions are lent by gw_rdma_owner_lend, which checks the fence. */
gw_rdma_loans *gw_rdma_owner_loans(gw_rdma_owner *owner);
/* Lends a part of a data region to a member. NULL if the peer may not have it, or it cannot be lent. */
const gw_rdma_loan *gw_rdma_owner_lend(gw_rdma_owner *owner, const gw_peer_id *to,
                                       const gw_rdma_want_message *want);

/* As in gw_path_ops (net/rail/path.h). */
void gw_rdma_owner_fence_begin(gw_rdma_owner *owner, const gw_peer_id *members, uint32_t count);
void gw_rdma_owner_fence_end(gw_rdma_owner *owner, const gw_fence *fence);
/* Releases the device, which was removed. No endpoint may be left. Control thread. */
void gw_rdma_owner_release(gw_rdma_owner *owner);
/* Takes the memory of another device, and holds it; gw_rdma_owner_found must follow when the device can be
 * used. After a failure too, gw_rdma_owner_release takes it back. Control thread. */
bool gw_rdma_owner_take(gw_rdma_owner *owner, gw_rdma_memory *memory, gw_err *err);
/* Notes that the device acts again: guests get back, without a fence, what its loss took from them. Control
 * thread. */
void gw_rdma_owner_found(gw_rdma_owner *owner);

#endif
