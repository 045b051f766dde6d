/* One side of an RDMA path between two peers: its secrets, its queue pairs and how they are connected. Each
 * end has one queue pair for every rail, dialled by the side that leads, and one for its operations on the
 * other's words, dialled by itself: an operation that the other's fence refuses breaks nothing but the
 * asker's own queue pair, which is dialled anew; so is one that could not be connected, as long as the keys
 * are told: at once, and then after the pauses of net/rdma/pause.h. For the same reason a third kind is for
 * READs of what is lent; it is dialled when something has been.
 *
 * Thread: the control thread, unless said otherwise. */
#ifndef GODWIT_NET_RDMA_END_H
#define GODWIT_NET_RDMA_END_H

#include "net/rdma/asker.h"
#include "net/rdma/owner.h"
#include "net/rdma/reader.h"

/* All of a path's, with what they share. */
typedef struct gw_rdma_ends {
    const gw_path_host *host;
    gw_rdma_memory *memory;
    gw_rdma_cm *cm;
    gw_rdma_owner *owner;
    gw_rdma_askers *askers;
    gw_rdma_readers *readers;
    bool lost;    /* the device is gone, or its port down: all ends have failed, and there can be no others */
    bool removed; /* lost, and the device will not act again: all of this is to be closed */
    gw_err why_lost;
    struct gw_rdma_end *first;
} gw_rdma_ends;

/* Makes cm, askers and readers; host, memory and owner are filled in. *port is where others dial. On failure
 * too, _close takes back what there is; afterwards it may be opened again. */
bool gw_rdma_ends_open(gw_rdma_ends *ends, uint16_t *port, gw_err *err);
/* No end is left. */
void gw_rdma_ends_close(gw_rdma_ends *ends);

/* As in gw_path_ops. `address`: where the other side listens. */
gw_path_end *gw_rdma_end_open(gw_rdma_ends *ends, const gw_path_end *as, const gw_addr *address, gw_err *err);
void gw_rdma_end_close(gw_path_end *end);
void gw_rdma_end_message(gw_path_end *end, const uint8_t *bytes, uint32_t count);
gw_channel *gw_rdma_end_channel(gw_path_end *end, uint32_t stream, uint32_t rail, gw_err *err);
gw_path_posted gw_rdma_end_post(gw_path_end *end, const gw_op *op, gw_completion *completion);
void gw_rdma_end_abandon(gw_path_end *end);
void gw_rdma_end_found(gw_path_end *end, gw_lookup *lookup);

#endif
