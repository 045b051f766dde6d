/* The path between two peers that have RDMA devices on one fabric (net/path.h).
 *
 * Each end has one queue pair for every lane, dialled by the side that leads, and one for its operations on
 * the other's words, dialled by itself: so an operation that the other's fence refuses breaks nothing but the
 * asker's own queue pair, which is dialled anew.
 *
 * Words. Unless the device's atomics are the CPU's (IBV_ATOMIC_GLOB), this peer's words are in the device's
 * domain: the owner, the TCP service and mapped neighbours all act on them through the device. A fence
 * deregisters them, destroys the queue pairs by which non-members asked, and registers the fresh words under
 * new keys, which the members alone are told. */
#ifndef GODWIT_NET_RDMA_PATH_H
#define GODWIT_NET_RDMA_PATH_H

#include "net/path.h"
#include "net/rdma.h"

/* NULL: this machine cannot have it; err says why. `host` outlives it. In a build without libibverbs' headers
 * (net/rdma_absent.c) it always fails, with GW_E_UNSUPPORTED. */
gw_path *gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err);

#endif
