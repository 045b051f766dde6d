/* The addresses of this machine at which other peers reach a peer that listens on an any-address (0.0.0.0,
 * [::]). Gossip carries only a few addresses per peer, so the order matters: an address that reaches nobody
 * must not push out one that does. Any thread. */
#ifndef GODWIT_NET_LOOP_OWN_ADDRESS_H
#define GODWIT_NET_LOOP_OWN_ADDRESS_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One address of one network interface. */
typedef struct gw_interface_address {
    gw_addr addr; /* the port is ignored */
    bool up;      /* the interface is enabled (IFF_UP) */
    bool carrier; /* the interface is connected to something (IFF_RUNNING) */
    /* The interface is a bridge of this machine, as those of containers and virtual machines are. */
    bool bridge;
} gw_interface_address;

/* Chooses from `found` at most `most` addresses to tell others, and returns their number. The addresses are
 * ordered:
 *   1. source addresses of the routes to other peers, in the order of `routes`;
 *   2. addresses of other interfaces;
 *   3. addresses of interfaces without a carrier and of bridges, which often have the same address on every
 *      host (Docker's 172.17.0.1).
 * Left out are addresses of interfaces that are not up, loopback and link-local addresses, duplicates, and
 * IPv6 addresses if `listen` is an IPv4 address. Every address chosen has the port of `listen`. Pure. */
size_t gw_own_addresses_choose(const gw_interface_address *found, size_t found_count, const gw_addr *routes,
                               size_t route_count, const gw_addr *listen, gw_addr *out, size_t most);

/* The addresses to tell others for a peer that listens on `listen`: `listen` itself unless it is an
 * any-address; else the choice of gw_own_addresses_choose from the interfaces of this machine, where the
 * routes are those to the `seeds` and then the default route. Returns how many of the `most` (at least 1)
 * entries are filled in; if no interface has a suitable address, the one entry is `listen`, which others
 * replace by the address that they see. The kernel alone is asked: nothing is sent and nothing blocks. */
size_t gw_own_addresses(const gw_addr *listen, const gw_addr *seeds, size_t seed_count, gw_addr *out,
                        size_t most);

#endif
