/* Conversions between addresses as people write them, as the kernel represents them, and as gw_addr
 * (core/base/id.h). */
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

/* Parses "HOST:PORT" where HOST is a numeric address; false if it is a name. Asks no resolver. Any thread. */
bool gw_address_literal(const char *text, gw_addr *addr);

/* Every address that "HOST:PORT" names, at most `capacity`, without doubles; *count is at least 1. Asks the
 * resolver (getaddrinfo) and so may *block for seconds*: call it off the loop's thread, unless HOST is
 * numeric. Malformed: GW_E_USAGE. Unknown name: GW_E_NOTFOUND. Any thread. */
bool gw_address_resolve(const char *text, gw_addr *addrs, size_t capacity, size_t *count, gw_err *err);

/* Convert between gw_addr and the kernel's form. IPv4 addresses mapped into IPv6 become family 4.
 * gw_address_from_sockaddr returns family 0 for anything but IPv4 and IPv6. */
socklen_t gw_address_to_sockaddr(const gw_addr *addr, struct sockaddr_storage *out);
gw_addr gw_address_from_sockaddr(const struct sockaddr *address);
/* Converts `addr` for use with a socket of `socket_family` (AF_INET, AF_INET6), mapping IPv4 into IPv6 where
 * needed. Returns 0 if such a socket cannot reach the address. */
socklen_t gw_address_for_socket(const gw_addr *addr, int socket_family, struct sockaddr_storage *out);

bool gw_address_is_loopback(const gw_addr *addr); /* 127.0.0.0/8, ::1 */
bool gw_address_is_any(const gw_addr *addr);      /* 0.0.0.0, :: */

/* Enforces that a peer without a key listens on loopback only: fails with GW_E_USAGE and a text that says
 * what to do. */
bool gw_net_require_loopback(const gw_addr *addr, bool have_key, gw_err *err);

#endif
