/* Listening: one port for TCP and UDP, accepted connections handed over once they are authenticated.
 * Thread: the loop's. */
#ifndef GODWIT_NET_LINK_LISTENER_H
#define GODWIT_NET_LINK_LISTENER_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "net/link/stream.h"
#include "net/loop/loop.h"

#include <stddef.h>

/* Handshakes in progress. One more ends one of them, so that a flood keeps nobody out who holds the key: one
 * of the address that has most, if that is more than its share; of these, one that has sent no hello made
 * with the key, if there is one; of these, the oldest. */
enum { GW_HALF_OPEN = 64, GW_HALF_OPEN_SHARE = 12 };

/* Binds both sockets of a peer to `wanted`; port 0 picks one that is free for both. *bound is the address
 * with its port. A port in use fails with GW_E_IO and says so. The caller closes the sockets or hands them to
 * gw_listener_open and gw_udp_open: until then the port is taken, and who dials it is refused, as if nobody
 * were there. */
bool gw_endpoint_bind(const gw_addr *wanted, int *tcp_fd, int *udp_fd, gw_addr *bound, gw_err *err);

/* Whether accept(2) failed for want of what may come back. The connection stays in the queue and the socket
 * readable, so that to try again at once would spin. */
bool gw_accept_lacks_resources(int why);

typedef struct gw_listener gw_listener;

/* Callbacks must not close the listener. */
typedef struct gw_listener_events {
    void *context;
    /* An authenticated stream, of either kind. The receiver sets its events (gw_stream_set_events) or
     * detaches or closes it before returning. */
    void (*accepted)(void *context, gw_stream *stream, const gw_remote *remote);
    /* May be NULL. A connection that never got that far; if that is worth a
     * person's attention, it was logged here already, at a limited rate. */
    void (*failed)(void *context, const gw_addr *from, gw_closed why, gw_fault fault, const char *text);
} gw_listener_events;

/* Listens on `tcp_fd`, which is bound, and takes it (also on failure: closed). `local` must outlive the
 * listener. */
gw_listener *gw_listener_open(gw_loop *loop, const gw_local *local, int tcp_fd,
                              const gw_listener_events *events, gw_err *err);
/* Handshakes in progress. */
size_t gw_listener_half_open(const gw_listener *listener);
/* Stops listening and drops unfinished handshakes; streams handed over live on. NULL is allowed. */
void gw_listener_close(gw_listener *listener);

#endif
