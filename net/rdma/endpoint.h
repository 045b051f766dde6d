/* One side of an RDMA path between two peers: its secrets, its queue pairs and how they are connected. Each
 * end has one queue pair for every rail, dialled by the side that leads, and one for its operations on the
 * other's words, dialled by itself: an operation that the other's fence refuses breaks nothing but the
 * requester's own queue pair, which is dialled anew; so is one that could not be connected, as long as the keys
 * are told: at once, and then after the pauses of net/rdma/reader.h. For the same reason a third kind is for
 * READs of what is lent; it is dialled when something has been.
 *
 * Thread: the control thread, unless said otherwise. */
#ifndef GODWIT_NET_RDMA_ENDPOINT_H
#define GODWIT_NET_RDMA_ENDPOINT_H

#include "net/rdma/owner.h"
#include "net/rdma/reader.h"
#include "net/rdma/requester.h"

/* All of a path's, with what they share. */
typedef struct gw_rdma_endpoints {
    const gw_path_host *host;
    gw_rdma_memory *memory;
    gw_rdma_cm *cm;
    gw_rdma_owner *owner;
    gw_rdma_requesters *requesters;
    gw_rdma_readers *readers;
    bool lost;    /* the device is gone, or its port down: all ends have failed, and there can be no others */
    bool removed; /* lost, and the device will not act again: all of this is to be closed */
    gw_err why_lost;
    struct gw_rdma_endpoint *first;
} gw_rdma_endpoints;

/* Makes cm, requesters and readers; host, memory and owner are filled in. *port is where others dial. On failure
 * too, _close takes back what there is; afterwards it may be opened again. */
bool gw_rdma_endpoints_open(gw_rdma_endpoints *endpoints, uint16_t *port, gw_err *err);
/* No end is left. */
void gw_rdma_endpoints_close(gw_rdma_endpoints *endpoints);

/* As in gw_path_ops. `address`: where the other side listens. */
gw_path_endpoint *gw_rdma_endpoint_open(gw_rdma_endpoints *endpoints, const gw_path_endpoint *as,
                                        const gw_addr *address, gw_err *err);
void gw_rdma_endpoint_close(gw_path_endpoint *endpoint);
void gw_rdma_endpoint_message(gw_path_endpoint *endpoint, const uint8_t *bytes, uint32_t count);
gw_channel *gw_rdma_endpoint_channel(gw_path_endpoint *endpoint, uint32_t stream, uint32_t rail, gw_err *err);
gw_path_posted gw_rdma_endpoint_post(gw_path_endpoint *endpoint, const gw_op *op, gw_completion *completion);
void gw_rdma_endpoint_abandon(gw_path_endpoint *endpoint);
void gw_rdma_endpoint_found(gw_path_endpoint *endpoint, gw_lookup *lookup);

#endif
