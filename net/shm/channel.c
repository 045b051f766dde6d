#include "net/shm/channel.h"

#include "core/base/assert.h"
#include "net/rail/frame.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    RING = 256 * 1024, /* bytes of a ring's data, which stay in a core's second-level cache */
    LINE = 64,
    FRAME = 128,
    PIECE = 16 * 1024,  /* bytes moved between two readings of the other side's position */
    BUDGET = 64 * 1024, /* bytes moved in one call, so that both directions and all channels make progress */
};

/* The first page of a ring: the bytes ever written (head) and ever read (tail), each on a cache line of its
 * own. */
typedef struct ring_page {
    _Alignas(LINE) _Atomic uint64_t head;
    _Alignas(LINE) _Atomic uint64_t tail;
    _Alignas(LINE) _Atomic uint32_t
        asleep; /* the ring's receiver sleeps or is about to, so its bell must be rung */
} ring_page;

typedef struct ring {
    ring_page *page;
    uint8_t *data;  /* mapped twice in a row, so that no piece wraps around */
    uint64_t at;    /* this side's position: the head of the ring that it sends on, the tail of the other */
    uint64_t other; /* the other side's position when it was last read */
} ring;

typedef struct shm_channel {
    gw_channel base;
    int other_bell;
    ring to, from;
    struct {
        bool framed; /* the frame has been sent */
        uint8_t frame[FRAME];
    } tx;
} shm_channel;

static const gw_channel_ops shm_ops;

static shm_channel *shm_of(gw_channel *channel) {
    return (shm_channel *)channel;
}

/* Rings. */

uint64_t gw_shm_rings_bytes(uint32_t count) {
    return (uint64_t)count * 2 * (PAGE + RING);
}

static void *map(void *at, size_t bytes, int fd, uint64_t offset) {
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
}

static bool map_ring(ring *r, int fd, uint64_t number, gw_err *err) {
    uint64_t offset = number * (PAGE + RING);
    uint8_t *at = mmap(NULL, PAGE + 2 * RING, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return gw_fail_errno(err, errno, "net/shm: mmap");
    if (map(at, PAGE + RING, fd, offset) == MAP_FAILED ||
        map(at + PAGE + RING, RING, fd, offset + PAGE) == MAP_FAILED) {
        gw_fail_errno(err, errno, "net/shm: mmap");
        munmap(at, PAGE + 2 * RING);
        return false;
    }
    r->page = (ring_page *)(void *)at;
    r->data = at + PAGE;
    return true;
}

static void unmap_ring(ring *r) {
    if (r->page != NULL) munmap(r->page, PAGE + 2 * RING);
}

/* Reads the other side's position, and gives how many bytes may be written. False if the position is
 * impossible. */
static bool look_for_room(ring *r, uint64_t *room) {
    r->other = atomic_load_explicit(&r->page->tail, memory_order_acquire);
    *room = RING - (r->at - r->other);
    return r->at - r->other <= RING && r->other % LINE == 0;
}

static bool look_for_bytes(ring *r, uint64_t *bytes) {
    r->other = atomic_load_explicit(&r->page->head, memory_order_acquire);
    *bytes = r->other - r->at;
    return *bytes <= RING && *bytes % LINE == 0;
}

static uint8_t *place(const ring *r) {
    return r->data + r->at % RING;
}

static uint64_t padded(uint64_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

static void publish_head(ring *r, uint64_t bytes) {
    r->at += bytes;
    atomic_store_explicit(&r->page->head, r->at, memory_order_release);
}

static void publish_tail(ring *r, uint64_t bytes) {
    r->at += bytes;
    atomic_store_explicit(&r->page->tail, r->at, memory_order_release);
}

/* Wakes the other side's thread if it sleeps, after something was moved. Pairs with shm_arm: either this
 * function sees the flag or shm_arm sees the position. */
static void ring_bell(shm_channel *channel) {
    atomic_thread_fence(memory_order_seq_cst);
    _Atomic uint32_t *asleep = &channel->to.page->asleep;
    if (atomic_load_explicit(asleep, memory_order_relaxed) == 0 || atomic_exchange(asleep, 0) == 0) return;
    uint64_t one = 1;
    ssize_t rung = write(channel->other_bell, &one, sizeof one);
    (void)rung; /* if the other process gave no working bell, it misses its own wake-up */
}

static bool shm_arm(gw_channel *base, bool receive, bool send) {
    shm_channel *channel = shm_of(base);
    _Atomic uint32_t *asleep = &channel->from.page->asleep;
    uint64_t bytes, room;
    atomic_store_explicit(asleep, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    bool news = receive && (!look_for_bytes(&channel->from, &bytes) || bytes > 0);
    news = news || (send && (!look_for_room(&channel->to, &room) || room >= FRAME));
    if (news) atomic_store_explicit(asleep, 0, memory_order_relaxed);
    return !news;
}

/* Life. */

gw_channel *gw_shm_channel_open(int rings, uint32_t index, bool first, int bell, int other,
                                uint32_t payload_most, const gw_peer_id *peer, uint32_t rail, gw_err *err) {
    shm_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/shm: no memory for a channel");
        close(bell);
        close(other);
        return NULL;
    }
    channel->base = (gw_channel){.peer = {.id = *peer, .rail = rail}, .ops = &shm_ops, .fd = bell};
    channel->other_bell = other;
    channel->base.payload_most = payload_most;
    uint64_t to = 2 * (uint64_t)index + !first, from = 2 * (uint64_t)index + first;
    if (!map_ring(&channel->to, rings, to, err) || !map_ring(&channel->from, rings, from, err)) {
        channel->base.ops->close(&channel->base);
        return NULL;
    }
    return &channel->base;
}

static void shm_close(gw_channel *base) {
    shm_channel *channel = shm_of(base);
    unmap_ring(&channel->to);
    unmap_ring(&channel->from);
    close(channel->base.fd);
    close(channel->other_bell);
    free(channel->base.out.own);
    free(channel);
}

static gw_flow broken(gw_err *err, const char *what) {
    gw_fail(err, GW_E_PEER, "net/shm: %s", what);
    return GW_FLOW_BROKEN;
}

/* Sending. */

static bool take_next(shm_channel *channel, const gw_rail_user *user) {
    gw_rail_message message;
    if (!gw_channel_take(&channel->base, user, &message)) return false;
    memset(channel->tx.frame, 0, FRAME);
    gw_frame_encode(&message, channel->tx.frame);
    channel->tx.framed = false;
    return true;
}

/* Moves a piece of the current message, for which there is room. */
static uint64_t send_piece(shm_channel *channel, uint64_t room) {
    uint64_t moved = 0;
    if (!channel->tx.framed) {
        memcpy(place(&channel->to), channel->tx.frame, FRAME);
        channel->tx.framed = true;
        moved = FRAME;
        room -= FRAME;
    }
    uint64_t take = channel->base.out.payload.left;
    if (take > PIECE) take = PIECE;
    if (take > room) take = room; /* a multiple of LINE, as PIECE is */
    if (take > 0) gw_cursor_copy(&channel->base.out.payload, place(&channel->to) + moved, take, true);
    moved += padded(take);
    publish_head(&channel->to, moved);
    return moved;
}

static gw_flow shm_send(gw_channel *base, const gw_rail_user *user, gw_err *err) {
    shm_channel *channel = shm_of(base);
    gw_flow flow = GW_FLOW_MORE;
    uint64_t moved = 0;
    while (flow == GW_FLOW_MORE && moved < BUDGET) {
        uint64_t room;
        if (!channel->base.out.active && !take_next(channel, user)) {
            flow = GW_FLOW_IDLE;
        } else if (!look_for_room(&channel->to, &room)) {
            return broken(err, "the peer's position in the ring is impossible");
        } else if (room < FRAME) {
            flow = GW_FLOW_BLOCKED;
        } else {
            moved += send_piece(channel, room);
            if (channel->base.out.payload.left == 0) gw_channel_sent(&channel->base, user);
        }
    }
    if (moved > 0) ring_bell(channel);
    return flow;
}

/* Receiving. */

static bool parse_frame(shm_channel *channel) {
    channel->base.in.state = GW_INCOMING_ASK;
    return gw_frame_decode(place(&channel->from), channel->base.payload_most, &channel->base.in.message);
}

/* Asks the user about the message whose header has arrived. */
static gw_flow ask(shm_channel *channel, const gw_rail_user *user, gw_err *err) {
    gw_flow flow = gw_channel_ask(&channel->base, user, err);
    if (flow != GW_FLOW_MORE) return flow;
    publish_tail(&channel->from, FRAME);
    if (channel->base.in.message.bytes == 0) gw_channel_received(&channel->base, user);
    return GW_FLOW_MORE;
}

/* Takes a piece of the current payload; returns how many bytes of the ring it took. */
static uint64_t take_piece(shm_channel *channel, const gw_rail_user *user, uint64_t there) {
    const gw_cursor *payload = &channel->base.in.payload;
    uint64_t take = payload->left;
    if (take > PIECE) take = PIECE;
    if (take > there) take = there;
    gw_channel_deliver(&channel->base, user, place(&channel->from), take);
    publish_tail(&channel->from, padded(take));
    if (payload->left == 0) gw_channel_received(&channel->base, user);
    return padded(take);
}

static gw_flow receive_some(shm_channel *channel, const gw_rail_user *user, uint64_t *moved, gw_err *err) {
    uint64_t bytes;
    if (channel->base.in.state == GW_INCOMING_ASK) {
        *moved += FRAME;
        return ask(channel, user, err);
    }
    if (!look_for_bytes(&channel->from, &bytes))
        return broken(err, "the peer's position in the ring is impossible");
    if (channel->base.in.state == GW_INCOMING_HEAD) {
        if (bytes < FRAME) return GW_FLOW_BLOCKED;
        return parse_frame(channel) ? GW_FLOW_MORE : broken(err, "the peer sent garbage instead of a frame");
    }
    if (bytes == 0) return GW_FLOW_BLOCKED;
    *moved += take_piece(channel, user, bytes);
    return GW_FLOW_MORE;
}

static gw_flow shm_receive(gw_channel *base, const gw_rail_user *user, gw_err *err) {
    shm_channel *channel = shm_of(base);
    gw_flow flow = GW_FLOW_MORE;
    uint64_t moved = 0;
    if (channel->base.in.parked) return GW_FLOW_IDLE;
    while (flow == GW_FLOW_MORE && moved < BUDGET) flow = receive_some(channel, user, &moved, err);
    if (moved > 0) ring_bell(channel);
    return flow;
}

static const gw_channel_ops shm_ops = {
    .send = shm_send,
    .receive = shm_receive,
    .arm = shm_arm,
    .close = shm_close,
};
