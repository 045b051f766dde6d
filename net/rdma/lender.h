/* The lending side of one end of a path: answers what the other side wants to READ (net/rdma/message.h), and
 * ends its loans when it gives them back or the end is closed. The queue pair by which it READs is the
 * path's.
 *
 * Thread: the control thread's, all of it. */
#ifndef GODWIT_NET_RDMA_LENDER_H
#define GODWIT_NET_RDMA_LENDER_H

#include "net/rdma/message.h"
#include "net/rdma/owner.h"

enum { GW_RDMA_LENT_MOST = 16 /* to one peer at once: what it wants beyond goes by the rails */ };

typedef struct gw_rdma_lender gw_rdma_lender;

/* `end`, whose host looks up and tells, and `owner` outlive it. NULL: out of memory. */
gw_rdma_lender *gw_rdma_lender_open(gw_path_endpoint *endpoint, gw_rdma_owner *owner);
/* The other side cannot READ any more: its queue pair is gone. NULL is allowed. */
void gw_rdma_lender_close(gw_rdma_lender *lender);

void gw_rdma_lender_wanted(gw_rdma_lender *lender, const gw_rdma_want_message *want);
/* The lookup that host->look_up was given is answered; becomes the lender's. */
void gw_rdma_lender_found(gw_rdma_lender *lender, gw_lookup *lookup);
void gw_rdma_lender_given_back(gw_rdma_lender *lender, uint64_t id);

#endif
