/* The lending side of one endpoint: it answers what the other side requests to READ (net/rdma/message.h), and
 * ends loans when the other side gives them back or the endpoint is closed. The queue pair for the READs is
 * the endpoint's.
 *
 * Thread: the control thread. */
#ifndef GODWIT_NET_RDMA_LENDER_H
#define GODWIT_NET_RDMA_LENDER_H

#include "net/rdma/message.h"
#include "net/rdma/owner.h"

enum { GW_RDMA_LENT_MOST = 16 /* most loans to one peer at once; further requests go by the rails */ };

typedef struct gw_rdma_lender gw_rdma_lender;

/* Opens a lender without loans. `endpoint`, whose host looks up names and sends messages, and `owner` must
 * outlive it. NULL if out of memory. */
gw_rdma_lender *gw_rdma_lender_open(gw_path_endpoint *endpoint, gw_rdma_owner *owner);
/* Ends all loans. The queue pair by which the other side READs must be gone. NULL is allowed. */
void gw_rdma_lender_close(gw_rdma_lender *lender);

void gw_rdma_lender_wanted(gw_rdma_lender *lender, const gw_rdma_want_message *want);
/* Takes the lookup that was given to host->look_up and is answered now. */
void gw_rdma_lender_found(gw_rdma_lender *lender, gw_lookup *lookup);
void gw_rdma_lender_given_back(gw_rdma_lender *lender, uint64_t id);

#endif
