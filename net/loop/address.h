/* Addresses as people write them, as the kernel has them, and as gw_addr (core/base/id.h). */
#ifndef GODWIT_NET_LOOP_ADDRESS_H
#define GODWIT_NET_LOOP_ADDRESS_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { GW_HOST_TEXT = 256, GW_RESOLVE_ADDRS = 16 };

/* Splits "HOST:PORT" or "[V6]:PORT" without looking anything up. Fails with GW_E_USAGE. Any thread. */
bool gw_address_parse(const char *text, char host[GW_HOST_TEXT], uint16_t *port, gw_err *err);

/* Whether "HOST:PORT" is an address and no name, and which; asks nobody. Any thread. */
bool gw_address_literal(const char *text, gw_addr *addr);

/* Every address that "HOST:PORT" names, at most `capacity`, without doubles; *count is at least 1. Asks the
 * resolver (getaddrinfo) and so may *block for seconds*: call it off the loop's thread, unless HOST is
 * numeric. Malformed: GW_E_USAGE. Unknown name: GW_E_NOTFOUND. Any thread. */
bool gw_address_resolve(const char *text, gw_addr *addrs, size_t capacity, size_t *count, gw_err *err);

/* Between gw_addr and the kernel's form. IPv4 addresses mapped into IPv6 become family 4. from_sockaddr gives
 * family 0 for anything but IPv4 and IPv6. */
socklen_t gw_address_to_sockaddr(const gw_addr *addr, struct sockaddr_storage *out);
gw_addr gw_address_from_sockaddr(const struct sockaddr *address);
/* `addr` as a socket of `socket_family` (AF_INET, AF_INET6) wants it; 0 when it cannot reach it. */
socklen_t gw_address_for_socket(const gw_addr *addr, int socket_family, struct sockaddr_storage *out);

bool gw_address_is_loopback(const gw_addr *addr); /* 127.0.0.0/8, ::1 */
bool gw_address_is_any(const gw_addr *addr);      /* 0.0.0.0, :: */

/* Without a key a peer may listen on loopback only: fails with GW_E_DENIED and a text that says what to do.
 */
bool gw_net_require_loopback(const gw_addr *addr, bool have_key, gw_err *err);

#endif
