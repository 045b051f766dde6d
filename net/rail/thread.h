/* The data thread of a rail: one epoll loop that serves one stream number of every linked peer, for one user,
 * over channels of any kind.
 *
 * The thread holds the rail's *gate*, a mutex, whenever it calls handlers or touches sockets, and releases it
 * to wait. Another thread that enters the gate has the rail to itself; fences, regions and users are changed
 * synchronously that way. */
#ifndef GODWIT_NET_RAIL_THREAD_H
#define GODWIT_NET_RAIL_THREAD_H

#include "net/rail/channel.h"

#include <stdatomic.h>

typedef struct gw_rail_thread gw_rail_thread;

/* A data link as its channels share it. It is freed with its last reference; its maker and every channel hold
 * one. */
typedef struct gw_data_link {
    gw_peer_id peer;
    uint64_t number;
    atomic_bool ended; /* once true, every rail drops its channel the next time it wakes */
    atomic_uint references;
} gw_data_link;

void gw_data_link_forget(gw_data_link *link); /* gives one reference back */

/* Called on the rail's thread, gate held, when a channel broke by itself; the channel is gone already. */
typedef void gw_rail_broken(void *context, gw_data_link *link, const gw_err *why);

/* Starts the thread, called `name` (a constant of at most 15 characters). Nothing is read before the rail has
 * a user. */
gw_rail_thread *gw_rail_thread_open(const char *name, uint32_t number, gw_rail_broken *broken, void *context,
                                    gw_err *err);
/* Sets how long the other side of a channel may be silent (net/rail/channel.h, heartbeat); the default is
 * GW_SILENCE_NS. Called before the rail has a user. */
void gw_rail_thread_set_silence(gw_rail_thread *rail, uint64_t silence_ns);
/* Ends the thread, with a `down` for every channel. Calls from other threads do nothing from now on. */
void gw_rail_thread_stop(gw_rail_thread *rail);
/* Frees a stopped rail. */
void gw_rail_thread_close(gw_rail_thread *rail);

/* Adds a channel of `link` (on failure it is closed); `up` follows soon. Any thread. */
bool gw_rail_thread_add(gw_rail_thread *rail, gw_channel *channel, gw_data_link *link, gw_err *err);
/* Makes the thread drop the channels of ended links and call the user's `woken`, soon. Any thread. */
void gw_rail_thread_wake(gw_rail_thread *rail);
/* The time (gw_now_ns) at which the thread began its present turn, or began to wait for the gate; 0 while it
 * sleeps. A turn never waits for a peer. Any thread. */
uint64_t gw_rail_thread_busy_since(const gw_rail_thread *rail);
/* Switches polling before each sleep on or off (net/data/transport.h). Any thread. */
void gw_rail_thread_spin(gw_rail_thread *rail, bool spin);
/* Enter and leave the gate. Any thread but the rail's own; a thread must not enter twice. */
void gw_rail_thread_enter(gw_rail_thread *rail);
void gw_rail_thread_leave(gw_rail_thread *rail);

/* An event source other than a channel that the rail's thread polls, such as a completion queue. Called on
 * the rail's thread with the gate held. */
typedef struct gw_rail_watch {
    int fd; /* becomes readable, once armed, when there is something; edge-triggered */
    void *context;
    bool (*poll)(void *context); /* does what there is to do; true if there was anything */
    /* Called before the thread sleeps; false: there is something, the thread must not sleep. */
    bool (*arm)(void *context);
} gw_rail_watch;

enum { GW_RAIL_WATCHES = 8 };

/* Add and remove a watch, which is kept, not copied, until gw_rail_thread_unwatch has returned. Any thread
 * but the rail's own, outside of the gate. */
bool gw_rail_thread_watch(gw_rail_thread *rail, gw_rail_watch *watch, gw_err *err);
void gw_rail_thread_unwatch(gw_rail_thread *rail, gw_rail_watch *watch);

/* As in gw_transport_ops. Called with the gate held, gw_rail_thread_refresh on the rail's thread only. */
void gw_rail_thread_use(gw_rail_thread *rail, const gw_rail_user *user);
void gw_rail_thread_refresh(gw_rail_thread *rail);
void gw_rail_thread_push(gw_rail_thread *rail, gw_rail_peer *peer);
void gw_rail_thread_resume(gw_rail_thread *rail, gw_rail_peer *peer);
bool gw_rail_thread_release(gw_rail_thread *rail, gw_rail_peer *peer);
void gw_rail_thread_alarm(gw_rail_thread *rail, uint64_t at_ns);
void gw_rail_thread_refuse(gw_rail_thread *rail, gw_rail_peer *peer, const gw_err *why);

#endif
