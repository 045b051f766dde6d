#include "net/rdma/rdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
