/* RDMA as the rest of Godwit sees it, without a header of libibverbs. In a build without libibverbs
 * net/rdma/absent.c provides these functions: they fail with GW_E_UNSUPPORTED and say what to install. */
#ifndef GODWIT_NET_RDMA_RDMA_H
#define GODWIT_NET_RDMA_RDMA_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_RDMA_NAME = 64, GW_RDMA_GIDS = 64, GW_RDMA_PORTS = 4 /* ports of a device that are looked at */ };
enum { GW_RDMA_ACK_TIMEOUT = 14, GW_RDMA_ACK_TIMEOUT_MOST = 21 /* about 9 s */ };

typedef enum gw_rdma_gid_type { GW_RDMA_GID_IB, GW_RDMA_GID_ROCE_V1, GW_RDMA_GID_ROCE_V2 } gw_rdma_gid_type;

typedef struct gw_rdma_gid {
    uint32_t index;
    gw_rdma_gid_type type;
    bool ipv4;       /* `bytes` hold an IPv4 address mapped into IPv6 */
    bool link_local; /* an address in fe80::/10 of a RoCE port, which reaches nobody beyond the switch */
    uint8_t bytes[16];
    char netdev[16]; /* the network interface; "" for InfiniBand */
} gw_rdma_gid;

typedef struct gw_rdma_port {
    uint32_t number;
    bool active;
    const char *state; /* "active", "down", ... */
    const char *link;  /* "Ethernet", "InfiniBand" */
    uint32_t mtu_bytes;
    uint32_t gid_count;
    gw_rdma_gid gids[GW_RDMA_GIDS];
} gw_rdma_port;

/* One device, with the limits that matter here. */
typedef struct gw_rdma_info {
    char name[GW_RDMA_NAME];
    bool opened; /* false: `trouble` says why, and all fields below are zeros */
    gw_err trouble;
    /* "none"; "device": atomic with the device's own operations; "global": with the CPU's too. */
    const char *atomics;
    char firmware[GW_RDMA_NAME];
    uint32_t queue_pairs, completion_queues, regions, queue_depth;
    uint32_t reads_in, reads_out; /* most READs and atomics in flight on a queue pair: served, requested */
    uint32_t port_count;
    gw_rdma_port ports[GW_RDMA_PORTS];
} gw_rdma_info;

/* The options of RDMA: the device, the GID, and the timeouts of requests. */
typedef struct gw_rdma_options {
    const char *device; /* NULL: the best device is chosen */
    bool gid_chosen;    /* false: the best GID is chosen */
    uint32_t gid_index; /* valid if gid_chosen */
    /* A request that nobody answers fails after about (retries + 1) * 4.096 us * 2^ack_timeout. Zeros stand
     * for the defaults, GW_RDMA_ACK_TIMEOUT and 6 retries, which come to half a second. */
    uint8_t ack_timeout, retries;
} gw_rdma_options;

/* Lists the devices of this machine in an array that the caller frees with free(). A machine without devices
 * is no failure (*count is 0). Fails with GW_E_UNSUPPORTED when the kernel or this build has no RDMA, and
 * says what to do. Any thread. */
bool gw_rdma_list(gw_rdma_info **devices, uint32_t *count, gw_err *err);

/* Chooses the device that `options` describe, and gives its index in `devices` and the places of the port and
 * the GID in it. Fails with GW_E_NOTFOUND and the reason if there is none, or if the one that is named cannot
 * be used. Pure. */
bool gw_rdma_choose(const gw_rdma_info *devices, uint32_t count, const gw_rdma_options *options,
                    uint32_t *device, uint32_t *port, uint32_t *gid, gw_err *err);

/* The name of a type, such as "RoCE v2". */
const char *gw_rdma_gid_type_name(gw_rdma_gid_type type);

/* The bytes that this process may lock (ulimit -l); UINT64_MAX if there is no limit or the process may exceed
 * it. */
uint64_t gw_rdma_locked_limit(void);
/* The line of /etc/security/limits.conf that lifts the limit. */
extern const char gw_rdma_limits_line[];

#endif
