/* The path between two peers that have RDMA devices on one fabric (net/rail/path.h).
 *
 * Its ends are net/rdma/endpoint.h's.
 *
 * Device. One that is removed is let go of when the last end has been closed (the kernel waits for that), and
 * looked for again whenever a card is asked for: links settle on RDMA anew when it is back, or another is
 * there that the options mean.
 *
 * Words. Unless the device's atomics are the CPU's (IBV_ATOMIC_GLOB), this peer's words are in the device's
 * domain: the owner, the TCP service and mapped neighbours all act on them through the device. What a fence
 * does to them is in net/rdma/owner.h.
 */
#ifndef GODWIT_NET_RDMA_PATH_H
#define GODWIT_NET_RDMA_PATH_H

#include "net/rail/path.h"
#include "net/rdma/rdma.h"

/* NULL: this machine cannot have it; err says why. `host` outlives it. In a build without libibverbs' headers
 * (net/rdma/absent.c) it always fails, with GW_E_UNSUPPORTED. */
gw_path *gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err);

#endif
