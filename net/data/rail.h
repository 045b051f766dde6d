/* What a transport backend implements, and the message rails that collectives run over.
 *
 * A *rail* is one thread of a backend with one message channel to each linked peer. Messages on a channel are
 * ordered and never lost while the link stands; each has a header of GW_RAIL_HEADER bytes and a payload of up
 * to GW_RAIL_PAYLOAD bytes that is gathered from and scattered to places that the user of the rail names.
 * Over TCP a message is a frame, read straight into its place; over RDMA a slot of the receiver, written with
 * immediate, and its place is copied to from the slot.
 *
 * The flow is pulled: the rail asks its user for the next message when a channel has room, and asks where an
 * arriving message shall go when it sees the header. The user may answer "park": then the rail reads no
 * further on that channel, so that the sender is held back, until rail_resume. Over TCP that ends the link if
 * more waits for some seconds than the receive window has room for (net/link/stream.c): who may park for
 * longer must not be sent so much.
 *
 * All handlers of a rail are called on that rail's thread, which must also be where the ops on a rail or a
 * rail peer are called, but for rail_use and rail_wake. Handlers do not nest: no op
 * calls a handler, but for rail_refresh (`up` and `down`). */
#ifndef GODWIT_NET_DATA_RAIL_H
#define GODWIT_NET_DATA_RAIL_H

#include "net/data/transport.h"
#include "net/data/words.h"

#include <sys/uio.h>

enum { GW_RAIL_HEADER = 64, GW_RAIL_PAYLOAD = 1 << 20 };

/* One end of a channel. Lives from `up` until `down` has returned. */
typedef struct gw_rail_peer {
    gw_peer_id id;
    uint32_t rail;
    uint64_t link; /* the number of the link it belongs to */
    void *state;   /* the user's */
} gw_rail_peer;

typedef struct gw_rail_message {
    uint8_t header[GW_RAIL_HEADER];
    uint32_t bytes; /* of payload: the sum of the parts */
    uint32_t part_count;
    const struct iovec *parts; /* array and memory are the user's until sent/landed, or release */
    bool fold;                 /* set by `arrive`: the payload may be given to `fold` instead of the parts */
} gw_rail_message;

typedef enum gw_arrival {
    GW_ARRIVAL_LAND = 1, /* to message->parts, which sum up to its bytes */
    GW_ARRIVAL_DROP,     /* read and forget: stale */
    GW_ARRIVAL_PARK,     /* too early: ask again after resume */
    GW_ARRIVAL_REFUSE,   /* breaks the protocol: the link is ended */
} gw_arrival;

typedef struct gw_rail_user {
    void *context;
    void (*up)(void *context, gw_rail_peer *peer);
    /* The channel is gone, and with it every message taken and landing. */
    void (*down)(void *context, gw_rail_peer *peer);
    /* The next message to `peer`, or false when there is none now (rail_push says when there is one again).
     */
    bool (*next)(void *context, gw_rail_peer *peer, gw_rail_message *message);
    /* The memory of the oldest message taken by `next` is no longer needed. */
    void (*sent)(void *context, gw_rail_peer *peer);
    /* header and bytes are filled in; the user sets parts when it answers LAND. */
    gw_arrival (*arrive)(void *context, gw_rail_peer *peer, gw_rail_message *message);
    /* May be NULL. A channel that has the payload in memory already gives it to the user where it lies,
     * instead of copying it to the parts, if the message was answered so: `bytes` bytes at `offset` of the
     * payload, in order and without gaps; all but the last are multiples of 64, and aligned to that. */
    void (*fold)(void *context, gw_rail_peer *peer, uint32_t offset, const void *payload, uint32_t bytes);
    /* The payload of the message last answered with LAND is in place. */
    void (*landed)(void *context, gw_rail_peer *peer);
    void (*woken)(void *context, uint32_t rail); /* after rail_wake */
    /* The time given to rail_alarm has come, and what had arrived by then was taken. NULL: never asked for.
     */
    void (*alarmed)(void *context, uint32_t rail);
} gw_rail_user;

struct gw_transport_ops {
    bool (*add_region)(gw_transport *, uint32_t region, const void *memory, uint64_t bytes, gw_err *);
    void (*remove_region)(gw_transport *, uint32_t region);
    bool (*share_words)(gw_transport *, uint32_t region, uint64_t count, gw_err *);
    uint64_t (*word)(gw_transport *, gw_word_do, uint32_t region, uint64_t index, uint64_t expected,
                     uint64_t operand);
    bool (*fence)(gw_transport *, const gw_fence *, const gw_peer_id *members, uint32_t count, gw_err *);
    void (*post)(gw_transport *, const gw_op *);
    void (*abandon)(gw_transport *, const gw_peer_id *peer);
    void (*unlink)(gw_transport *, const gw_peer_id *peer);
    void (*spin)(gw_transport *, bool spin);
    gw_transport_counts (*count)(gw_transport *);
    void (*close)(gw_transport *);

    /* How many rails for messages there are; the same on every peer of a flock. They are numbered from 0. */
    uint32_t (*rails)(const gw_transport *);
    /* Gives the rails a user (copied), with an `up` for each channel that stands, or (NULL) takes it away,
     * with no `down`s: synchronous, any thread but the rails'. Without one they say nothing, so that the
     * other side's end a link for its silence (GW_SILENCE_NS). */
    void (*rail_use)(gw_transport *, const gw_rail_user *user);
    void (*rail_wake)(gw_transport *, uint32_t rail); /* any thread */
    /* Links that stood or had ended before the call are `up` or `down` after it. For `woken`, after it has
     * taken what other threads left for it: what they left may rest on a link that the rail has not seen yet.
     */
    void (*rail_refresh)(gw_transport *, uint32_t rail);
    /* There is something for `next` on this channel. */
    void (*rail_push)(gw_transport *, gw_rail_peer *peer);
    /* Ask again about the parked message, if there is one. */
    void (*rail_resume)(gw_transport *, gw_rail_peer *peer);
    /* Lets go of all the user's memory on this channel: a message taken and not sent yet goes on from a
     * private copy (no `sent` follows), one that is landing is dropped (no `landed` follows). The channel is
     * then usable as before. False: out of memory; the link will be ended, but the memory is let go of. */
    bool (*rail_release)(gw_transport *, gw_rail_peer *peer);
    /* Calls `alarmed` once CLOCK_MONOTONIC passes at_ns (UINT64_MAX: never); the last call counts. */
    void (*rail_alarm)(gw_transport *, uint32_t rail, uint64_t at_ns);
    /* Ends the link to this peer: `down` follows, and link_down with this reason. */
    void (*rail_refuse)(gw_transport *, gw_rail_peer *peer, const gw_err *why);
};

/* Every backend's object begins with this. */
struct gw_transport {
    const gw_transport_ops *ops;
};

#endif
