/* A data thread: one epoll loop that serves one stream number of every linked peer, for one user.
 *
 * The thread holds the lane's *gate* whenever it calls handlers or touches sockets, and lets go of it to
 * wait. Who else enters the gate has the lane to itself: that is how fences, regions and users change
 * synchronously. */
#ifndef GODWIT_NET_TCP_LANE_H
#define GODWIT_NET_TCP_LANE_H

#include "net/channel.h"

#include <stdatomic.h>

typedef struct gw_tcp_lane gw_tcp_lane;

/* What the streams of one link share. Freed with its last reference: one of whoever made it, one a channel.
 */
typedef struct gw_tcp_link {
    gw_peer_id peer;
    uint64_t number;
    atomic_bool ended; /* once true, every lane drops its channel the next time it wakes */
    atomic_uint references;
} gw_tcp_link;

void gw_tcp_link_forget(gw_tcp_link *link); /* gives one reference back */

/* Called on the lane's thread, gate held, when a channel broke by itself; the channel is gone already. */
typedef void gw_tcp_lane_broken(void *context, gw_tcp_link *link, const gw_err *why);

/* Starts the thread; without a user yet, nothing is read. `payload_most`: of a message. */
gw_tcp_lane *gw_tcp_lane_open(uint32_t number, uint32_t payload_most, gw_tcp_lane_broken *broken,
                              void *context, gw_err *err);
/* Ends the thread, with a `down` for every channel. Calls from other threads do nothing from now on. */
void gw_tcp_lane_stop(gw_tcp_lane *lane);
/* Frees a stopped lane. */
void gw_tcp_lane_close(gw_tcp_lane *lane);

/* Any thread. Takes a stream (also on failure: closed) as a channel of `link`; `up` follows soon. */
bool gw_tcp_lane_add(gw_tcp_lane *lane, gw_detached *stream, gw_tcp_link *link, gw_err *err);
/* Any thread: looks for ended links and calls the user's `woken`, soon. */
void gw_tcp_lane_wake(gw_tcp_lane *lane);
/* Any thread: poll instead of waiting. */
void gw_tcp_lane_spin(gw_tcp_lane *lane, bool spin);
/* Any thread but the lane's; must not already be inside. */
void gw_tcp_lane_enter(gw_tcp_lane *lane);
void gw_tcp_lane_leave(gw_tcp_lane *lane);

/* Inside the gate only; _refresh only on the lane's thread. See gw_transport_ops. */
void gw_tcp_lane_use(gw_tcp_lane *lane, const gw_lane_user *user);
void gw_tcp_lane_refresh(gw_tcp_lane *lane);
void gw_tcp_lane_push(gw_tcp_lane *lane, gw_lane_peer *peer);
void gw_tcp_lane_resume(gw_tcp_lane *lane, gw_lane_peer *peer);
bool gw_tcp_lane_release(gw_tcp_lane *lane, gw_lane_peer *peer);
void gw_tcp_lane_alarm(gw_tcp_lane *lane, uint64_t at_ns);
void gw_tcp_lane_refuse(gw_tcp_lane *lane, gw_lane_peer *peer, const gw_err *why);

#endif
