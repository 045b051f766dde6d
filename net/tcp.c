#include "net/tcp.h"

#include "core/check.h"
#include "core/log.h"
#include "net/onesided.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STREAM_WORDS = 0,
    STREAM_BULK = 1,
    FIRST_LANE = 2,
    STREAMS = FIRST_LANE + GW_TCP_LANES,
    BULK_WINDOW = 8, /* pieces in flight: 2 MiB cover 10 Gbit/s at 1.6 ms */
};

/* A peer's link, or the streams of one to be. */
typedef struct peer_links {
    struct peer_links *next;
    gw_peer_id peer;
    gw_tcp_link *link; /* stands, or NULL */
    uint64_t attempt;  /* that `waiting` belong to */
    bool dialled;      /* by us: attempts of both sides are told apart */
    uint32_t waiting_count;
    gw_detached waiting[STREAMS]; /* fd -1: not in yet */
} peer_links;

typedef struct tcp_transport {
    gw_transport base; /* first */
    gw_transport_events events;
    uint32_t streams;
    gw_tcp_lane *lanes[STREAMS]; /* by stream number */
    gw_onesided *words, *bulk;
    gw_provider *provider;
    gw_regions regions;          /* changed inside the gates of both one-sided lanes */
    pthread_mutex_t change_lock; /* one change of regions or fence at a time */
    pthread_mutex_t links_lock;
    peer_links *links;
    uint64_t link_numbers;
} tcp_transport;

static tcp_transport *tcp_of(gw_transport *transport) {
    return (tcp_transport *)transport;
}

static void close_detached(gw_detached *stream) {
    if (stream->fd >= 0) close(stream->fd);
    free(stream->ahead);
    gw_cipher_wipe(&stream->seal);
    gw_cipher_wipe(&stream->open);
    *stream = (gw_detached){.fd = -1};
}

/* ---- links ---- */

static void wake_all(tcp_transport *tcp) {
    for (uint32_t i = 0; i < tcp->streams; i++) gw_tcp_lane_wake(tcp->lanes[i]);
}

static peer_links *find_links(tcp_transport *tcp, const gw_peer_id *peer) {
    for (peer_links *l = tcp->links; l != NULL; l = l->next)
        if (gw_peer_id_equal(&l->peer, peer)) return l;
    return NULL;
}

static void drop_waiting(peer_links *links) {
    for (uint32_t i = 0; i < STREAMS; i++)
        if (links->waiting[i].fd >= 0) close_detached(&links->waiting[i]);
    links->waiting_count = 0;
}

/* Takes the link away from its peer; the lanes must be woken. */
static void end_link(peer_links *links) {
    if (links->link == NULL) return;
    atomic_store(&links->link->ended, true);
    gw_tcp_link_forget(links->link);
    links->link = NULL;
}

static void on_broken(void *context, gw_tcp_link *link, const gw_err *why) {
    tcp_transport *tcp = context;
    pthread_mutex_lock(&tcp->links_lock);
    peer_links *links = find_links(tcp, &link->peer);
    /* Not the first: another stream of it broke earlier, or it was ended on purpose. */
    if (links != NULL && links->link == link) {
        end_link(links);
        wake_all(tcp);
        if (tcp->events.link_down != NULL)
            tcp->events.link_down(tcp->events.context, &link->peer, link->number, why);
    }
    pthread_mutex_unlock(&tcp->links_lock);
}

uint64_t gw_tcp_stream_word(uint64_t attempt, uint32_t number, uint32_t streams) {
    GW_CHECK(attempt < (uint64_t)1 << 48 && number < streams && streams <= STREAMS);
    return attempt << 16 | (uint64_t)streams << 8 | number;
}

static peer_links *links_for(tcp_transport *tcp, const gw_peer_id *peer) {
    peer_links *links = find_links(tcp, peer);
    if (links != NULL) return links;
    links = calloc(1, sizeof *links);
    if (links == NULL) return NULL;
    links->peer = *peer;
    for (uint32_t i = 0; i < STREAMS; i++) links->waiting[i].fd = -1;
    links->next = tcp->links;
    tcp->links = links;
    return links;
}

/* All streams are in: makes them a link. */
static bool establish(tcp_transport *tcp, peer_links *links, gw_err *err) {
    gw_tcp_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        drop_waiting(links);
        return gw_fail(err, GW_E_NOMEM, "net/tcp: no memory for a link");
    }
    link->peer = links->peer;
    link->number = ++tcp->link_numbers;
    atomic_init(&link->references, 1);
    end_link(links);
    wake_all(tcp); /* the older link goes down before the new one comes up */
    links->link = link;
    bool done = true;
    for (uint32_t i = 0; i < tcp->streams && done; i++)
        done = gw_tcp_lane_add(tcp->lanes[i], &links->waiting[i], link, err);
    drop_waiting(links);
    if (!done) {
        end_link(links);
        wake_all(tcp);
    } else if (tcp->events.link_up != NULL) {
        tcp->events.link_up(tcp->events.context, &link->peer, link->number);
    }
    return done;
}

static bool check_word(const tcp_transport *tcp, const gw_detached *stream, gw_err *err) {
    uint64_t word = stream->remote.word;
    uint32_t number = word & 0xff, streams = word >> 8 & 0xff;
    char id[GW_SHORT_TEXT];
    gw_peer_id_short(&stream->remote.id, id);
    if (stream->remote.kind != GW_STREAM_DATA)
        return gw_fail(err, GW_E_PEER, "net/tcp: the stream from %s is not for data", id);
    if (streams != tcp->streams)
        return gw_fail(err, GW_E_PEER, "net/tcp: peer %s uses %u data streams a link, this one %u", id,
                       streams, tcp->streams);
    if (number >= streams)
        return gw_fail(err, GW_E_PEER, "net/tcp: peer %s opened stream %u of %u", id, number, streams);
    return true;
}

bool gw_tcp_adopt(gw_transport *transport, gw_detached *stream, gw_err *err) {
    tcp_transport *tcp = tcp_of(transport);
    if (!check_word(tcp, stream, err)) {
        close_detached(stream);
        return false;
    }
    uint64_t attempt = stream->remote.word >> 16;
    uint32_t place = stream->remote.word & 0xff;
    gw_peer_id peer = stream->remote.id;
    bool dialled = stream->remote.dialled;
    pthread_mutex_lock(&tcp->links_lock);
    peer_links *links = links_for(tcp, &peer);
    if (links == NULL) {
        pthread_mutex_unlock(&tcp->links_lock);
        close_detached(stream);
        return gw_fail(err, GW_E_NOMEM, "net/tcp: no memory for a peer");
    }
    if (links->waiting_count > 0 && (links->attempt != attempt || links->dialled != dialled))
        drop_waiting(links);
    links->attempt = attempt;
    links->dialled = dialled;
    if (links->waiting[place].fd >= 0)
        close_detached(&links->waiting[place]);
    else
        links->waiting_count++;
    links->waiting[place] = *stream;
    *stream = (gw_detached){.fd = -1};
    bool done = links->waiting_count < tcp->streams || establish(tcp, links, err);
    pthread_mutex_unlock(&tcp->links_lock);
    return done;
}

static void tcp_unlink(gw_transport *transport, const gw_peer_id *peer) {
    tcp_transport *tcp = tcp_of(transport);
    pthread_mutex_lock(&tcp->links_lock);
    peer_links **at = &tcp->links;
    while (*at != NULL && !gw_peer_id_equal(&(*at)->peer, peer)) at = &(*at)->next;
    peer_links *links = *at;
    if (links != NULL) {
        *at = links->next;
        end_link(links);
        drop_waiting(links);
        free(links);
    }
    pthread_mutex_unlock(&tcp->links_lock);
    wake_all(tcp);
}

/* ---- one-sided operations ---- */

static void enter_both(tcp_transport *tcp) {
    pthread_mutex_lock(&tcp->change_lock);
    gw_tcp_lane_enter(tcp->lanes[STREAM_WORDS]);
    gw_tcp_lane_enter(tcp->lanes[STREAM_BULK]);
}

static void leave_both(tcp_transport *tcp) {
    gw_tcp_lane_leave(tcp->lanes[STREAM_BULK]);
    gw_tcp_lane_leave(tcp->lanes[STREAM_WORDS]);
    pthread_mutex_unlock(&tcp->change_lock);
}

static bool tcp_add_region(gw_transport *transport, uint32_t region, gw_region_kind kind, void *memory,
                           uint64_t bytes, gw_err *err) {
    tcp_transport *tcp = tcp_of(transport);
    enter_both(tcp);
    bool done = gw_regions_add(&tcp->regions, region, kind, memory, bytes, err);
    leave_both(tcp);
    return done;
}

static void tcp_remove_region(gw_transport *transport, uint32_t region) {
    tcp_transport *tcp = tcp_of(transport);
    enter_both(tcp);
    gw_regions_remove(&tcp->regions, region);
    leave_both(tcp);
}

static void tcp_fence(gw_transport *transport, const gw_fence *fence, const gw_peer_id *members,
                      uint32_t count) {
    tcp_transport *tcp = tcp_of(transport);
    gw_fence to = fence != NULL ? *fence : (gw_fence){0};
    gw_peer_id *copy = count > 0 ? malloc(count * sizeof *copy) : NULL;
    if (count > 0 && copy == NULL) {
        /* Nothing is served rather than the wrong view: thieves are turned away, correctness stays. */
        gw_log(GW_ERROR, "net/tcp", "no memory for the fence's %u members: serving nobody", count);
        to = (gw_fence){0};
        count = 0;
    }
    if (count > 0) memcpy(copy, members, count * sizeof *copy);
    enter_both(tcp);
    gw_peer_id *former = gw_regions_fence(&tcp->regions, &to, copy, count);
    leave_both(tcp);
    free(former);
}

static void tcp_post(gw_transport *transport, const gw_op *op) {
    tcp_transport *tcp = tcp_of(transport);
    size_t payload = op->kind == GW_OP_WRITE ? op->bytes : 0;
    gw_posted *posted = calloc(1, sizeof *posted + payload);
    if (posted == NULL) {
        gw_completion completion = {op->token, op->peer, op->kind, GW_OP_UNREACHABLE, 0};
        tcp->events.completed(tcp->events.context, &completion);
        return;
    }
    posted->op = *op;
    if (payload > 0) memcpy(posted->payload, op->buffer, payload);
    bool large = op->kind == GW_OP_FETCH || (op->kind == GW_OP_READ && op->bytes > GW_SMALL_BYTES);
    gw_onesided_post(large ? tcp->bulk : tcp->words, posted);
}

static void tcp_abandon(gw_transport *transport, const gw_peer_id *peer) {
    tcp_transport *tcp = tcp_of(transport);
    gw_onesided_abandon(tcp->words, peer);
    gw_onesided_abandon(tcp->bulk, peer);
}

static void tcp_spin(gw_transport *transport, bool spin) {
    gw_tcp_lane_spin(tcp_of(transport)->lanes[STREAM_WORDS], spin);
}

static void on_answered(void *context, gw_lookup *lookup) {
    tcp_transport *tcp = context;
    gw_onesided_answered(tcp->bulk, lookup);
}

/* ---- lanes ---- */

static gw_tcp_lane *lane_of(gw_transport *transport, uint32_t lane) {
    tcp_transport *tcp = tcp_of(transport);
    GW_CHECK(lane < tcp->streams - FIRST_LANE);
    return tcp->lanes[FIRST_LANE + lane];
}

static uint32_t tcp_lanes(const gw_transport *transport) {
    return ((const tcp_transport *)transport)->streams - FIRST_LANE;
}

static void tcp_lane_use(gw_transport *transport, const gw_lane_user *user) {
    for (uint32_t i = 0; i < tcp_lanes(transport); i++) {
        gw_tcp_lane *lane = lane_of(transport, i);
        gw_tcp_lane_enter(lane);
        gw_tcp_lane_use(lane, user);
        gw_tcp_lane_leave(lane);
    }
}

static void tcp_lane_wake(gw_transport *transport, uint32_t lane) {
    gw_tcp_lane_wake(lane_of(transport, lane));
}

static void tcp_lane_refresh(gw_transport *transport, uint32_t lane) {
    gw_tcp_lane_refresh(lane_of(transport, lane));
}

static void tcp_lane_push(gw_transport *transport, gw_lane_peer *peer) {
    gw_tcp_lane_push(lane_of(transport, peer->lane), peer);
}

static void tcp_lane_resume(gw_transport *transport, gw_lane_peer *peer) {
    gw_tcp_lane_resume(lane_of(transport, peer->lane), peer);
}

static bool tcp_lane_release(gw_transport *transport, gw_lane_peer *peer) {
    return gw_tcp_lane_release(lane_of(transport, peer->lane), peer);
}

static void tcp_lane_alarm(gw_transport *transport, uint32_t lane, uint64_t at_ns) {
    gw_tcp_lane_alarm(lane_of(transport, lane), at_ns);
}

static void tcp_lane_refuse(gw_transport *transport, gw_lane_peer *peer, const gw_err *why) {
    gw_tcp_lane_refuse(lane_of(transport, peer->lane), peer, why);
}

/* ---- life ---- */

static void tcp_close(gw_transport *transport) {
    tcp_transport *tcp = tcp_of(transport);
    while (tcp->links != NULL) {
        gw_peer_id peer = tcp->links->peer;
        tcp_unlink(transport, &peer);
    }
    for (uint32_t i = 0; i < tcp->streams; i++)
        if (tcp->lanes[i] != NULL) gw_tcp_lane_stop(tcp->lanes[i]);
    if (tcp->provider != NULL) gw_provider_close(tcp->provider);
    if (tcp->words != NULL) gw_onesided_close(tcp->words);
    if (tcp->bulk != NULL) gw_onesided_close(tcp->bulk);
    for (uint32_t i = 0; i < tcp->streams; i++)
        if (tcp->lanes[i] != NULL) gw_tcp_lane_close(tcp->lanes[i]);
    free(tcp->regions.members);
    pthread_mutex_destroy(&tcp->change_lock);
    pthread_mutex_destroy(&tcp->links_lock);
    free(tcp);
}

uint32_t gw_tcp_streams(const gw_transport *transport) {
    return ((const tcp_transport *)transport)->streams;
}

static const gw_transport_ops tcp_ops = {
    .add_region = tcp_add_region,
    .remove_region = tcp_remove_region,
    .fence = tcp_fence,
    .post = tcp_post,
    .abandon = tcp_abandon,
    .unlink = tcp_unlink,
    .spin = tcp_spin,
    .close = tcp_close,
    .lanes = tcp_lanes,
    .lane_use = tcp_lane_use,
    .lane_wake = tcp_lane_wake,
    .lane_refresh = tcp_lane_refresh,
    .lane_push = tcp_lane_push,
    .lane_resume = tcp_lane_resume,
    .lane_release = tcp_lane_release,
    .lane_alarm = tcp_lane_alarm,
    .lane_refuse = tcp_lane_refuse,
};

bool gw_tcp_open(const gw_tcp_options *options, gw_transport **transport, gw_err *err) {
    if (options->lanes < 1 || options->lanes > GW_TCP_LANES)
        return gw_fail(err, GW_E_USAGE, "net/tcp: a link has 1 to %d lanes, not %u", GW_TCP_LANES,
                       options->lanes);
    tcp_transport *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL) return gw_fail(err, GW_E_NOMEM, "net/tcp: no memory for a transport");
    tcp->base.ops = &tcp_ops;
    tcp->events = options->events;
    tcp->streams = FIRST_LANE + options->lanes;
    pthread_mutex_init(&tcp->change_lock, NULL);
    pthread_mutex_init(&tcp->links_lock, NULL);
    bool done = true;
    for (uint32_t i = 0; i < tcp->streams && done; i++) {
        uint32_t number = i < FIRST_LANE ? i : i - FIRST_LANE;
        uint32_t payload_most = i == STREAM_WORDS  ? GW_SMALL_BYTES
                                : i == STREAM_BULK ? GW_PIECE_BYTES
                                                   : GW_LANE_PAYLOAD;
        tcp->lanes[i] = gw_tcp_lane_open(number, payload_most, on_broken, tcp, err);
        done = tcp->lanes[i] != NULL;
    }
    if (done) tcp->provider = gw_provider_open(&options->provider, on_answered, tcp, err);
    if (tcp->provider != NULL)
        tcp->words = gw_onesided_open(tcp->lanes[STREAM_WORDS], GW_ASKER_WINDOW, GW_SMALL_BYTES,
                                      &tcp->regions, tcp->provider, &tcp->events, err);
    if (tcp->words != NULL)
        tcp->bulk = gw_onesided_open(tcp->lanes[STREAM_BULK], BULK_WINDOW, GW_PIECE_BYTES, &tcp->regions,
                                     tcp->provider, &tcp->events, err);
    if (tcp->bulk == NULL) {
        tcp_close(&tcp->base);
        return false;
    }
    *transport = &tcp->base;
    return true;
}
