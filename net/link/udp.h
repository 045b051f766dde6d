/* A datagram socket on a loop. Thread: the loop's. */
#ifndef GODWIT_NET_LINK_UDP_H
#define GODWIT_NET_LINK_UDP_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "net/loop/loop.h"

#include <stddef.h>
#include <stdint.h>

typedef struct gw_udp gw_udp;

/* Takes one datagram. `bytes` may be changed in place and is valid during the call only; the callback may
 * close the socket. A datagram over GW_DATAGRAM_BYTES arrives cut at GW_DATAGRAM_BYTES + 1, so that its
 * opener refuses it. */
typedef void gw_udp_received(void *context, const gw_addr *from, uint8_t *bytes, size_t count);

/* Opens a bound non-blocking datagram socket (net/link/listener.h makes one), which it takes (on failure it
 * is closed). Datagrams that have arrived before are dropped. NULL on failure. */
gw_udp *gw_udp_open(gw_loop *loop, int fd, gw_udp_received *received, void *context, gw_err *err);
/* Sends one datagram, or drops it: what the kernel does not take at once is lost, as on any network. */
void gw_udp_send(gw_udp *udp, const gw_addr *to, const uint8_t *bytes, size_t count);
/* Closes the socket. NULL is allowed. */
void gw_udp_close(gw_udp *udp);

#endif
