/* A *channel* carries the messages of one rail to and from one peer. Sockets (net/rail/tcp_channel.h), shared
 * memory and RDMA implement this interface. A channel never waits and has no thread: the rail's thread
 * (net/rail/thread.h) calls every function here, with the rail's gate held. */
#ifndef GODWIT_NET_RAIL_CHANNEL_H
#define GODWIT_NET_RAIL_CHANNEL_H

#include "net/data/rail.h"

/* A position in the parts of a message's payload (net/data/rail.h). The parts belong to the message's
 * user. */
typedef struct gw_cursor {
    const struct iovec *parts;
    uint32_t part_count, part;
    size_t offset; /* in that part */
    size_t left;   /* bytes until the payload's end */
} gw_cursor;

gw_cursor gw_cursor_on(const gw_rail_message *message);
/* Moves the position by at most `left` bytes. */
void gw_cursor_advance(gw_cursor *c, size_t bytes);
/* Gives the next bytes as parts for a system call; returns the number of parts, and their sum in *bytes. */
uint32_t gw_cursor_parts(const gw_cursor *c, struct iovec *out, uint32_t most, size_t *bytes);
/* The next `bytes` bytes in place; NULL if they are not in one part. */
uint8_t *gw_cursor_contiguous(gw_cursor *c, size_t bytes);
/* Copies `count` bytes, and moves the position: from the parts to `bytes` (gather), or the other way. */
void gw_cursor_copy(gw_cursor *c, uint8_t *bytes, size_t count, bool gather);

typedef struct gw_channel gw_channel;

typedef enum gw_flow {
    GW_FLOW_MORE = 1, /* something has moved; call again */
    GW_FLOW_BLOCKED,  /* nothing has arrived or there is no room: wait for the other side */
    GW_FLOW_IDLE,     /* there is nothing to send, or the channel is parked: wait for the user */
    GW_FLOW_BROKEN,   /* err says why; the channel is of no more use */
} gw_flow;

/* The operations of a kind of channel. */
typedef struct gw_channel_ops {
    /* Sends or receives a limited amount (about a system call's worth, or 128 KiB), and calls the user's
     * handlers. */
    gw_flow (*send)(gw_channel *, const gw_rail_user *, gw_err *);
    gw_flow (*receive)(gw_channel *, const gw_rail_user *, gw_err *);
    /* NULL if `fd` itself reports, edge-triggered, when a blocked channel can go on (sockets). Otherwise the
     * channel is *polled*: the rail calls it again and again while awake, and before the rail sleeps this
     * function arranges for `fd` to become readable when a blocked receive or send can go on. False if it can
     * go on already, so that the rail must not sleep. No event may be lost between the last receive or send
     * and this call. */
    bool (*arm)(gw_channel *, bool receive, bool send);
    /* NULL if the channel ends by itself whenever anything is lost. Otherwise called every GW_HEARTBEAT_NS:
     * the next send transmits a heartbeat if there is nothing else, by which the other side detects lost
     * records. Returns how many calls in a row have found that nothing had arrived; 0 if the other side sends
     * no heartbeats or the channel is parked. */
    uint32_t (*heartbeat)(gw_channel *);
    /* Frees it; no handler is called. */
    void (*close)(gw_channel *);
} gw_channel_ops;

/* The message that is being sent. */
typedef struct gw_outgoing {
    bool active; /* there is one */
    gw_cursor payload;
    struct iovec own_part; /* after a release: the rest of the payload in a private copy */
    uint8_t *own;          /* the private copy; NULL: the payload is the user's */
} gw_outgoing;

typedef enum gw_incoming_state {
    GW_INCOMING_HEAD, /* the next message's frame has not arrived */
    GW_INCOMING_ASK,  /* message.header and message.bytes are known, and the user is to be asked */
    GW_INCOMING_LAND, /* the payload goes to the user's memory */
    GW_INCOMING_DROP, /* the payload is discarded */
} gw_incoming_state;

/* The message that is being received. */
typedef struct gw_incoming {
    gw_incoming_state state;
    bool parked; /* the user is not asked again before rail_resume, which clears it */
    gw_rail_message message;
    gw_cursor payload;
} gw_incoming;

/* The beginning of every kind's object. All fields but the first five start as zeros. */
struct gw_channel {
    gw_rail_peer peer; /* first: gw_channel_of */
    const gw_channel_ops *ops;
    int fd;      /* watched by the rail, edge-triggered; closed by the channel */
    void *owner; /* the rail thread's */
    uint32_t payload_most;
    gw_outgoing out;
    gw_incoming in;
};

/* What all kinds have in common, for their `send` and `receive`. */

/* Takes the user's next message, whose header and payload the kind sends. False if there is none. */
bool gw_channel_take(gw_channel *channel, const gw_rail_user *user, gw_rail_message *message);
/* Notes that the whole message has been sent. */
void gw_channel_sent(gw_channel *channel, const gw_rail_user *user);
/* Asks the user about the message whose header and length have arrived. GW_FLOW_MORE: it lands, or is
 * dropped. */
gw_flow gw_channel_ask(gw_channel *channel, const gw_rail_user *user, gw_err *err);
/* Moves payload that lies in memory to its place, or makes the user fold it, in pieces as gw_rail_user.fold
 * requires. */
void gw_channel_deliver(gw_channel *channel, const gw_rail_user *user, uint8_t *bytes, size_t count);
/* Notes that the whole message has been received. */
void gw_channel_received(gw_channel *channel, const gw_rail_user *user);

/* Releases the user's memory, as rail_release does. False if out of memory: the channel must be closed. */
bool gw_channel_release(gw_channel *channel);

/* The channel to which a rail peer belongs. */
static inline gw_channel *gw_channel_of(gw_rail_peer *peer) {
    return (gw_channel *)peer;
}

#endif
