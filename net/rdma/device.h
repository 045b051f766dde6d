/* The RDMA device that a peer uses: one port, one GID, one address that others dial. */
#ifndef GODWIT_NET_RDMA_DEVICE_H
#define GODWIT_NET_RDMA_DEVICE_H

#include "core/base/id.h"
#include "net/rdma/rdma.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* Does not change while it is open; any thread may read it. */
typedef struct gw_rdma_device {
    char name[GW_RDMA_NAME];
    struct ibv_context *verbs; /* our own: librdmacm never closes its, and they are of no use after a fork */
    uint8_t port;
    uint32_t gid_index;
    union ibv_gid gid;
    uint16_t lid; /* InfiniBand */
    bool ethernet;
    enum ibv_mtu mtu;
    gw_addr address;             /* of the port, without a port number */
    enum ibv_atomic_cap atomics; /* atomic among what: nothing, this device, all */
    uint8_t reads_in, reads_out; /* READs and atomics in flight on one queue pair */
    uint32_t message_most;       /* bytes of one message: longer transfers are split */
    uint32_t queue_depth;
    uint8_t ack_timeout, retries; /* of gw_rdma_options, the defaults filled in */
} gw_rdma_device;

/* Opens what `options` mean. Fails as gw_rdma_list and _choose do, or with GW_E_IO. */
bool gw_rdma_device_open(gw_rdma_device *device, const gw_rdma_options *options, gw_err *err);
/* After everything that was made on it. */
void gw_rdma_device_close(gw_rdma_device *device);
/* What destroying something on a device came to: it was done, or (EIO) the kernel did it before, when the
 * device was removed. */
void gw_rdma_device_freed(int failed);

#endif
