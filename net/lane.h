/* What a transport backend implements, and the message lanes that collectives run over.
 *
 * A *lane* is one thread of a backend with one message channel to each linked peer. Messages on a channel are
 * ordered and never lost while the link stands; each has a header of GW_LANE_HEADER bytes and a payload of up
 * to GW_LANE_PAYLOAD bytes that is gathered from and scattered to places that the user of the lane names.
 * Over TCP a message is a frame, read straight into its place; over RDMA a slot of the receiver, written with
 * immediate, and its place is copied to (or reduced to) from the slot.
 *
 * The flow is pulled: the lane asks its user for the next message when a channel has room, and asks where an
 * arriving message shall go when it sees the header. The user may answer "park": then the lane reads no
 * further on that channel, so that the sender is held back, until gw_lane_ops.resume.
 *
 * All handlers of a lane are called on that lane's thread; so must be the ops, but for wake. */
#ifndef GODWIT_NET_LANE_H
#define GODWIT_NET_LANE_H

#include "net/transport.h"

#include <sys/uio.h>

enum { GW_LANE_HEADER = 64, GW_LANE_PAYLOAD = 1 << 20 };

typedef struct gw_lane_message {
    uint8_t header[GW_LANE_HEADER];
    uint32_t bytes; /* of payload: the sum of the parts */
    uint32_t part_count;
    const struct iovec *parts; /* array and memory are the user's until sent/landed, or release */
} gw_lane_message;

typedef enum gw_arrival {
    GW_ARRIVAL_LAND = 1, /* to message->parts, which sum up to its bytes */
    GW_ARRIVAL_DROP,     /* read and forget: stale */
    GW_ARRIVAL_PARK,     /* too early: ask again after resume */
    GW_ARRIVAL_REFUSE,   /* breaks the protocol: the link is ended */
} gw_arrival;

typedef struct gw_lane_user {
    void *context;
    /* The next message to `peer`, or false when there is none now (then gw_lane_ops.push says when). */
    bool (*next)(void *context, uint32_t lane, const gw_peer_id *peer, gw_lane_message *message);
    /* The memory of the oldest message taken by `next` is no longer needed. */
    void (*sent)(void *context, uint32_t lane, const gw_peer_id *peer);
    /* header and bytes are filled in; sets parts when it answers LAND. */
    gw_arrival (*arrive)(void *context, uint32_t lane, const gw_peer_id *peer, gw_lane_message *message);
    /* The payload of the message last answered with LAND is in place. */
    void (*landed)(void *context, uint32_t lane, const gw_peer_id *peer);
    /* The channel to `peer` is gone, and with it every message taken and landing. */
    void (*down)(void *context, uint32_t lane, const gw_peer_id *peer);
    /* A channel to `peer` is new. */
    void (*up)(void *context, uint32_t lane, const gw_peer_id *peer);
    /* After wake, or when the time given to alarm has come. */
    void (*woken)(void *context, uint32_t lane);
} gw_lane_user;

struct gw_transport_ops {
    bool (*add_region)(gw_transport *, uint32_t region, gw_region_kind, void *memory, uint64_t bytes,
                       gw_err *);
    void (*remove_region)(gw_transport *, uint32_t region);
    void (*fence)(gw_transport *, const gw_fence *, const gw_peer_id *members, uint32_t count);
    void (*post)(gw_transport *, const gw_op *);
    void (*abandon)(gw_transport *, const gw_peer_id *peer);
    void (*unlink)(gw_transport *, const gw_peer_id *peer);
    void (*spin)(gw_transport *, bool spin);
    void (*close)(gw_transport *);

    /* Message lanes. */
    uint32_t (*lanes)(const gw_transport *); /* how many; the same on every peer of a flock */
    /* Sets or (NULL) takes away the user, synchronously. Any thread. */
    void (*lane_use)(gw_transport *, const gw_lane_user *user);
    void (*lane_wake)(gw_transport *, uint32_t lane); /* any thread */
    /* There is something for `next` on this channel. False: no such channel. */
    bool (*lane_push)(gw_transport *, uint32_t lane, const gw_peer_id *peer);
    /* Ask again about the parked message, if there is one. */
    void (*lane_resume)(gw_transport *, uint32_t lane, const gw_peer_id *peer);
    /* Let go of all the user's memory on every channel of the lane: messages taken and not sent yet go on
     * from private copies (no `sent` follows), messages landing are dropped (no `landed` follows). Afterwards
     * the channels are usable as before. */
    void (*lane_release)(gw_transport *, uint32_t lane);
    /* Calls `woken` once CLOCK_MONOTONIC passes at_ns (UINT64_MAX: never); the last call counts. */
    void (*lane_alarm)(gw_transport *, uint32_t lane, uint64_t at_ns);
};

/* Every backend's object begins with this. */
struct gw_transport {
    const gw_transport_ops *ops;
};

#endif
