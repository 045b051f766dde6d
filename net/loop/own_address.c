#include "net/loop/own_address.h"

#include "core/base/assert.h"
#include "net/loop/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_INTERFACES = 256, MOST_ROUTES = 64 };

static bool is_same_ip(const gw_addr *a, const gw_addr *b) {
    gw_addr left = *a, right = *b;
    left.port = right.port = 0;
    return gw_addr_equal(&left, &right);
}

static bool holds_ip(const gw_addr *list, size_t count, const gw_addr *addr) {
    for (size_t i = 0; i < count; i++)
        if (is_same_ip(&list[i], addr)) return true;
    return false;
}

static bool is_link_local(const gw_addr *addr) {
    return addr->family == 6 && addr->ip[0] == 0xfe && (addr->ip[1] & 0xc0) == 0x80;
}

static bool is_suitable(const gw_interface_address *at, const gw_addr *listen) {
    const gw_addr *addr = &at->addr;
    return at->up && addr->family != 0 && !gw_address_is_loopback(addr) && !is_link_local(addr) &&
           (listen->family == 6 || addr->family == 4);
}

size_t gw_own_addresses_choose(const gw_interface_address *found, size_t found_count, const gw_addr *routes,
                               size_t route_count, const gw_addr *listen, gw_addr *out, size_t most) {
    size_t count = 0;
    /* Each rank is one pass: the routes in their order, then the other interfaces, then the unlikely ones. */
    for (size_t rank = 0; rank < route_count + 2; rank++)
        for (size_t i = 0; i < found_count && count < most; i++) {
            const gw_interface_address *at = &found[i];
            bool unlikely = at->bridge || !at->carrier;
            bool has_rank = rank < route_count ? is_same_ip(&at->addr, &routes[rank])
                                               : unlikely == (rank == route_count + 1);
            if (!has_rank || !is_suitable(at, listen) || holds_ip(out, count, &at->addr)) continue;
            out[count] = at->addr;
            out[count++].port = listen->port;
        }
    return count;
}

/* The source address of the route to `to`. Connecting a datagram socket sends nothing; the kernel only looks
 * the route up. */
static bool find_source(const gw_addr *to, gw_addr *source) {
    struct sockaddr_storage address;
    gw_addr target = *to;
    if (target.port == 0)
        target.port = 1; /* the kernel refuses port 0 on some systems; the route is the same */
    socklen_t bytes = gw_address_to_sockaddr(&target, &address);
    int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    struct sockaddr_storage own = {0};
    socklen_t own_bytes = sizeof own;
    bool known = connect(fd, (const struct sockaddr *)&address, bytes) == 0 &&
                 getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0;
    close(fd);
    if (known) *source = gw_address_from_sockaddr((const struct sockaddr *)&own);
    return known && source->family != 0;
}

static bool is_bridge(const char *interface) {
    char path[64 + IF_NAMESIZE];
    snprintf(path, sizeof path, "/sys/class/net/%.*s/bridge", IF_NAMESIZE, interface);
    return access(path, F_OK) == 0;
}

static size_t find_interfaces(gw_interface_address *found, size_t most) {
    struct ifaddrs *list;
    size_t count = 0;
    if (getifaddrs(&list) != 0) return 0;
    for (const struct ifaddrs *at = list; at != NULL && count < most; at = at->ifa_next) {
        if (at->ifa_addr == NULL) continue;
        found[count].addr = gw_address_from_sockaddr(at->ifa_addr);
        if (found[count].addr.family == 0) continue;
        found[count].up = (at->ifa_flags & IFF_UP) != 0;
        found[count].carrier = (at->ifa_flags & IFF_RUNNING) != 0;
        found[count++].bridge = is_bridge(at->ifa_name);
    }
    freeifaddrs(list);
    return count;
}

size_t gw_own_addresses(const gw_addr *listen, const gw_addr *seeds, size_t seed_count, gw_addr *out,
                        size_t most) {
    /* Addresses reserved for documentation (RFC 5737, RFC 3849): the route to them is the default route. */
    static const gw_addr elsewhere[] = {{.family = 4, .ip = {192, 0, 2, 1}},
                                        {.family = 6, .ip = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}}};
    gw_interface_address found[MOST_INTERFACES];
    gw_addr routes[MOST_ROUTES + 2];
    size_t route_count = 0;
    GW_ASSERT(most > 0);
    out[0] = *listen;
    if (!gw_address_is_any(listen)) return 1;
    for (size_t i = 0; i < seed_count && route_count < MOST_ROUTES; i++)
        route_count += find_source(&seeds[i], &routes[route_count]);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        route_count += find_source(&elsewhere[i], &routes[route_count]);
    size_t found_count = find_interfaces(found, MOST_INTERFACES);
    size_t count = gw_own_addresses_choose(found, found_count, routes, route_count, listen, out, most);
    if (count > 0) return count;
    out[0] = *listen;
    return 1;
}
