/* How long what failed between two peers is left alone: 30 s, and ever longer, up to ten minutes, as a path
 * that failed (net/fabric/fabric.h). The log says when that begins, and when it is over; what comes between
 * is of no interest.
 *
 * Thread: its owner's. Zeros: it works. */
#ifndef GODWIT_NET_RDMA_PAUSE_H
#define GODWIT_NET_RDMA_PAUSE_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdint.h>

#define GW_RDMA_PAUSE_NS         UINT64_C(30000000000)
#define GW_RDMA_LONGEST_PAUSE_NS UINT64_C(600000000000)

typedef struct gw_rdma_pause {
    uint64_t ns; /* the last one; 0: it works */
} gw_rdma_pause;

/* It failed: how long until the next try. `meanwhile`: "large transfers come in messages". */
uint64_t gw_rdma_pause_begin(gw_rdma_pause *pause, const gw_peer_id *peer, const gw_err *why,
                             const char *meanwhile);
/* It works. `again`: "large transfers are READ again". */
void gw_rdma_pause_end(gw_rdma_pause *pause, const gw_peer_id *peer, const char *again);

#endif
