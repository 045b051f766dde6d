/* One message channel of a lane: the interface that sockets (net/tcp_channel.h), shared memory and RDMA
 * implement. A channel does no waiting and has no thread: the lane's thread (net/lane_thread.h) calls it, and
 * everything here belongs to that thread, its gate held. */
#ifndef GODWIT_NET_CHANNEL_H
#define GODWIT_NET_CHANNEL_H

#include "net/lane.h"

typedef struct gw_channel gw_channel;

typedef enum gw_flow {
    GW_FLOW_MORE = 1, /* something moved; call again */
    GW_FLOW_BLOCKED,  /* nothing has come, or there is no room: wait for the other side */
    GW_FLOW_IDLE,     /* nothing to send, or parked: wait for the user */
    GW_FLOW_BROKEN,   /* err says why; the channel is of no more use */
} gw_flow;

/* A channel is made for messages of up to so many bytes of payload, in both directions; longer ones break it.
 */
typedef struct gw_channel_ops {
    /* A limited amount of sending or receiving (about a system call's, or 128 KiB); calls the user's
     * handlers. */
    gw_flow (*send)(gw_channel *, const gw_lane_user *, gw_err *);
    gw_flow (*receive)(gw_channel *, const gw_lane_user *, gw_err *);
    /* Lets go of the user's memory, as lane_release says. False: out of memory, the channel must be closed.
     */
    bool (*release)(gw_channel *);
    /* The parked message, if there is one, is asked about again by the next receive. */
    void (*resume)(gw_channel *);
    bool (*is_parked)(const gw_channel *);
    /* NULL: `fd` tells by itself, edge-triggered, when a blocked channel can go on (sockets). Else the
     * channel is *polled*: it is called again and again while the lane is awake, and before the lane sleeps
     * this arranges for `fd` to become readable when a blocked receive or send can go on. False: it can
     * already, so do not sleep. No event may be lost between the last receive or send and this call. */
    bool (*arm)(gw_channel *, bool receive, bool send);
    /* Frees it; no handler is called. */
    void (*close)(gw_channel *);
} gw_channel_ops;

/* Every kind's object begins with this. */
struct gw_channel {
    gw_lane_peer peer; /* first: gw_channel_of */
    const gw_channel_ops *ops;
    int fd;      /* watched by the lane, edge-triggered; the channel's */
    void *owner; /* the lane thread's */
};

/* The channel that a lane peer is the face of. */
static inline gw_channel *gw_channel_of(gw_lane_peer *peer) {
    return (gw_channel *)peer;
}

#endif
