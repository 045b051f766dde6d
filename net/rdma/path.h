/* The path between two peers that have RDMA devices on one fabric (net/rail/path.h). Its endpoints are those
 * of net/rdma/endpoint.h.
 *
 * Device. A removed device is released when the last endpoint has been closed, for which the kernel waits.
 * From then on a device that fits the options is looked for whenever a card is requested, so links settle on
 * RDMA again when there is one.
 *
 * Words. Unless the device's atomics are atomic with the CPU's (IBV_ATOMIC_GLOB), this peer's words are in
 * the device's atomicity domain: the owner, the TCP service and peers that map the memory all act on them
 * through the device. net/rdma/owner.h says what a fence does to them. */
#ifndef GODWIT_NET_RDMA_PATH_H
#define GODWIT_NET_RDMA_PATH_H

#include "net/rail/path.h"
#include "net/rdma/rdma.h"

/* Opens the path; NULL if this machine cannot have it, and err says why. `host` must outlive the path. A
 * build without libibverbs (net/rdma/absent.c) always fails with GW_E_UNSUPPORTED. */
gw_path *gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err);

#endif
