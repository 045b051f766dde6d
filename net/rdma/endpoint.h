/* One side of an RDMA path between two peers: its secrets, its queue pairs, and how they are connected. There
 * are three kinds of queue pairs:
 *  - one for every rail, dialled by the side that leads;
 *  - one for this side's operations on the other side's words, dialled by this side. An operation that the
 *    other side's fence refuses breaks this queue pair only. It is dialled anew then, and also when it could
 *    not be connected while the keys of the words are known: the first time at once, afterwards after the
 *    pauses of gw_rdma_pause (net/rdma/reader.h);
 *  - one for this side's READs of memory that the other side lends, dialled when something has been lent.
 *
 * Thread: the control thread, unless a function says otherwise. */
#ifndef GODWIT_NET_RDMA_ENDPOINT_H
#define GODWIT_NET_RDMA_ENDPOINT_H

#include "net/rdma/owner.h"
#include "net/rdma/reader.h"
#include "net/rdma/requester.h"

/* All endpoints of a path, with what they share. */
typedef struct gw_rdma_endpoints {
    const gw_path_host *host;
    gw_rdma_memory *memory;
    gw_rdma_cm *cm;
    gw_rdma_owner *owner;
    gw_rdma_requesters *requesters;
    gw_rdma_readers *readers;
    /* The device is gone, or its port down: all endpoints have failed, and no others can be opened. */
    bool lost;
    bool removed; /* lost, and the device will not act again: everything made on it must be closed */
    gw_err why_lost;
    uint32_t packing_mbits; /* gw_rdma_packing_mbits of this machine */
    uint32_t told_mbits;    /* the rate to a peer about which the log has told whether sums are packed */
    bool told;
    struct gw_rdma_endpoint *first;
} gw_rdma_endpoints;

/* Makes cm, requesters and readers; host, memory, owner and packing_mbits must be filled in. *port becomes the
 * port that others dial. After a failure too, gw_rdma_endpoints_close takes back what there is. It may be opened again
 * afterwards. */
bool gw_rdma_endpoints_open(gw_rdma_endpoints *endpoints, uint16_t *port, gw_err *err);
/* Closes what gw_rdma_endpoints_open has made. All endpoints must have been closed. */
void gw_rdma_endpoints_close(gw_rdma_endpoints *endpoints);

/* The operations of gw_path_ops (net/rail/path.h). `card` is the other side's. */
gw_path_endpoint *gw_rdma_endpoint_open(gw_rdma_endpoints *endpoints, const gw_path_endpoint *as,
                                        const gw_rdma_card *card, gw_err *err);
void gw_rdma_endpoint_close(gw_path_endpoint *endpoint);
void gw_rdma_endpoint_message(gw_path_endpoint *endpoint, const uint8_t *bytes, uint32_t count);
gw_channel *gw_rdma_endpoint_channel(gw_path_endpoint *endpoint, uint32_t stream, uint32_t rail, gw_err *err);
gw_path_posted gw_rdma_endpoint_post(gw_path_endpoint *endpoint, const gw_op *op, gw_completion *completion);
void gw_rdma_endpoint_abandon(gw_path_endpoint *endpoint);
void gw_rdma_endpoint_found(gw_path_endpoint *endpoint, gw_lookup *lookup);

#endif
