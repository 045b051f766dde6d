/* The operations that a transport backend implements, and the rails that collectives run over.
 *
 * A *rail* is one data thread of a backend with one *channel* to each linked peer (net/rail/channel.h).
 * Messages on a channel are ordered and are not lost while the data link is up. Each message has a header of
 * GW_RAIL_HEADER bytes and a payload of up to GW_RAIL_PAYLOAD bytes, which is gathered from and scattered to
 * memory that the user of the rail names. Over TCP a message is a frame that is read straight into its place;
 * over RDMA it is written with immediate into a slot of the receiver and copied from there.
 *
 * Data flow is by pull: the rail asks its user for the next message when a channel has room, and asks where an
 * arriving message shall go when it has the header. The user may answer GW_ARRIVAL_PARK; then the rail reads
 * no further on that channel, which holds the sender back, until rail_resume. Over TCP a parked channel is
 * lost if for some seconds more bytes wait than fit the receive window (net/link/stream.c), so a protocol
 * must not send more than that to a peer that may park for longer.
 *
 * All handlers of a rail are called on the rail's thread. The operations on a rail or a rail peer must be
 * called on that thread too, except rail_use and rail_wake. Handlers do not nest: no operation calls a
 * handler, except rail_refresh, which calls `up` and `down`. */
#ifndef GODWIT_NET_DATA_RAIL_H
#define GODWIT_NET_DATA_RAIL_H

#include "net/data/transport.h"
#include "net/data/words.h"

#include <sys/uio.h>

enum { GW_RAIL_HEADER = 64, GW_RAIL_PAYLOAD = 1 << 20 };

/* This side's end of a channel, as the user of a rail sees it. It lives from `up` until `down` has
 * returned. */
typedef struct gw_rail_peer {
    gw_peer_id id;
    uint32_t rail;
    uint64_t link; /* the number of the data link that the channel belongs to */
    /* Sums are packed (core/vector/pack.h) that go by this channel, as bytes take longer here than packing them. */
    bool packs;
    bool unpacks; /* packed sums may come: the other side decides for itself */
    void *state;  /* the user's */
} gw_rail_peer;

typedef struct gw_rail_message {
    uint8_t header[GW_RAIL_HEADER];
    uint32_t bytes; /* bytes of payload: the sum of the parts */
    uint32_t part_count;
    const struct iovec *parts; /* array and memory must stay valid until `sent`, `landed` or rail_release */
    bool fold;                 /* set by `arrive`: the payload may go to `fold` instead of to the parts */
} gw_rail_message;

typedef enum gw_arrival {
    GW_ARRIVAL_LAND = 1, /* the payload goes to message->parts, which have room for exactly its bytes */
    GW_ARRIVAL_DROP,     /* the message is stale: the payload is read and discarded */
    GW_ARRIVAL_PARK,     /* the message is too early: the rail asks again after rail_resume */
    GW_ARRIVAL_REFUSE,   /* the message breaks the protocol: the link is ended */
} gw_arrival;

typedef struct gw_rail_user {
    void *context;
    void (*up)(void *context, gw_rail_peer *peer);
    /* The channel is gone, and with it the messages that were being sent and received on it. */
    void (*down)(void *context, gw_rail_peer *peer);
    /* Gives the next message to `peer`. False if there is none now; the user calls rail_push when there is
     * one again. */
    bool (*next)(void *context, gw_rail_peer *peer, gw_rail_message *message);
    /* The memory of the oldest message taken by `next` is no longer needed. */
    void (*sent)(void *context, gw_rail_peer *peer);
    /* Decides about an arriving message, whose header and bytes are filled in. The user sets the parts if it
     * answers LAND. */
    gw_arrival (*arrive)(void *context, gw_rail_peer *peer, gw_rail_message *message);
    /* Takes payload where it lies, if `arrive` allowed that and the channel has the payload in memory anyway:
     * `bytes` bytes at `offset`, in order and without gaps. All pieces but the last have a multiple of 64
     * bytes and that alignment. May be NULL. */
    void (*fold)(void *context, gw_rail_peer *peer, uint32_t offset, const void *payload, uint32_t bytes);
    /* The payload of the message last answered with LAND is in place. */
    void (*landed)(void *context, gw_rail_peer *peer);
    void (*woken)(void *context, uint32_t rail); /* after rail_wake */
    /* The time given to rail_alarm has passed, and messages that had arrived by then have been handled. May
     * be NULL if rail_alarm is not used. */
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

    /* The most rails that a link has. Rails are numbered from 0. */
    uint32_t (*rails)(const gw_transport *);
    /* The number of those that every link has, and every peer of a flock. A channel of another one may be missing, and
     * may end without the link. */
    uint32_t (*sure_rails)(const gw_transport *);
    /* Gives the rails a user (copied), with an `up` for each channel, or takes it away (NULL) without any
     * `down`. Synchronous; any thread but the rails' own. Rails without a user send no heartbeats, so the
     * other side ends the link after GW_SILENCE_NS. */
    void (*rail_use)(gw_transport *, const gw_rail_user *user);
    void (*rail_wake)(gw_transport *, uint32_t rail); /* any thread */
    /* Brings the channels up to date: links that were made or ended before the call are `up` or `down` after
     * it. `woken` calls it after it has taken the work that other threads left, which may need a link that
     * the rail has not seen yet. */
    void (*rail_refresh)(gw_transport *, uint32_t rail);
    /* Tells the rail that `next` has a message for this channel. */
    void (*rail_push)(gw_transport *, gw_rail_peer *peer);
    /* Makes the rail ask again about the parked message of this channel, if there is one. */
    void (*rail_resume)(gw_transport *, gw_rail_peer *peer);
    /* Releases all memory of the user on this channel. A message that is being sent continues from a private
     * copy, without a `sent`; one that is landing is dropped, without a `landed`. The channel is usable as
     * before. False if out of memory: the memory is released all the same, and the link will be ended. */
    bool (*rail_release)(gw_transport *, gw_rail_peer *peer);
    /* Sets the time (CLOCK_MONOTONIC) at which `alarmed` is called once, in place of an earlier one;
     * UINT64_MAX is never. */
    void (*rail_alarm)(gw_transport *, uint32_t rail, uint64_t at_ns);
    /* Ends the link to this peer. `down` follows, and link_down with this reason. */
    void (*rail_refuse)(gw_transport *, gw_rail_peer *peer, const gw_err *why);
};

/* Every backend's object begins with this. */
struct gw_transport {
    const gw_transport_ops *ops;
};

#endif
