#include "net/rdma/device.h"

#include "core/base/assert.h"
#include "net/loop/address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>

enum { RETRIES = 6 /* 7 is for ever to Soft-RoCE */, MESSAGE_MOST = 1 << 20, READS_MOST = 16 };

/* True when `address` is an address of the device's port. */
static bool try_address(gw_rdma_device *device, const gw_addr *address, gw_err *err) {
    struct rdma_cm_id *id;
    struct sockaddr_storage to;
    (void)gw_address_to_sockaddr(address, &to);
    if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
        return gw_fail_errno(err, errno,
                             "net/rdma: rdma_create_id (is the kernel's module loaded? 'modprobe rdma_ucm')");
    bool found = rdma_bind_addr(id, (struct sockaddr *)&to) == 0 && id->verbs != NULL &&
                 strcmp(ibv_get_device_name(id->verbs->device), device->name) == 0 &&
                 id->port_num == device->port;
    rdma_destroy_id(id);
    device->address = *address;
    char text[GW_ADDR_TEXT];
    return found || gw_fail(err, GW_E_NOTFOUND, "net/rdma: %s is not an address of %s port %u",
                            gw_addr_text(address, text), device->name, device->port);
}

static bool open_verbs(gw_rdma_device *device, gw_err *err) {
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; list != NULL && i < count && device->verbs == NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), device->name) == 0) device->verbs = ibv_open_device(list[i]);
    int failed = errno;
    if (list != NULL) ibv_free_device_list(list);
    return device->verbs != NULL || gw_fail_errno(err, failed, "net/rdma: opening %s", device->name);
}

/* InfiniBand: an address of the IP interface over the port (IPoIB) stands for it. */
static bool find_address(gw_rdma_device *device, gw_err *err) {
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0) return gw_fail_errno(err, errno, "net/rdma: getifaddrs");
    bool found = false;
    for (struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
        if (i->ifa_addr == NULL) continue;
        gw_addr address = gw_address_from_sockaddr(i->ifa_addr);
        address.port = 0;
        if (address.family == 4 && !gw_address_is_loopback(&address))
            found = try_address(device, &address, err);
    }
    freeifaddrs(all);
    return found || gw_fail(err, GW_E_NOTFOUND,
                            "net/rdma: no IP address belongs to %s port %u: give its interface (IPoIB) one",
                            device->name, device->port);
}

static bool query(gw_rdma_device *device, gw_err *err) {
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    int failed = ibv_query_device(device->verbs, &attr);
    if (failed == 0) failed = ibv_query_port(device->verbs, device->port, &port);
    if (failed == 0 && ibv_query_gid(device->verbs, device->port, (int)device->gid_index, &device->gid) != 0)
        failed = errno;
    if (failed != 0)
        return gw_fail_errno(err, failed, "net/rdma: asking %s port %u for its limits", device->name,
                             device->port);
    device->atomics = attr.atomic_cap;
    device->reads_in = (uint8_t)(attr.max_qp_rd_atom < READS_MOST ? attr.max_qp_rd_atom : READS_MOST);
    device->reads_out =
        (uint8_t)(attr.max_qp_init_rd_atom < READS_MOST ? attr.max_qp_init_rd_atom : READS_MOST);
    device->message_most = port.max_msg_sz < MESSAGE_MOST ? port.max_msg_sz : MESSAGE_MOST;
    device->queue_depth = (uint32_t)attr.max_qp_wr;
    device->lid = port.lid;
    device->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    device->mtu = port.active_mtu;
    return true;
}

bool gw_rdma_device_open(gw_rdma_device *device, const gw_rdma_options *options, gw_err *err) {
    gw_rdma_info *devices;
    uint32_t count, d, p, g;
    *device = (gw_rdma_device){
        .ack_timeout = options->ack_timeout != 0 ? options->ack_timeout : GW_RDMA_ACK_TIMEOUT,
        .retries = options->retries != 0 ? options->retries : RETRIES,
    };
    if (!gw_rdma_list(&devices, &count, err)) return false;
    if (!gw_rdma_choose(devices, count, options, &d, &p, &g, err)) {
        free(devices);
        return false;
    }
    const gw_rdma_gid *gid = &devices[d].ports[p].gids[g];
    memcpy(device->name, devices[d].name, sizeof device->name);
    device->port = (uint8_t)devices[d].ports[p].number;
    device->gid_index = gid->index;
    gw_addr address = {.family = gid->ipv4 ? 4 : 6};
    memcpy(address.ip, gid->ipv4 ? gid->bytes + 12 : gid->bytes, gid->ipv4 ? 4 : 16);
    bool infiniband = gid->type == GW_RDMA_GID_IB;
    free(devices);
    if (!(infiniband ? find_address(device, err) : try_address(device, &address, err))) return false;
    if (open_verbs(device, err) && query(device, err)) return true;
    gw_rdma_device_close(device);
    return false;
}

void gw_rdma_device_close(gw_rdma_device *device) {
    if (device->verbs != NULL) ibv_close_device(device->verbs);
    device->verbs = NULL;
}

void gw_rdma_device_freed(int failed) {
    GW_ASSERT(failed == 0 || failed == EIO);
}
