/* The listener binds one port number for TCP and UDP, accepts TCP connections, and hands them over once they
 * are authenticated. Thread: the loop's. */
#ifndef GODWIT_NET_LINK_LISTENER_H
#define GODWIT_NET_LINK_LISTENER_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "net/link/stream.h"
#include "net/loop/loop.h"

#include <stddef.h>

/* The limit on handshakes in progress. A connection beyond it evicts another, so that a flood does not keep
 * out peers that hold the key. The candidates are those of the address with the most handshakes, if it has
 * more than GW_HALF_OPEN_SHARE, else all; among them a connection without a hello made with the key is
 * preferred; among equals the oldest is evicted. */
enum { GW_HALF_OPEN = 64, GW_HALF_OPEN_SHARE = 12 };

/* Binds both sockets of a peer to `wanted`; port 0 picks one that is free for both. *bound becomes the
 * address with its port. Fails with GW_E_IO if the port is in use, and says so. The caller closes the sockets
 * or gives them to gw_listener_open and gw_udp_open. Until then the port is reserved, and dials to it are
 * refused as if nobody listened. */
bool gw_endpoint_bind(const gw_addr *wanted, int *tcp_fd, int *udp_fd, gw_addr *bound, gw_err *err);

/* Whether accept(2) failed with the errno `why` because descriptors or memory ran out. The connection stays
 * in the queue and the socket stays readable, so the caller must pause before it tries again. */
bool gw_accept_lacks_resources(int why);

typedef struct gw_listener gw_listener;

/* Callbacks must not close the listener. */
typedef struct gw_listener_events {
    void *context;
    /* An authenticated stream, of either kind. The receiver sets its events (gw_stream_set_events), or
     * detaches or closes it, before returning. */
    void (*accepted)(void *context, gw_stream *stream, const gw_remote *remote);
    /* A connection failed before it was authenticated. The listener has logged it already, at a limited rate,
     * if it is worth a person's attention. May be NULL. */
    void (*failed)(void *context, const gw_addr *from, gw_closed why, gw_fault fault, const char *text);
} gw_listener_events;

/* Listens on `tcp_fd`, which must be bound; takes it (on failure it is closed). `local` must outlive the
 * listener. */
gw_listener *gw_listener_open(gw_loop *loop, const gw_local *local, int tcp_fd,
                              const gw_listener_events *events, gw_err *err);
/* The number of handshakes in progress. */
size_t gw_listener_half_open(const gw_listener *listener);
/* Stops listening and drops unfinished handshakes; streams that were handed over remain. NULL is allowed. */
void gw_listener_close(gw_listener *listener);

#endif
