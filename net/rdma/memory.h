/* Memory that a device may read and write: a protection domain and the registrations in it. It keeps the
 * device open for everything that is made on it.
 *
 * A registration lasts while it is held by its users, which know how long the memory lives: a region that was
 * registered with the transport (net/rdma/loans.h keeps those, within bounds), an outstanding operation, an
 * answer that is being read. Others that need a part of the memory share the registration meanwhile. Nothing
 * is kept beyond that, since this module cannot notice that memory was freed, and a stale registration would
 * cover other bytes. */
#ifndef GODWIT_NET_RDMA_MEMORY_H
#define GODWIT_NET_RDMA_MEMORY_H

#include "net/rdma/device.h"

#include <stddef.h>

typedef struct gw_rdma_memory gw_rdma_memory;

typedef enum gw_rdma_access {
    GW_RDMA_LOCAL = 1, /* this peer's own operations read and write it */
    GW_RDMA_READABLE,  /* other peers READ it; the memory itself may be read-only */
    GW_RDMA_WRITABLE, /* other peers READ, WRITE, CAS and FETCH_ADD it; such a registration is never shared */
} gw_rdma_access;

typedef struct gw_rdma_region {
    uint8_t *start;
    size_t bytes;
    uint32_t lkey, rkey;
} gw_rdma_region;

/* Opens a protection domain on the device. Takes the device, on failure too. NULL on failure. */
gw_rdma_memory *gw_rdma_memory_open(gw_rdma_device *device, gw_err *err);
/* Adds a holder, and returns `memory`. Any thread. */
gw_rdma_memory *gw_rdma_memory_hold(gw_rdma_memory *memory);
/* Removes a holder. The last one closes the domain and the device; everything must have been dropped. NULL is
 * allowed. Any thread. */
void gw_rdma_memory_close(gw_rdma_memory *memory);

/* Returns a registration that covers [start, start + bytes). NULL on failure: with GW_E_LIMIT if the process
 * may not lock enough memory; the text then names the limit, the need, and the line that lifts the limit. Any
 * thread. */
const gw_rdma_region *gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                          gw_rdma_access access, gw_err *err);
/* Gives a registration back; NULL is allowed. The last holder deregisters it: when this returns, operations
 * with its keys fail. Any thread. */
void gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region);

/* The number of registrations. Any thread. */
uint32_t gw_rdma_memory_count(gw_rdma_memory *memory);
struct ibv_pd *gw_rdma_memory_domain(gw_rdma_memory *memory);
const gw_rdma_device *gw_rdma_memory_device(const gw_rdma_memory *memory);

#endif
