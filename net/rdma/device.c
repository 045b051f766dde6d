#include "net/rdma/device.h"

#include "core/base/assert.h"
#include "net/loop/address.h"
#include "net/rdma/packing.h"
#include "net/rdma/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RETRIES = 6 /* 7 means for ever to Soft-RoCE */, MESSAGE_MOST = 1 << 20, READS_MOST = 16 };

/* Listing. */

static const char *state_name(enum ibv_port_state state) {
    switch (state) {
    case IBV_PORT_NOP:
        return "unchanged";
    case IBV_PORT_DOWN:
        return "down";
    case IBV_PORT_INIT:
        return "initialising";
    case IBV_PORT_ARMED:
        return "armed";
    case IBV_PORT_ACTIVE:
        return "active";
    case IBV_PORT_ACTIVE_DEFER:
        return "active, deferred";
    }
    return "unknown";
}

static const char *atomics_name(enum ibv_atomic_cap atomics) {
    return atomics == IBV_ATOMIC_GLOB ? "global" : atomics == IBV_ATOMIC_HCA ? "device" : "none";
}

static gw_rdma_gid gid_of(const struct ibv_gid_entry *entry) {
    gw_rdma_gid gid = {.index = entry->gid_index, .type = GW_RDMA_GID_IB};
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    memcpy(gid.bytes, entry->gid.raw, sizeof gid.bytes);
    if (entry->gid_type == IBV_GID_TYPE_ROCE_V1) gid.type = GW_RDMA_GID_ROCE_V1;
    if (entry->gid_type == IBV_GID_TYPE_ROCE_V2) gid.type = GW_RDMA_GID_ROCE_V2;
    gid.ipv4 = gid.type != GW_RDMA_GID_IB && memcmp(gid.bytes, mapped, sizeof mapped) == 0;
    gid.link_local = gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80;
    char name[IF_NAMESIZE];
    if (entry->ndev_ifindex != 0 && if_indextoname(entry->ndev_ifindex, name) != NULL)
        snprintf(gid.netdev, sizeof gid.netdev, "%s", name);
    return gid;
}

static void add_port(gw_rdma_info *info, struct ibv_context *verbs, uint8_t number) {
    struct ibv_port_attr attr;
    if (info->port_count == GW_RDMA_PORTS || ibv_query_port(verbs, number, &attr) != 0) return;
    gw_rdma_port *port = &info->ports[info->port_count++];
    port->number = number;
    port->active = attr.state == IBV_PORT_ACTIVE;
    port->state = state_name(attr.state);
    port->link = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
    port->mtu_bytes = 128u << attr.active_mtu;
    struct ibv_gid_entry entries[GW_RDMA_GIDS];
    ssize_t count = ibv_query_gid_table(verbs, entries, GW_RDMA_GIDS, 0);
    for (ssize_t i = 0; i < count; i++)
        if (entries[i].port_num == number) port->gids[port->gid_count++] = gid_of(&entries[i]);
}

static void describe_opened(gw_rdma_info *info, struct ibv_context *verbs,
                            const struct ibv_device_attr *attr) {
    info->opened = true;
    info->atomics = atomics_name(attr->atomic_cap);
    snprintf(info->firmware, sizeof info->firmware, "%.63s", attr->fw_ver);
    info->queue_pairs = (uint32_t)attr->max_qp;
    info->completion_queues = (uint32_t)attr->max_cq;
    info->regions = (uint32_t)attr->max_mr;
    info->queue_depth = (uint32_t)attr->max_qp_wr;
    info->reads_in = (uint32_t)attr->max_qp_rd_atom;
    info->reads_out = (uint32_t)attr->max_qp_init_rd_atom;
    for (uint8_t port = 1; port <= attr->phys_port_cnt; port++) add_port(info, verbs, port);
}

static void describe(gw_rdma_info *info, struct ibv_device *device) {
    snprintf(info->name, sizeof info->name, "%s", ibv_get_device_name(device));
    struct ibv_context *verbs = ibv_open_device(device);
    if (verbs == NULL) {
        gw_fail_errno(&info->trouble, errno,
                      "net/rdma: cannot open %s (may this user read and write /dev/infiniband/uverbs*?)",
                      info->name);
        return;
    }
    struct ibv_device_attr attr;
    int failed = ibv_query_device(verbs, &attr);
    if (failed == 0)
        describe_opened(info, verbs, &attr);
    else
        gw_fail_errno(&info->trouble, failed, "net/rdma: cannot query %s", info->name);
    ibv_close_device(verbs);
}

bool gw_rdma_list(gw_rdma_info **devices, uint32_t *count, gw_err *err) {
    *devices = NULL;
    *count = 0;
    if (!gw_verbs_open(err)) return false;
    int found = 0;
    struct ibv_device **list = ibv_get_device_list(&found);
    if (list == NULL) {
        if (errno == ENOSYS)
            return gw_fail(err, GW_E_UNSUPPORTED,
                           "net/rdma: this machine's kernel has no RDMA (%s): load its modules ('modprobe -a "
                           "ib_uverbs rdma_ucm' and the card's driver), or install a kernel that has them",
                           strerror(ENOSYS));
        return gw_fail_errno(err, errno, "net/rdma: listing RDMA devices");
    }
    gw_rdma_info *all = found > 0 ? calloc((size_t)found, sizeof *all) : NULL;
    for (int i = 0; i < found && all != NULL; i++) describe(&all[i], list[i]);
    ibv_free_device_list(list);
    if (found > 0 && all == NULL)
        return gw_fail(err, GW_E_NOMEM, "net/rdma: no memory for a list of devices");
    *devices = all;
    *count = (uint32_t)found;
    return true;
}

/* Opening. */

/* Whether `address` is an address of the device's port. If so it becomes the device's address. */
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

/* Finds the address of an InfiniBand port, which is that of the IP interface over it (IPoIB). */
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
    device->mbits = gw_rdma_port_mbits(port.active_speed, port.active_width);
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
    GW_ASSERT(devices != NULL && d < count);
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
