#include "net/fabric.h"

#include "core/check.h"
#include "core/log.h"
#include "net/onesided.h"
#include "net/tcp_channel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STREAM_WORDS = 0,
    STREAM_BULK = 1,
    FIRST_LANE = 2,
    STREAMS = FIRST_LANE + GW_FABRIC_LANES,
    BULK_WINDOW = 8, /* pieces in flight: 2 MiB cover 10 Gbit/s at 1.6 ms */
};

/* A peer's link, or the streams of one to be. */
typedef struct peer_links {
    struct peer_links *next;
    gw_peer_id peer;
    gw_data_link *link; /* stands, or NULL */
    uint64_t attempt;   /* that `waiting` belong to */
    bool dialled;       /* by us: attempts of both sides are told apart */
    uint32_t waiting_count;
    gw_detached waiting[STREAMS]; /* fd -1: not in yet */
} peer_links;

typedef struct fabric {
    gw_transport base; /* first */
    gw_transport_events events;
    uint32_t streams;
    gw_lane_thread *lanes[STREAMS]; /* by stream number */
    gw_onesided *words, *bulk;
    gw_provider *provider;
    gw_regions regions;          /* changed inside the gates of both one-sided lanes */
    pthread_mutex_t change_lock; /* one change of regions or fence at a time */
    pthread_mutex_t links_lock;
    peer_links *links;
    uint64_t link_numbers;
} fabric;

static fabric *fabric_of(gw_transport *transport) {
    return (fabric *)transport;
}

/* What its users call the lane of a stream. */
static uint32_t lane_number(uint32_t stream) {
    return stream < FIRST_LANE ? stream : stream - FIRST_LANE;
}

static uint32_t payload_most(uint32_t stream) {
    if (stream == STREAM_WORDS) return GW_SMALL_BYTES;
    return stream == STREAM_BULK ? GW_PIECE_BYTES : GW_LANE_PAYLOAD;
}

/* ---- links ---- */

static void wake_all(fabric *f) {
    for (uint32_t i = 0; i < f->streams; i++) gw_lane_thread_wake(f->lanes[i]);
}

static peer_links *find_links(fabric *f, const gw_peer_id *peer) {
    for (peer_links *l = f->links; l != NULL; l = l->next)
        if (gw_peer_id_equal(&l->peer, peer)) return l;
    return NULL;
}

static void drop_waiting(peer_links *links) {
    for (uint32_t i = 0; i < STREAMS; i++)
        if (links->waiting[i].fd >= 0) gw_detached_close(&links->waiting[i]);
    links->waiting_count = 0;
}

/* Takes the link away from its peer; the lanes must be woken. */
static void end_link(peer_links *links) {
    if (links->link == NULL) return;
    atomic_store(&links->link->ended, true);
    gw_data_link_forget(links->link);
    links->link = NULL;
}

static void on_broken(void *context, gw_data_link *link, const gw_err *why) {
    fabric *f = context;
    pthread_mutex_lock(&f->links_lock);
    peer_links *links = find_links(f, &link->peer);
    /* Not the first: another stream of it broke earlier, or it was ended on purpose. */
    if (links != NULL && links->link == link) {
        end_link(links);
        wake_all(f);
        if (f->events.link_down != NULL)
            f->events.link_down(f->events.context, &link->peer, link->number, why);
    }
    pthread_mutex_unlock(&f->links_lock);
}

uint64_t gw_fabric_stream_word(uint64_t attempt, uint32_t number, uint32_t streams) {
    GW_CHECK(attempt < (uint64_t)1 << 48 && number < streams && streams <= STREAMS);
    return attempt << 16 | (uint64_t)streams << 8 | number;
}

static peer_links *links_for(fabric *f, const gw_peer_id *peer) {
    peer_links *links = find_links(f, peer);
    if (links != NULL) return links;
    links = calloc(1, sizeof *links);
    if (links == NULL) return NULL;
    links->peer = *peer;
    for (uint32_t i = 0; i < STREAMS; i++) links->waiting[i].fd = -1;
    links->next = f->links;
    f->links = links;
    return links;
}

/* All streams are in: makes them a link. */
static bool establish(fabric *f, peer_links *links, gw_err *err) {
    gw_data_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        drop_waiting(links);
        return gw_fail(err, GW_E_NOMEM, "net/fabric: no memory for a link");
    }
    link->peer = links->peer;
    link->number = ++f->link_numbers;
    atomic_init(&link->references, 1);
    end_link(links);
    wake_all(f); /* the older link goes down before the new one comes up */
    links->link = link;
    bool done = true;
    for (uint32_t i = 0; i < f->streams && done; i++) {
        gw_channel *channel =
            gw_tcp_channel_open(&links->waiting[i], lane_number(i), link->number, payload_most(i), err);
        done = channel != NULL && gw_lane_thread_add(f->lanes[i], channel, link, err);
    }
    drop_waiting(links);
    if (!done) {
        end_link(links);
        wake_all(f);
    } else if (f->events.link_up != NULL) {
        f->events.link_up(f->events.context, &link->peer, link->number);
    }
    return done;
}

static bool check_word(const fabric *f, const gw_detached *stream, gw_err *err) {
    uint64_t word = stream->remote.word;
    uint32_t number = word & 0xff, streams = word >> 8 & 0xff;
    char id[GW_SHORT_TEXT];
    gw_peer_id_short(&stream->remote.id, id);
    if (stream->remote.kind != GW_STREAM_DATA)
        return gw_fail(err, GW_E_PEER, "net/fabric: the stream from %s is not for data", id);
    if (streams != f->streams)
        return gw_fail(err, GW_E_PEER, "net/fabric: peer %s uses %u data streams a link, this one %u", id,
                       streams, f->streams);
    if (number >= streams)
        return gw_fail(err, GW_E_PEER, "net/fabric: peer %s opened stream %u of %u", id, number, streams);
    return true;
}

bool gw_fabric_adopt(gw_transport *transport, gw_detached *stream, gw_err *err) {
    fabric *f = fabric_of(transport);
    if (!check_word(f, stream, err)) {
        gw_detached_close(stream);
        return false;
    }
    uint64_t attempt = stream->remote.word >> 16;
    uint32_t place = stream->remote.word & 0xff;
    gw_peer_id peer = stream->remote.id;
    bool dialled = stream->remote.dialled;
    pthread_mutex_lock(&f->links_lock);
    peer_links *links = links_for(f, &peer);
    if (links == NULL) {
        pthread_mutex_unlock(&f->links_lock);
        gw_detached_close(stream);
        return gw_fail(err, GW_E_NOMEM, "net/fabric: no memory for a peer");
    }
    if (links->waiting_count > 0 && (links->attempt != attempt || links->dialled != dialled))
        drop_waiting(links);
    links->attempt = attempt;
    links->dialled = dialled;
    if (links->waiting[place].fd >= 0)
        gw_detached_close(&links->waiting[place]);
    else
        links->waiting_count++;
    links->waiting[place] = *stream;
    *stream = (gw_detached){.fd = -1};
    bool done = links->waiting_count < f->streams || establish(f, links, err);
    pthread_mutex_unlock(&f->links_lock);
    return done;
}

static void fabric_unlink(gw_transport *transport, const gw_peer_id *peer) {
    fabric *f = fabric_of(transport);
    pthread_mutex_lock(&f->links_lock);
    peer_links **at = &f->links;
    while (*at != NULL && !gw_peer_id_equal(&(*at)->peer, peer)) at = &(*at)->next;
    peer_links *links = *at;
    if (links != NULL) {
        *at = links->next;
        end_link(links);
        drop_waiting(links);
        free(links);
    }
    pthread_mutex_unlock(&f->links_lock);
    wake_all(f);
}

/* ---- one-sided operations ---- */

static void enter_both(fabric *f) {
    pthread_mutex_lock(&f->change_lock);
    gw_lane_thread_enter(f->lanes[STREAM_WORDS]);
    gw_lane_thread_enter(f->lanes[STREAM_BULK]);
}

static void leave_both(fabric *f) {
    gw_lane_thread_leave(f->lanes[STREAM_BULK]);
    gw_lane_thread_leave(f->lanes[STREAM_WORDS]);
    pthread_mutex_unlock(&f->change_lock);
}

static bool fabric_add_region(gw_transport *transport, uint32_t region, const void *memory, uint64_t bytes,
                              gw_err *err) {
    fabric *f = fabric_of(transport);
    enter_both(f);
    bool done = gw_regions_add(&f->regions, region, memory, bytes, err);
    leave_both(f);
    return done;
}

static bool fabric_share_words(gw_transport *transport, uint32_t region, uint64_t count, gw_err *err) {
    fabric *f = fabric_of(transport);
    enter_both(f);
    bool done = gw_regions_share(&f->regions, region, count, err);
    leave_both(f);
    return done;
}

static uint64_t fabric_word(gw_transport *transport, gw_word_do what, uint32_t region, uint64_t index,
                            uint64_t expected, uint64_t operand) {
    gw_words *words = fabric_of(transport)->regions.words;
    uint64_t offset, bytes;
    GW_CHECK(gw_words_find(words, region, &offset, &bytes) && index < bytes / 8);
    return gw_words_do(words, what, offset + 8 * index, expected, operand);
}

static void fabric_remove_region(gw_transport *transport, uint32_t region) {
    fabric *f = fabric_of(transport);
    enter_both(f);
    gw_regions_remove(&f->regions, region);
    leave_both(f);
}

static void fabric_fence(gw_transport *transport, const gw_fence *fence, const gw_peer_id *members,
                         uint32_t count) {
    fabric *f = fabric_of(transport);
    gw_fence to = fence != NULL ? *fence : (gw_fence){0};
    gw_peer_id *copy = count > 0 ? malloc(count * sizeof *copy) : NULL;
    if (count > 0 && copy == NULL) {
        /* Nothing is served rather than the wrong view: thieves are turned away, correctness stays. */
        gw_log(GW_ERROR, "net/fabric", "no memory for the fence's %u members: serving nobody", count);
        to = (gw_fence){0};
        count = 0;
    }
    if (count > 0) memcpy(copy, members, count * sizeof *copy);
    enter_both(f);
    gw_peer_id *former = gw_regions_fence(&f->regions, &to, copy, count);
    leave_both(f);
    free(former);
}

static void fabric_post(gw_transport *transport, const gw_op *op) {
    fabric *f = fabric_of(transport);
    size_t payload = op->kind == GW_OP_WRITE ? op->bytes : 0;
    gw_posted *posted = calloc(1, sizeof *posted + payload);
    if (posted == NULL) {
        gw_completion completion = {op->token, op->peer, op->kind, GW_OP_UNREACHABLE, 0};
        f->events.completed(f->events.context, &completion);
        return;
    }
    posted->op = *op;
    if (payload > 0) memcpy(posted->payload, op->buffer, payload);
    bool large = op->kind == GW_OP_FETCH || (op->kind == GW_OP_READ && op->bytes > GW_SMALL_BYTES);
    gw_onesided_post(large ? f->bulk : f->words, posted);
}

static void fabric_abandon(gw_transport *transport, const gw_peer_id *peer) {
    fabric *f = fabric_of(transport);
    gw_onesided_abandon(f->words, peer);
    gw_onesided_abandon(f->bulk, peer);
}

static void fabric_spin(gw_transport *transport, bool spin) {
    gw_lane_thread_spin(fabric_of(transport)->lanes[STREAM_WORDS], spin);
}

static void on_answered(void *context, gw_lookup *lookup) {
    fabric *f = context;
    gw_onesided_answered(f->bulk, lookup);
}

/* ---- lanes ---- */

static gw_lane_thread *lane_of(gw_transport *transport, uint32_t lane) {
    fabric *f = fabric_of(transport);
    GW_CHECK(lane < f->streams - FIRST_LANE);
    return f->lanes[FIRST_LANE + lane];
}

static uint32_t fabric_lanes(const gw_transport *transport) {
    return ((const fabric *)transport)->streams - FIRST_LANE;
}

static void fabric_lane_use(gw_transport *transport, const gw_lane_user *user) {
    for (uint32_t i = 0; i < fabric_lanes(transport); i++) {
        gw_lane_thread *lane = lane_of(transport, i);
        gw_lane_thread_enter(lane);
        gw_lane_thread_use(lane, user);
        gw_lane_thread_leave(lane);
    }
}

static void fabric_lane_wake(gw_transport *transport, uint32_t lane) {
    gw_lane_thread_wake(lane_of(transport, lane));
}

static void fabric_lane_refresh(gw_transport *transport, uint32_t lane) {
    gw_lane_thread_refresh(lane_of(transport, lane));
}

static void fabric_lane_push(gw_transport *transport, gw_lane_peer *peer) {
    gw_lane_thread_push(lane_of(transport, peer->lane), peer);
}

static void fabric_lane_resume(gw_transport *transport, gw_lane_peer *peer) {
    gw_lane_thread_resume(lane_of(transport, peer->lane), peer);
}

static bool fabric_lane_release(gw_transport *transport, gw_lane_peer *peer) {
    return gw_lane_thread_release(lane_of(transport, peer->lane), peer);
}

static void fabric_lane_alarm(gw_transport *transport, uint32_t lane, uint64_t at_ns) {
    gw_lane_thread_alarm(lane_of(transport, lane), at_ns);
}

static void fabric_lane_refuse(gw_transport *transport, gw_lane_peer *peer, const gw_err *why) {
    gw_lane_thread_refuse(lane_of(transport, peer->lane), peer, why);
}

/* ---- life ---- */

static void fabric_close(gw_transport *transport) {
    fabric *f = fabric_of(transport);
    while (f->links != NULL) {
        gw_peer_id peer = f->links->peer;
        fabric_unlink(transport, &peer);
    }
    for (uint32_t i = 0; i < f->streams; i++)
        if (f->lanes[i] != NULL) gw_lane_thread_stop(f->lanes[i]);
    if (f->provider != NULL) gw_provider_close(f->provider);
    if (f->words != NULL) gw_onesided_close(f->words);
    if (f->bulk != NULL) gw_onesided_close(f->bulk);
    for (uint32_t i = 0; i < f->streams; i++)
        if (f->lanes[i] != NULL) gw_lane_thread_close(f->lanes[i]);
    free(f->regions.members);
    if (f->regions.words != NULL) gw_words_close(f->regions.words);
    pthread_mutex_destroy(&f->change_lock);
    pthread_mutex_destroy(&f->links_lock);
    free(f);
}

uint32_t gw_fabric_streams(const gw_transport *transport) {
    return ((const fabric *)transport)->streams;
}

static const gw_transport_ops fabric_ops = {
    .add_region = fabric_add_region,
    .remove_region = fabric_remove_region,
    .share_words = fabric_share_words,
    .word = fabric_word,
    .fence = fabric_fence,
    .post = fabric_post,
    .abandon = fabric_abandon,
    .unlink = fabric_unlink,
    .spin = fabric_spin,
    .close = fabric_close,
    .lanes = fabric_lanes,
    .lane_use = fabric_lane_use,
    .lane_wake = fabric_lane_wake,
    .lane_refresh = fabric_lane_refresh,
    .lane_push = fabric_lane_push,
    .lane_resume = fabric_lane_resume,
    .lane_release = fabric_lane_release,
    .lane_alarm = fabric_lane_alarm,
    .lane_refuse = fabric_lane_refuse,
};

bool gw_fabric_open(const gw_fabric_options *options, gw_transport **transport, gw_err *err) {
    if (options->lanes < 1 || options->lanes > GW_FABRIC_LANES)
        return gw_fail(err, GW_E_USAGE, "net/fabric: a link has 1 to %d lanes, not %u", GW_FABRIC_LANES,
                       options->lanes);
    fabric *f = calloc(1, sizeof *f);
    if (f == NULL) return gw_fail(err, GW_E_NOMEM, "net/fabric: no memory for a transport");
    f->base.ops = &fabric_ops;
    f->events = options->events;
    f->streams = FIRST_LANE + options->lanes;
    pthread_mutex_init(&f->change_lock, NULL);
    pthread_mutex_init(&f->links_lock, NULL);
    f->regions.words = gw_words_open(err);
    bool done = f->regions.words != NULL;
    for (uint32_t i = 0; i < f->streams && done; i++) {
        f->lanes[i] = gw_lane_thread_open(lane_number(i), on_broken, f, err);
        done = f->lanes[i] != NULL;
    }
    if (done) f->provider = gw_provider_open(&options->provider, on_answered, f, err);
    if (f->provider != NULL)
        f->words = gw_onesided_open(f->lanes[STREAM_WORDS], GW_ASKER_WINDOW, GW_SMALL_BYTES, &f->regions,
                                    f->provider, &f->events, err);
    if (f->words != NULL)
        f->bulk = gw_onesided_open(f->lanes[STREAM_BULK], BULK_WINDOW, GW_PIECE_BYTES, &f->regions,
                                   f->provider, &f->events, err);
    if (f->bulk == NULL) {
        fabric_close(&f->base);
        return false;
    }
    *transport = &f->base;
    return true;
}
