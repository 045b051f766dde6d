#include "net/rdma/rdma.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

const char gw_rdma_limits_line[] = "*  -  memlock  unlimited";

const char *gw_rdma_gid_type_name(gw_rdma_gid_type type) {
    switch (type) {
    case GW_RDMA_GID_IB:
        return "InfiniBand";
    case GW_RDMA_GID_ROCE_V1:
        return "RoCE v1";
    case GW_RDMA_GID_ROCE_V2:
        return "RoCE v2";
    }
    return "unknown";
}

static bool may_lock_all(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, data) != 0) return false;
    return (data[0].effective >> CAP_IPC_LOCK & 1) != 0;
}

uint64_t gw_rdma_locked_limit(void) {
    struct rlimit limit;
    if (may_lock_all() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

/* The merit of a GID, of which the highest is chosen; 0 if it cannot be used. */
static uint32_t merit(const gw_rdma_port *port, const gw_rdma_gid *gid) {
    if (!port->active || gid->type == GW_RDMA_GID_ROCE_V1) return 0;
    if (gid->type == GW_RDMA_GID_IB) return 2;
    if (gid->ipv4) return 3;
    return gid->link_local ? 0 : 1;
}

/* Fails with the reason why no GID suits the options. */
static bool fail_choice(const gw_rdma_info *devices, uint32_t count, const gw_rdma_options *options,
                        gw_err *err) {
    if (count == 0)
        return gw_fail(err, GW_E_NOTFOUND,
                       "net/rdma: this machine has no RDMA device (Soft-RoCE: 'modprobe rdma_rxe', then "
                       "'rdma link add rxe0 type rxe netdev eth0')");
    const gw_rdma_info *named = NULL;
    for (uint32_t i = 0; i < count && options->device != NULL; i++)
        if (strcmp(devices[i].name, options->device) == 0) named = &devices[i];
    if (options->device != NULL && named == NULL)
        return gw_fail(err, GW_E_NOTFOUND,
                       "net/rdma: there is no RDMA device '%s'; 'godwit devices' lists them",
                       options->device);
    if (named != NULL && !named->opened) {
        *err = named->trouble;
        return false;
    }
    if (options->gid_chosen)
        return gw_fail(err, GW_E_NOTFOUND,
                       "net/rdma: %s has no GID %u of type RoCE v2 or InfiniBand on an active port; "
                       "'godwit devices' lists them",
                       named != NULL ? named->name : "no device", options->gid_index);
    return gw_fail(
        err, GW_E_NOTFOUND,
        "net/rdma: %s has no active port with a RoCE v2 or InfiniBand GID: is its network interface "
        "up, with an address?",
        named != NULL ? named->name
        : count == 1  ? devices[0].name
                      : "no device");
}

bool gw_rdma_choose(const gw_rdma_info *devices, uint32_t count, const gw_rdma_options *options,
                    uint32_t *device, uint32_t *port, uint32_t *gid, gw_err *err) {
    uint32_t best = 0;
    for (uint32_t d = 0; d < count; d++) {
        const gw_rdma_info *info = &devices[d];
        if (options->device != NULL && strcmp(info->name, options->device) != 0) continue;
        for (uint32_t p = 0; p < info->port_count; p++)
            for (uint32_t g = 0; g < info->ports[p].gid_count; g++) {
                const gw_rdma_gid *candidate = &info->ports[p].gids[g];
                if (options->gid_chosen && candidate->index != options->gid_index) continue;
                uint32_t value = merit(&info->ports[p], candidate);
                if (value <= best) continue;
                best = value;
                *device = d;
                *port = p;
                *gid = g;
            }
    }
    return best > 0 || fail_choice(devices, count, options, err);
}
