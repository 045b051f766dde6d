/* Memory that a device may read and write: a protection domain and what is registered in it. It holds the
 * device open for all that is made on it.
 *
 * A registration lasts as long as somebody who knows how long the memory lives holds it: a region that was
 * registered with the transport (net/rdma/loans.h keeps those, within bounds), an operation that is
 * outstanding, an answer that is being read. While it lasts, others that want a part of it share it. Nothing
 * is kept beyond that: memory that its owner has freed cannot be noticed here, and a stale registration would
 * be of other bytes. */
#ifndef GODWIT_NET_RDMA_MEMORY_H
#define GODWIT_NET_RDMA_MEMORY_H

#include "net/rdma/device.h"

#include <stddef.h>

typedef struct gw_rdma_memory gw_rdma_memory;

typedef enum gw_rdma_access {
    GW_RDMA_LOCAL = 1, /* what our own operations read from or write to */
    GW_RDMA_READABLE,  /* others READ it: the memory itself may be read-only */
    GW_RDMA_WRITABLE,  /* others READ, WRITE, CAS and FETCH_ADD it; never shared */
} gw_rdma_access;

typedef struct gw_rdma_region {
    uint8_t *start;
    size_t bytes;
    uint32_t lkey, rkey;
} gw_rdma_region;

/* Takes the device, also on failure. NULL on failure. */
gw_rdma_memory *gw_rdma_memory_open(gw_rdma_device *device, gw_err *err);
/* Any thread. One more holder. Returns `memory`. */
gw_rdma_memory *gw_rdma_memory_hold(gw_rdma_memory *memory);
/* Any thread. The last holder closes it, and the device; everything must have been dropped. NULL is allowed.
 */
void gw_rdma_memory_close(gw_rdma_memory *memory);

/* Any thread. A registration that covers [start, start + bytes); NULL on failure: GW_E_LIMIT when too little
 * memory may be locked; the text names limit, need and the line that lifts it. */
const gw_rdma_region *gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                          gw_rdma_access access, gw_err *err);
/* Any thread. Gives it back; NULL is allowed. With the last holder it is deregistered: when this returns,
 * operations with its keys fail. */
void gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region);

/* How many registrations there are. Any thread. */
uint32_t gw_rdma_memory_count(gw_rdma_memory *memory);
struct ibv_pd *gw_rdma_memory_domain(gw_rdma_memory *memory);
const gw_rdma_device *gw_rdma_memory_device(const gw_rdma_memory *memory);

#endif
