#include "net/rdma/channel.h"

#include "core/base/assert.h"
#include "net/rail/frame.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 16,
    SLOT_PAYLOAD = 64 * 1024,
    HEAD = 128,               /* bytes of a slot before the payload */
    INLINE = 256,             /* messages without payload go in the request itself */
    WORKS = 4 * SLOTS,        /* work that is posted and not known to be done */
    RECEIVES = 2 * SLOTS + 2, /* a WRITE for each slot, and those that give slots back */
    PAGE = 4096,
};

typedef struct rdma_channel {
    gw_channel base; /* first */
    gw_rdma_memory *memory;
    gw_rdma_queue *queue;
    uint32_t slot_bytes;
    uint8_t *slots; /* SLOTS that the other side writes, then SLOTS from which this side sends */
    const gw_rdma_region *written, *sending;
    gw_rdma_work works[WORKS];
    uint32_t posted, done; /* counts of works; all counts are mod 2^32 */

    struct {
        gw_rdma_slots to;
        uint32_t filled, freed; /* slots of the other side: filled, and given back by it */
        bool begun;             /* the head of the message has been sent */
        uint8_t frame[GW_FRAME_BYTES];
    } tx;

    struct {
        bool garbled;
        uint32_t arrived, used,
            reported; /* slots of this side: written, given back, and reported as given back */
        uint32_t lengths[SLOTS];
    } rx;
} rdma_channel;

static rdma_channel *channel_of(gw_channel *channel) {
    return (rdma_channel *)channel;
}

/* Completions. */

static void on_done(void *context, gw_rdma_work *work, gw_rdma_outcome outcome) {
    rdma_channel *c = context;
    (void)work;
    (void)outcome; /* the queue pair remembers its trouble */
    c->done++;
}

static void on_immediate(void *context, uint32_t given_back, uint32_t bytes) {
    rdma_channel *c = context;
    if (c->tx.filled - given_back > SLOTS || given_back - c->tx.freed > SLOTS) {
        c->rx.garbled = true;
        return;
    }
    c->tx.freed = given_back;
    if (bytes == 0) return;
    if (bytes > c->slot_bytes || c->rx.arrived - c->rx.used >= SLOTS) {
        c->rx.garbled = true;
        return;
    }
    c->rx.lengths[c->rx.arrived++ % SLOTS] = bytes;
}

static uint32_t poll_queue(rdma_channel *c) {
    gw_rdma_handlers handlers = {c, on_done, on_immediate};
    return gw_rdma_queue_poll(c->queue, &handlers);
}

static gw_rdma_work *new_work(rdma_channel *c) {
    gw_rdma_work *work = &c->works[c->posted++ % WORKS];
    *work = (gw_rdma_work){.verb = GW_RDMA_WRITE_IMMEDIATE, .unsignalled = true, .immediate = c->rx.used};
    work->remote = c->tx.to.address;
    work->rkey = c->tx.to.rkey;
    c->rx.reported = c->rx.used;
    return work;
}

/* Reports slots as given back when half of them are unreported, since nothing else may be sent that would
 * report them. */
static void give_back(rdma_channel *c) {
    if (c->rx.used - c->rx.reported < SLOTS / 2 || c->posted - c->done == WORKS) return;
    gw_rdma_queue_post(c->queue, new_work(c));
}

static gw_flow broken(gw_err *err, const char *what) {
    gw_fail(err, GW_E_PEER, "net/rdma: %s", what);
    return GW_FLOW_BROKEN;
}

static bool is_broken(const rdma_channel *c) {
    return c->rx.garbled || gw_rdma_queue_trouble(c->queue, NULL) != NULL;
}

static gw_flow report_broken(const rdma_channel *c, gw_err *err) {
    if (c->rx.garbled) return broken(err, "the peer wrote to slots that it had not been given back");
    char id[GW_SHORT_TEXT];
    *err = *gw_rdma_queue_trouble(c->queue, NULL);
    gw_fail_in(err, "to peer %s", gw_peer_id_short(&c->base.peer.id, id));
    return GW_FLOW_BROKEN;
}

/* Sending. */

static bool has_room(const rdma_channel *c) {
    return c->tx.filled - c->tx.freed < SLOTS && c->posted - c->done < WORKS;
}

static bool take_next(rdma_channel *c, const gw_rail_user *user) {
    gw_rail_message message;
    if (!gw_channel_take(&c->base, user, &message)) return false;
    c->tx.begun = false;
    gw_frame_encode(&message, c->tx.frame);
    return true;
}

static uint32_t put_head(const rdma_channel *c, uint8_t *slot) {
    memcpy(slot, c->tx.frame, GW_FRAME_BYTES);
    memset(slot + GW_FRAME_BYTES, 0, HEAD - GW_FRAME_BYTES);
    return HEAD;
}

static gw_flow rdma_send(gw_channel *channel, const gw_rail_user *user, gw_err *err) {
    rdma_channel *c = channel_of(channel);
    poll_queue(c);
    if (is_broken(c)) return report_broken(c, err);
    if (!has_room(c)) return GW_FLOW_BLOCKED;
    if (!c->base.out.active && !take_next(c, user)) return GW_FLOW_IDLE;
    uint32_t place = c->tx.filled++ % SLOTS, used = 0;
    uint8_t *slot = c->slots + (size_t)(SLOTS + place) * c->slot_bytes;
    if (!c->tx.begun) used = put_head(c, slot);
    c->tx.begun = true;
    size_t payload =
        c->slot_bytes - used < c->base.out.payload.left ? c->slot_bytes - used : c->base.out.payload.left;
    gw_cursor_copy(&c->base.out.payload, slot + used, payload, true);
    gw_rdma_work *work = new_work(c);
    work->local = slot;
    work->lkey = c->sending->lkey;
    work->bytes = used + payload;
    work->remote += (uint64_t)place * c->slot_bytes;
    gw_rdma_queue_post(c->queue, work);
    if (c->base.out.payload.left == 0) gw_channel_sent(&c->base, user);
    return GW_FLOW_MORE;
}

/* Receiving. */

/* Uses the oldest slot that has arrived. */
static gw_flow use_slot(rdma_channel *c, const gw_rail_user *user, gw_err *err) {
    uint32_t place = c->rx.used % SLOTS, length = c->rx.lengths[place], used = 0;
    uint8_t *slot = c->slots + (size_t)place * c->slot_bytes;
    if (c->base.in.state == GW_INCOMING_HEAD) {
        if (length < HEAD || !gw_frame_decode(slot, c->base.payload_most, &c->base.in.message))
            return broken(err, "the peer sent garbage instead of a message");
        c->base.in.state = GW_INCOMING_ASK;
    }
    if (c->base.in.state == GW_INCOMING_ASK) {
        gw_flow flow = gw_channel_ask(&c->base, user, err);
        if (flow != GW_FLOW_MORE) return flow;
        used = HEAD;
    }
    size_t left = c->base.in.payload.left;
    if (length - used != (left < c->slot_bytes - used ? left : c->slot_bytes - used))
        return broken(err, "the peer sent a slot of the wrong length");
    gw_channel_deliver(&c->base, user, slot + used, length - used);
    c->rx.used++;
    if (c->base.in.payload.left == 0) gw_channel_received(&c->base, user);
    return GW_FLOW_MORE;
}

static gw_flow rdma_receive(gw_channel *channel, const gw_rail_user *user, gw_err *err) {
    rdma_channel *c = channel_of(channel);
    if (c->base.in.parked) return GW_FLOW_IDLE;
    poll_queue(c);
    give_back(c);
    /* Slots that arrived before a break are used first. */
    if (c->rx.arrived == c->rx.used) return is_broken(c) ? report_broken(c, err) : GW_FLOW_BLOCKED;
    gw_flow flow = use_slot(c, user, err);
    give_back(c);
    return flow;
}

/* Arming and life. */

static bool rdma_arm(gw_channel *channel, bool receive, bool send) {
    rdma_channel *c = channel_of(channel);
    bool armed = gw_rdma_queue_arm(c->queue);
    while (poll_queue(c) > 0) { /* what completed before the arming makes no event */
    }
    if (!armed || is_broken(c)) return !(receive || send);
    if (receive && c->rx.arrived != c->rx.used) return false;
    return !(send && has_room(c));
}

static void rdma_close(gw_channel *channel) {
    rdma_channel *c = channel_of(channel);
    gw_rdma_queue_close(c->queue);
    gw_rdma_memory_drop(c->memory, c->written);
    gw_rdma_memory_drop(c->memory, c->sending);
    gw_rdma_memory_close(c->memory);
    free(c->slots);
    free(c->base.out.own);
    free(c);
}

static const gw_channel_ops rdma_ops = {
    .send = rdma_send,
    .receive = rdma_receive,
    .arm = rdma_arm,
    .close = rdma_close,
};

static bool make_slots(rdma_channel *c, gw_err *err) {
    size_t half = (size_t)SLOTS * c->slot_bytes;
    c->slots = aligned_alloc(PAGE, (2 * half + PAGE - 1) / PAGE * PAGE);
    if (c->slots == NULL) return gw_fail(err, GW_E_NOMEM, "net/rdma: no memory for slots");
    memset(c->slots, 0, 2 * half);
    c->written = gw_rdma_memory_take(c->memory, c->slots, half, GW_RDMA_WRITABLE, err);
    if (c->written == NULL) return false;
    c->sending = gw_rdma_memory_take(c->memory, c->slots + half, half, GW_RDMA_LOCAL, err);
    return c->sending != NULL;
}

gw_channel *gw_rdma_channel_open(gw_rdma_memory *memory, uint32_t payload_most, gw_err *err) {
    static const gw_rdma_queue_options options = {
        .send_depth = WORKS, .receive_depth = RECEIVES, .inline_bytes = INLINE};
    rdma_channel *c = calloc(1, sizeof *c);
    if (c == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory for a channel");
        return NULL;
    }
    c->base.ops = &rdma_ops;
    c->memory = gw_rdma_memory_hold(memory);
    c->base.payload_most = payload_most;
    c->slot_bytes = HEAD + (payload_most < SLOT_PAYLOAD ? (payload_most + 63) / 64 * 64 : SLOT_PAYLOAD);
    if (make_slots(c, err)) c->queue = gw_rdma_queue_open(memory, &options, err);
    if (c->queue != NULL) {
        c->base.fd = gw_rdma_queue_fd(c->queue);
        return &c->base;
    }
    rdma_close(&c->base);
    return NULL;
}

gw_rdma_queue *gw_rdma_channel_queue(gw_channel *channel) {
    return channel_of(channel)->queue;
}

gw_rdma_slots gw_rdma_channel_slots(const gw_channel *channel) {
    const rdma_channel *c = (const rdma_channel *)channel;
    return (gw_rdma_slots){(uintptr_t)c->slots, c->written->rkey, c->slot_bytes, SLOTS};
}

bool gw_rdma_channel_aim(gw_channel *channel, const gw_rdma_slots *theirs, gw_err *err) {
    rdma_channel *c = channel_of(channel);
    if (theirs->slot_bytes != c->slot_bytes || theirs->count != SLOTS)
        return gw_fail(err, GW_E_PEER, "net/rdma: the peer has %u slots of %u bytes, this one %d of %u",
                       theirs->count, theirs->slot_bytes, SLOTS, c->slot_bytes);
    c->tx.to = *theirs;
    return true;
}
