/* A data thread: one epoll loop that serves one stream number of every linked peer, for one user, over
 * channels of any kind.
 *
 * The thread holds the lane's *gate* whenever it calls handlers or touches sockets, and lets go of it to
 * wait. Who else enters the gate has the lane to itself: that is how fences, regions and users change
 * synchronously. */
#ifndef GODWIT_NET_LANE_THREAD_H
#define GODWIT_NET_LANE_THREAD_H

#include "net/lane/channel.h"

#include <stdatomic.h>

typedef struct gw_lane_thread gw_lane_thread;

/* What the streams of one link share. Freed with its last reference: one of whoever made it, one a channel.
 */
typedef struct gw_data_link {
    gw_peer_id peer;
    uint64_t number;
    atomic_bool ended; /* once true, every lane drops its channel the next time it wakes */
    atomic_uint references;
} gw_data_link;

void gw_data_link_forget(gw_data_link *link); /* gives one reference back */

/* Called on the lane's thread, gate held, when a channel broke by itself; the channel is gone already. */
typedef void gw_lane_broken(void *context, gw_data_link *link, const gw_err *why);

/* Starts the thread, called `name` (a constant of at most 15 characters); without a user yet, nothing is
 * read.
 */
gw_lane_thread *gw_lane_thread_open(const char *name, uint32_t number, gw_lane_broken *broken, void *context,
                                    gw_err *err);
/* How long the other side of a channel may be silent (net/lane/channel.h, heartbeat), instead of
 * GW_SILENCE_NS; before the lane has a user. */
void gw_lane_thread_bear(gw_lane_thread *lane, uint64_t silence_ns);
/* Ends the thread, with a `down` for every channel. Calls from other threads do nothing from now on. */
void gw_lane_thread_stop(gw_lane_thread *lane);
/* Frees a stopped lane. */
void gw_lane_thread_close(gw_lane_thread *lane);

/* Any thread. Takes a channel of `link` (also on failure: closed); `up` follows soon. */
bool gw_lane_thread_add(gw_lane_thread *lane, gw_channel *channel, gw_data_link *link, gw_err *err);
/* Any thread: looks for ended links and calls the user's `woken`, soon. */
void gw_lane_thread_wake(gw_lane_thread *lane);
/* Any thread: when (gw_now_ns) the thread began the turn that it is at, or waits for the gate to; 0 = it
 * sleeps. A turn never waits for a peer. */
uint64_t gw_lane_thread_busy_since(const gw_lane_thread *lane);
/* Any thread: poll for a while before each sleep (net/data/transport.h). */
void gw_lane_thread_spin(gw_lane_thread *lane, bool spin);
/* Any thread but the lane's; must not already be inside. */
void gw_lane_thread_enter(gw_lane_thread *lane);
void gw_lane_thread_leave(gw_lane_thread *lane);

/* Something else that a lane's thread looks after: a completion queue. Called on the thread, gate held. */
typedef struct gw_lane_watch {
    int fd; /* becomes readable when there is something, once armed; edge-triggered */
    void *context;
    bool (*poll)(void *context); /* does what there is to do; true when there was anything */
    bool (*arm)(void *context);  /* before the thread sleeps; false: there is something, do not */
} gw_lane_watch;

enum { GW_LANE_WATCHES = 8 };

/* Any thread but the lane's, outside of the gate. `watch` is kept, not copied, until _unwatch has returned.
 */
bool gw_lane_thread_watch(gw_lane_thread *lane, gw_lane_watch *watch, gw_err *err);
void gw_lane_thread_unwatch(gw_lane_thread *lane, gw_lane_watch *watch);

/* Inside the gate only; _refresh only on the lane's thread. See gw_transport_ops. */
void gw_lane_thread_use(gw_lane_thread *lane, const gw_lane_user *user);
void gw_lane_thread_refresh(gw_lane_thread *lane);
void gw_lane_thread_push(gw_lane_thread *lane, gw_lane_peer *peer);
void gw_lane_thread_resume(gw_lane_thread *lane, gw_lane_peer *peer);
bool gw_lane_thread_release(gw_lane_thread *lane, gw_lane_peer *peer);
void gw_lane_thread_alarm(gw_lane_thread *lane, uint64_t at_ns);
void gw_lane_thread_refuse(gw_lane_thread *lane, gw_lane_peer *peer, const gw_err *why);

#endif
