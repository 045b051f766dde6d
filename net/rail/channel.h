/* One message channel of a rail: the interface that sockets (net/rail/tcp_channel.h), shared memory and RDMA
 * implement. A channel does no waiting and has no thread: the rail's thread (net/rail/thread.h) calls it, and
 * everything here belongs to that thread, its gate held. */
#ifndef GODWIT_NET_RAIL_CHANNEL_H
#define GODWIT_NET_RAIL_CHANNEL_H

#include "net/data/rail.h"
#include "net/rail/cursor.h"

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
    gw_flow (*send)(gw_channel *, const gw_rail_user *, gw_err *);
    gw_flow (*receive)(gw_channel *, const gw_rail_user *, gw_err *);
    /* NULL: `fd` tells by itself, edge-triggered, when a blocked channel can go on (sockets). Else the
     * channel is *polled*: it is called again and again while the rail is awake, and before the rail sleeps
     * this arranges for `fd` to become readable when a blocked receive or send can go on. False: it can
     * already, so do not sleep. No event may be lost between the last receive or send and this call. */
    bool (*arm)(gw_channel *, bool receive, bool send);
    /* NULL: whatever is lost ends the channel by itself. Else called every GW_HEARTBEAT_NS: the next send
     * says something, if only that, by which the other side sees whether it has had everything. Returns how
     * many calls in a row have found that nothing had come from the other side; 0 where it need say nothing,
     * or is not listened to. */
    uint32_t (*heartbeat)(gw_channel *);
    /* Frees it; no handler is called. */
    void (*close)(gw_channel *);
} gw_channel_ops;

/* The message that is being sent. */
typedef struct gw_outgoing {
    bool active; /* there is one */
    gw_cursor payload;
    struct iovec own_part; /* after a release: the rest of the payload, ours */
    uint8_t *own;          /* NULL: the payload is the user's */
} gw_outgoing;

typedef enum gw_incoming_state {
    GW_INCOMING_HEAD, /* nothing of it, or of its header, is known */
    GW_INCOMING_ASK,  /* message.header and .bytes are: the user is to be asked */
    GW_INCOMING_LAND, /* payload goes to the user's places */
    GW_INCOMING_DROP, /* and is forgotten */
} gw_incoming_state;

/* The message that is being received. */
typedef struct gw_incoming {
    gw_incoming_state state;
    bool parked; /* the user is not asked again before rail_resume, which clears it */
    gw_rail_message message;
    gw_cursor payload;
} gw_incoming;

/* Every kind's object begins with this. Starts as zeros but for the first five. */
struct gw_channel {
    gw_rail_peer peer; /* first: gw_channel_of */
    const gw_channel_ops *ops;
    int fd;      /* watched by the rail, edge-triggered; the channel's */
    void *owner; /* the rail thread's */
    uint32_t payload_most;
    gw_outgoing out;
    gw_incoming in;
};

/* What all kinds do alike with messages, for their send and receive. */

/* Takes the user's next message to send, for the kind to put its header and bytes somewhere. False: none. */
bool gw_channel_take(gw_channel *channel, const gw_rail_user *user, gw_rail_message *message);
/* All of it has been sent. */
void gw_channel_sent(gw_channel *channel, const gw_rail_user *user);
/* Asks the user about the message whose header and bytes are in. MORE: it lands, or is dropped. */
gw_flow gw_channel_ask(gw_channel *channel, const gw_rail_user *user, gw_err *err);
/* Moves payload that lies in memory to its place, or has the user fold it: pieces as gw_rail_user.fold asks.
 */
void gw_channel_deliver(gw_channel *channel, const gw_rail_user *user, uint8_t *bytes, size_t count);
/* All of it has been received. */
void gw_channel_received(gw_channel *channel, const gw_rail_user *user);

/* Lets go of the user's memory, as rail_release says. False: out of memory, the channel must be closed. */
bool gw_channel_release(gw_channel *channel);

/* The channel that a rail peer is the face of. */
static inline gw_channel *gw_channel_of(gw_rail_peer *peer) {
    return (gw_channel *)peer;
}

#endif
