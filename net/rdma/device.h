/* The RDMA device that a peer uses: one port, one GID, one address that others dial. */
#ifndef GODWIT_NET_RDMA_DEVICE_H
#define GODWIT_NET_RDMA_DEVICE_H

#include "core/base/id.h"
#include "net/rdma/rdma.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* Does not change while it is open, so any thread may read it. */
typedef struct gw_rdma_device {
    char name[GW_RDMA_NAME];
    /* Opened here: librdmacm never closes its own, which are of no use after a fork. */
    struct ibv_context *verbs;
    uint8_t port;
    uint32_t gid_index;
    union ibv_gid gid;
    uint16_t lid; /* InfiniBand */
    bool ethernet;
    enum ibv_mtu mtu;
    gw_addr address; /* the address of the port, without a port number */
    enum ibv_atomic_cap
        atomics; /* the device's atomics are atomic with nothing, with its own, or with the CPU's too */
    uint8_t reads_in, reads_out; /* most READs and atomics in flight on one queue pair: served, requested */
    uint32_t message_most;       /* most bytes of one message; longer transfers are split */
    uint32_t queue_depth;
    uint32_t mbits;               /* what the port carries, in Mbit a second; 0: not known */
    uint8_t ack_timeout, retries; /* as in gw_rdma_options, with defaults filled in */
} gw_rdma_device;

/* Opens the device that `options` describe. Fails as gw_rdma_list and gw_rdma_choose do, or with GW_E_IO. */
bool gw_rdma_device_open(gw_rdma_device *device, const gw_rdma_options *options, gw_err *err);
/* Closes the device. Everything that was made on it must have been destroyed. */
void gw_rdma_device_close(gw_rdma_device *device);
/* Checks the result of destroying something on a device: success, or EIO when the kernel has destroyed it
 * already because the device was removed. */
void gw_rdma_device_freed(int failed);

#endif
