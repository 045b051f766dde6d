#include "tests/net/conformance/sim_fabric.h"

#include "core/base/assert.h"
#include "net/data/rail.h"
#include "net/onesided/requester.h"
#include "net/onesided/server.h"
#include "net/rail/channel.h"
#include "tools/sim/engine/network.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WORDS_STREAM = 0,
    BULK_STREAM = 1,
    FIRST_RAIL = 2,
    STREAMS = FIRST_RAIL + SIM_NET_RAILS,
    BYTES_A_NS = 4, /* the speed of the links */
    PATIENCE_S = 60,
};

typedef struct sim_fabric sim_fabric;

/* A message that has arrived and waits for its user. */
typedef struct parcel {
    struct parcel *next;
    uint32_t bytes;
    uint8_t header[GW_RAIL_HEADER];
    _Alignas(64) uint8_t payload[];
} parcel;

/* One side of a stream of a link. */
typedef struct end {
    gw_rail_peer peer;       /* the first field; used on rails */
    gw_requester *requester; /* used on the other streams */
    gw_server *server;
    bool parked, pumping; /* pumping: an event for this side is due */
    uint64_t arrival_ns;  /* when the last message under way to this side arrives */
    parcel *first, **last;
} end;

/* One side of a link. */
typedef struct side {
    uint64_t link; /* 0: none */
    end ends[STREAMS];
} side;

struct sim_fabric {
    gw_transport base; /* first */
    sim_net *net;
    uint32_t number;
    gw_peer_id id;
    gw_transport_events events;
    gw_provider *provider;
    gw_regions regions;
    gw_rail_user user;
    bool used;
    side sides[SIM_NET_PEERS];
    gw_posted *posted, **posted_last;
    gw_lookup *answered;
    uint64_t served;
};

struct sim_net {
    pthread_mutex_t lock; /* recursive, since handlers call transports */
    pthread_cond_t changed;
    uint32_t streams;
    gw_sim_engine *engine;
    gw_sim_network network;
    sim_fabric *peers[SIM_NET_PEERS];
    uint64_t links;
};

static sim_fabric *fabric_of(gw_transport *transport) {
    return (sim_fabric *)transport;
}

static sim_net *enter(gw_transport *transport) {
    sim_net *net = fabric_of(transport)->net;
    pthread_mutex_lock(&net->lock);
    return net;
}

static void leave(sim_net *net) {
    pthread_mutex_unlock(&net->lock);
}

/* Events: a = peer, b = other peer << 8 | stream, c = link. */

static void schedule(sim_net *net, uint64_t at_ns, void (*run)(void *, const gw_sim_event *), uint64_t a,
                     uint64_t b, uint64_t c) {
    gw_sim_event event = {.run = run, .context = net, .a = a, .b = b, .c = c};
    gw_sim_schedule(net->engine, at_ns, &event);
    pthread_cond_broadcast(&net->changed);
}

/* The side of a stream that an event is for; NULL if its link is gone. */
static end *end_of(sim_net *net, const gw_sim_event *event, sim_fabric **fabric, uint32_t *stream) {
    sim_fabric *f = net->peers[event->a];
    side *s = f != NULL ? &f->sides[event->b >> 8] : NULL;
    *fabric = f;
    *stream = event->b & 0xff;
    return s != NULL && s->link == event->c ? &s->ends[*stream] : NULL;
}

static void on_pump(void *context, const gw_sim_event *event);
static void on_down(void *context, const gw_sim_event *event);

static void pump_soon(sim_fabric *f, uint32_t other, uint32_t stream) {
    side *s = &f->sides[other];
    if (s->link == 0 || s->ends[stream].pumping) return;
    s->ends[stream].pumping = true;
    schedule(f->net, gw_sim_now(f->net->engine), on_pump, f->number, other << 8 | stream, s->link);
}

static void break_soon(sim_fabric *f, uint32_t other) {
    uint64_t link = f->sides[other].link;
    sim_net *net = f->net;
    uint64_t at = gw_sim_now(net->engine) + gw_sim_network_delay_ns(&net->network);
    schedule(net, at, on_down, f->number, other << 8, link);
    schedule(net, at, on_down, other, f->number << 8, link);
}

/* Messages. */

static void on_arrival(void *context, const gw_sim_event *event);

static void send_message(sim_fabric *f, uint32_t other, uint32_t stream, const uint8_t header[GW_RAIL_HEADER],
                         const struct iovec *parts, uint32_t part_count, uint32_t bytes) {
    sim_net *net = f->net;
    side *to = &net->peers[other]->sides[f->number];
    uint8_t *copy = malloc(GW_RAIL_HEADER + bytes), *at = copy + GW_RAIL_HEADER;
    memcpy(copy, header, GW_RAIL_HEADER);
    for (uint32_t i = 0; i < part_count; at += parts[i++].iov_len)
        if (parts[i].iov_len > 0) memcpy(at, parts[i].iov_base, parts[i].iov_len);
    GW_ASSERT(at == copy + GW_RAIL_HEADER + bytes);
    uint64_t arrival = gw_sim_now(net->engine) + gw_sim_network_delay_ns(&net->network);
    if (arrival < to->ends[stream].arrival_ns) arrival = to->ends[stream].arrival_ns;
    to->ends[stream].arrival_ns = arrival + bytes / BYTES_A_NS + 1;
    gw_sim_event event = {.run = on_arrival,
                          .context = net,
                          .a = other,
                          .b = f->number << 8 | stream,
                          .c = f->sides[other].link,
                          .bytes = copy,
                          .length = GW_RAIL_HEADER + bytes};
    gw_sim_schedule(net->engine, to->ends[stream].arrival_ns, &event);
    pthread_cond_broadcast(&net->changed);
    free(copy);
}

/* Small and large operations. */

static void pump_operations(sim_fabric *f, uint32_t other, uint32_t stream) {
    const end *e = &f->sides[other].ends[stream];
    uint8_t header[GW_RAIL_HEADER];
    struct iovec payload;
    gw_request request;
    gw_reply reply;
    for (bool more = true; more;) {
        more = false;
        if (gw_requester_next(e->requester, &request, &payload)) {
            gw_request_encode(&request, header);
            send_message(f, other, stream, header, &payload, 1, (uint32_t)payload.iov_len);
            more = true;
        }
        if (gw_server_next(e->server, &reply, &payload)) {
            gw_reply_encode(&reply, header);
            send_message(f, other, stream, header, &payload, 1, (uint32_t)payload.iov_len);
            gw_server_sent(e->server);
            more = true;
        }
    }
}

/* False if the message breaks the protocol. */
static bool take_operation(sim_fabric *f, const end *e, const parcel *p) {
    gw_request request;
    gw_reply reply;
    struct iovec place;
    gw_header_type type = gw_header_decode(p->header, &request, &reply);
    if (type == GW_HEADER_REQUEST) {
        f->served++;
        return gw_server_take(e->server, &request, p->payload, p->bytes);
    }
    if (type != GW_HEADER_REPLY) return false;
    gw_arrival arrival = gw_requester_place(e->requester, &reply, p->bytes, &place);
    if (arrival != GW_ARRIVAL_LAND) return arrival == GW_ARRIVAL_DROP;
    if (p->bytes > 0) memcpy(place.iov_base, p->payload, p->bytes);
    gw_requester_landed(e->requester);
    return true;
}

/* Rails. */

static void pump_rail(sim_fabric *f, uint32_t other, uint32_t stream) {
    end *e = &f->sides[other].ends[stream];
    gw_rail_message message;
    while (f->used && f->user.next(f->user.context, &e->peer, &message)) {
        send_message(f, other, stream, message.header, message.parts, message.part_count, message.bytes);
        f->user.sent(f->user.context, &e->peer);
    }
}

static bool take_message(sim_fabric *f, end *e, parcel *p) {
    gw_rail_message message = {.bytes = p->bytes};
    memcpy(message.header, p->header, GW_RAIL_HEADER);
    if (!f->used) return true;
    switch (f->user.arrive(f->user.context, &e->peer, &message)) {
    case GW_ARRIVAL_PARK:
        e->parked = true;
        return true;
    case GW_ARRIVAL_DROP:
        return true;
    case GW_ARRIVAL_REFUSE:
        return false;
    case GW_ARRIVAL_LAND:
        break;
    }
    if (message.fold && f->user.fold != NULL && p->bytes > 0) {
        f->user.fold(f->user.context, &e->peer, 0, p->payload, p->bytes);
    } else {
        gw_cursor places = gw_cursor_on(&message);
        gw_cursor_copy(&places, p->payload, p->bytes, false);
    }
    f->user.landed(f->user.context, &e->peer);
    return true;
}

static void use_parcels(sim_fabric *f, uint32_t other, uint32_t stream) {
    side *s = &f->sides[other];
    end *e = &s->ends[stream];
    uint64_t link = s->link;
    while (s->link == link && e->first != NULL && !e->parked) {
        parcel *p = e->first;
        bool good = stream < FIRST_RAIL ? take_operation(f, e, p) : take_message(f, e, p);
        if (e->parked) return;
        e->first = p->next;
        if (e->first == NULL) e->last = &e->first;
        free(p);
        if (!good) break_soon(f, other);
    }
}

static void on_pump(void *context, const gw_sim_event *event) {
    sim_fabric *f;
    uint32_t stream, other = (uint32_t)(event->b >> 8);
    end *e = end_of(context, event, &f, &stream);
    if (e == NULL) return;
    e->pumping = false;
    use_parcels(f, other, stream);
    if (f->sides[other].link != event->c || f->net->peers[other] == NULL) return;
    if (f->net->peers[other]->sides[f->number].link != event->c) return; /* the other side is gone */
    if (stream < FIRST_RAIL)
        pump_operations(f, other, stream);
    else
        pump_rail(f, other, stream);
}

static void on_arrival(void *context, const gw_sim_event *event) {
    sim_fabric *f;
    uint32_t stream;
    end *e = end_of(context, event, &f, &stream);
    if (e == NULL) return;
    uint32_t bytes = (uint32_t)(event->length - GW_RAIL_HEADER);
    parcel *p = aligned_alloc(64, (sizeof *p + bytes + 63) / 64 * 64);
    p->next = NULL;
    p->bytes = bytes;
    memcpy(p->header, event->bytes, GW_RAIL_HEADER);
    memcpy(p->payload, event->bytes + GW_RAIL_HEADER, bytes);
    *e->last = p;
    e->last = &p->next;
    pump_soon(f, (uint32_t)(event->b >> 8), stream);
}

/* Links. */

static void open_side(sim_fabric *f, uint32_t other, uint64_t link) {
    side *s = &f->sides[other];
    const gw_peer_id *id = &f->net->peers[other]->id;
    *s = (side){.link = link};
    for (uint32_t i = 0; i < f->net->streams; i++) {
        end *e = &s->ends[i];
        e->last = &e->first;
        e->peer = (gw_rail_peer){.id = *id, .rail = i - FIRST_RAIL, .link = link};
        if (i >= FIRST_RAIL) {
            if (f->used) f->user.up(f->user.context, &e->peer);
            continue;
        }
        e->requester = gw_requester_open(i == BULK_STREAM ? 8 : GW_REQUESTER_WINDOW, &f->events);
        e->server =
            gw_server_open(id, (uint64_t)other << 32 | link, GW_PIECE_BYTES, &f->regions, f->provider);
        GW_ASSERT(e->requester != NULL && e->server != NULL);
    }
    f->events.link_up(f->events.context, id, link, GW_PATH_TCP);
}

static void close_side(sim_fabric *f, uint32_t other) {
    side *s = &f->sides[other];
    if (s->link == 0) return;
    s->link = 0; /* handlers find no link from here on */
    for (uint32_t i = 0; i < f->net->streams; i++) {
        end *e = &s->ends[i];
        while (e->first != NULL) {
            parcel *p = e->first;
            e->first = p->next;
            free(p);
        }
        if (i < FIRST_RAIL) {
            gw_requester_close(e->requester);
            gw_server_close(e->server);
        } else if (f->used) {
            f->user.down(f->user.context, &e->peer);
        }
    }
}

static void on_down(void *context, const gw_sim_event *event) {
    sim_fabric *f;
    uint32_t stream, other = (uint32_t)(event->b >> 8);
    gw_err why;
    if (end_of(context, event, &f, &stream) == NULL) return;
    gw_peer_id id = f->sides[other].ends[FIRST_RAIL].peer.id;
    close_side(f, other);
    gw_fail(&why, GW_E_PEER, "tests/sim_fabric: the link broke");
    f->events.link_down(f->events.context, &id, event->c, &why);
}

void sim_net_link(sim_net *net, uint32_t a, uint32_t b) {
    pthread_mutex_lock(&net->lock);
    uint64_t link = ++net->links;
    close_side(net->peers[a], b);
    close_side(net->peers[b], a);
    open_side(net->peers[a], b, link);
    open_side(net->peers[b], a, link);
    pthread_mutex_unlock(&net->lock);
}

static void unlink_one(sim_fabric *f, uint32_t other) {
    if (f->sides[other].link == 0) return;
    break_soon(f, other);
    close_side(f, other);
}

static uint32_t number_of(const sim_fabric *f, const gw_peer_id *id) {
    for (uint32_t i = 0; i < SIM_NET_PEERS; i++)
        if (f->net->peers[i] != NULL && gw_peer_id_equal(&f->net->peers[i]->id, id)) return i;
    return SIM_NET_PEERS;
}

static void sim_unlink(gw_transport *transport, const gw_peer_id *peer) {
    sim_net *net = enter(transport);
    uint32_t other = number_of(fabric_of(transport), peer);
    if (other < SIM_NET_PEERS) unlink_one(fabric_of(transport), other);
    leave(net);
}

/* Operations. */

static void take_inbox(sim_fabric *f) {
    gw_posted *posted = f->posted;
    gw_lookup *answered = f->answered;
    f->posted = NULL;
    f->posted_last = &f->posted;
    f->answered = NULL;
    for (gw_posted *next; posted != NULL; posted = next) {
        next = posted->next;
        uint32_t other = number_of(f, &posted->op.peer);
        bool large = posted->op.kind == GW_OP_FETCH ||
                     (posted->op.kind == GW_OP_READ && posted->op.bytes > GW_SMALL_BYTES);
        if (other < SIM_NET_PEERS && f->sides[other].link != 0) {
            gw_requester_add(f->sides[other].ends[large].requester, posted);
            pump_soon(f, other, large);
            continue;
        }
        gw_completion completion = {posted->op.token, posted->op.peer, posted->op.kind, GW_OP_UNREACHABLE, 0};
        free(posted);
        f->events.completed(f->events.context, &completion);
    }
    for (gw_lookup *next; answered != NULL; answered = next) {
        next = answered->next;
        uint32_t other = (uint32_t)(answered->channel >> 32);
        if (f->sides[other].link == (answered->channel & UINT32_MAX)) {
            gw_server_answered(f->sides[other].ends[BULK_STREAM].server, answered);
            pump_soon(f, other, BULK_STREAM);
        } else {
            gw_lookup_free(answered);
        }
    }
}

static void on_inbox(void *context, const gw_sim_event *event) {
    const sim_net *net = context;
    if (net->peers[event->a] != NULL) take_inbox(net->peers[event->a]);
}

static void inbox_soon(sim_fabric *f) {
    schedule(f->net, gw_sim_now(f->net->engine), on_inbox, f->number, 0, 0);
}

static void sim_post(gw_transport *transport, const gw_op *op) {
    sim_fabric *f = fabric_of(transport);
    sim_net *net = enter(transport);
    size_t payload = op->kind == GW_OP_WRITE ? op->bytes : 0;
    gw_posted *posted = calloc(1, sizeof *posted + payload);
    posted->op = *op;
    if (payload > 0) memcpy(posted->payload, op->buffer, payload);
    *f->posted_last = posted;
    f->posted_last = &posted->next;
    inbox_soon(f);
    leave(net);
}

static void on_answered(void *context, gw_lookup *lookup) { /* called on a thread of the provider */
    sim_fabric *f = context;
    sim_net *net = enter(&f->base);
    lookup->next = f->answered;
    f->answered = lookup;
    inbox_soon(f);
    leave(net);
}

static void sim_abandon(gw_transport *transport, const gw_peer_id *peer) {
    sim_fabric *f = fabric_of(transport);
    sim_net *net = enter(transport);
    take_inbox(f);
    for (uint32_t i = 0; i < SIM_NET_PEERS; i++) {
        side *s = &f->sides[i];
        if (s->link == 0 || (peer != NULL && number_of(f, peer) != i)) continue;
        bool words = gw_requester_abandon(s->ends[WORDS_STREAM].requester);
        if (!gw_requester_abandon(s->ends[BULK_STREAM].requester) || !words) break_soon(f, i);
    }
    leave(net);
}

/* Memory. */

static bool sim_add_region(gw_transport *transport, uint32_t region, const void *memory, uint64_t bytes,
                           gw_err *err) {
    sim_net *net = enter(transport);
    bool done = gw_regions_add(&fabric_of(transport)->regions, region, memory, bytes, err);
    leave(net);
    return done;
}

static void sim_remove_region(gw_transport *transport, uint32_t region) {
    sim_net *net = enter(transport);
    gw_regions_remove(&fabric_of(transport)->regions, region);
    leave(net);
}

static bool sim_share_words(gw_transport *transport, uint32_t region, uint64_t count, gw_err *err) {
    sim_net *net = enter(transport);
    bool done = gw_regions_share(&fabric_of(transport)->regions, region, count, err);
    leave(net);
    return done;
}

static uint64_t sim_word(gw_transport *transport, gw_word_do what, uint32_t region, uint64_t index,
                         uint64_t expected, uint64_t operand) {
    gw_words *words = fabric_of(transport)->regions.words;
    uint64_t offset, bytes;
    GW_ASSERT(gw_words_find(words, region, &offset, &bytes) && index < bytes / 8);
    return gw_words_do(words, what, offset + 8 * index, expected, operand);
}

static bool sim_fence(gw_transport *transport, const gw_fence *fence, const gw_peer_id *members,
                      uint32_t count, gw_err *err) {
    (void)err;
    sim_net *net = enter(transport);
    gw_fence to = fence != NULL ? *fence : (gw_fence){0};
    gw_peer_id *copy = count > 0 ? malloc(count * sizeof *copy) : NULL;
    if (count > 0) memcpy(copy, members, count * sizeof *copy);
    free(gw_regions_fence(&fabric_of(transport)->regions, &to, copy, count));
    leave(net);
    return true;
}

/* The operations of rails for collectives. */

static uint32_t sim_rails(const gw_transport *transport) {
    return ((const sim_fabric *)transport)->net->streams - FIRST_RAIL;
}

static void sim_rail_use(gw_transport *transport, const gw_rail_user *user) {
    sim_fabric *f = fabric_of(transport);
    sim_net *net = enter(transport);
    f->used = user != NULL;
    if (user != NULL) f->user = *user;
    for (uint32_t i = 0; i < SIM_NET_PEERS && user != NULL; i++)
        for (uint32_t k = FIRST_RAIL; k < net->streams && f->sides[i].link != 0; k++)
            f->user.up(f->user.context, &f->sides[i].ends[k].peer);
    leave(net);
}

static void on_wake(void *context, const gw_sim_event *event) {
    sim_net *net = context;
    sim_fabric *f = net->peers[event->a];
    if (f == NULL || !f->used) return;
    f->user.woken(f->user.context, (uint32_t)event->b);
}

static void sim_rail_wake(gw_transport *transport, uint32_t rail) {
    sim_net *net = enter(transport);
    schedule(net, gw_sim_now(net->engine), on_wake, fabric_of(transport)->number, rail, 0);
    leave(net);
}

static void sim_rail_refresh(gw_transport *transport, uint32_t rail) { /* links are seen at once here */
    (void)transport;
    (void)rail;
}

static uint32_t other_of(const sim_fabric *f, const gw_rail_peer *peer) {
    for (uint32_t i = 0; i < SIM_NET_PEERS; i++)
        if (f->sides[i].link != 0 && peer == &f->sides[i].ends[FIRST_RAIL + peer->rail].peer) return i;
    return SIM_NET_PEERS;
}

static void sim_rail_push(gw_transport *transport, gw_rail_peer *peer) {
    sim_net *net = enter(transport);
    uint32_t other = other_of(fabric_of(transport), peer);
    if (other < SIM_NET_PEERS) pump_soon(fabric_of(transport), other, FIRST_RAIL + peer->rail);
    leave(net);
}

static void sim_rail_resume(gw_transport *transport, gw_rail_peer *peer) {
    sim_net *net = enter(transport);
    ((end *)peer)->parked = false;
    sim_rail_push(transport, peer);
    leave(net);
}

/* Does nothing: messages are copied when they are taken, and land whole. */
static bool sim_rail_release(gw_transport *transport, gw_rail_peer *peer) {
    (void)transport;
    (void)peer;
    return true;
}

/* Does nothing: the collectives use the machine's clock, and their alarms, which are for what takes too long,
 * never come in virtual time. */
static void sim_rail_alarm(gw_transport *transport, uint32_t rail, uint64_t at_ns) {
    (void)transport;
    (void)rail;
    (void)at_ns;
}

static void sim_rail_refuse(gw_transport *transport, gw_rail_peer *peer, const gw_err *why) {
    (void)why;
    sim_net *net = enter(transport);
    uint32_t other = other_of(fabric_of(transport), peer);
    if (other < SIM_NET_PEERS) break_soon(fabric_of(transport), other);
    leave(net);
}

/* Life. */

static void sim_spin(gw_transport *transport, bool spin) {
    (void)transport;
    (void)spin;
}

static gw_transport_counts sim_count(gw_transport *transport) {
    sim_net *net = enter(transport);
    gw_transport_counts counts = {.served = fabric_of(transport)->served};
    leave(net);
    return counts;
}

static void sim_close(gw_transport *transport) {
    sim_fabric *f = fabric_of(transport);
    sim_net *net = enter(transport);
    take_inbox(f);
    for (uint32_t i = 0; i < SIM_NET_PEERS; i++) unlink_one(f, i);
    leave(net);
    gw_provider_close(f->provider); /* the provider's threads may wait for the lock */
    pthread_mutex_lock(&net->lock);
    take_inbox(f);
    net->peers[f->number] = NULL;
    gw_words_close(f->regions.words);
    free(f->regions.members);
    free(f);
    leave(net);
}

static const gw_transport_ops sim_ops = {
    .add_region = sim_add_region,
    .remove_region = sim_remove_region,
    .share_words = sim_share_words,
    .word = sim_word,
    .fence = sim_fence,
    .post = sim_post,
    .abandon = sim_abandon,
    .unlink = sim_unlink,
    .spin = sim_spin,
    .count = sim_count,
    .close = sim_close,
    .rails = sim_rails,
    .sure_rails = sim_rails,
    .rail_use = sim_rail_use,
    .rail_wake = sim_rail_wake,
    .rail_refresh = sim_rail_refresh,
    .rail_push = sim_rail_push,
    .rail_resume = sim_rail_resume,
    .rail_release = sim_rail_release,
    .rail_alarm = sim_rail_alarm,
    .rail_refuse = sim_rail_refuse,
};

gw_transport *sim_net_join(sim_net *net, uint32_t number, const gw_peer_id *id,
                           const gw_transport_events *events, const gw_fetch_provider *provider) {
    gw_err err;
    sim_fabric *f = calloc(1, sizeof *f);
    GW_ASSERT_MEMORY(f != NULL);
    GW_ASSERT(number < SIM_NET_PEERS && net->peers[number] == NULL);
    f->base.ops = &sim_ops;
    f->net = net;
    f->number = number;
    f->id = *id;
    f->events = *events;
    f->posted_last = &f->posted;
    f->regions.words = gw_words_open(&err);
    f->provider = gw_provider_open(provider, on_answered, f, &err);
    GW_ASSERT(f->regions.words != NULL && f->provider != NULL);
    pthread_mutex_lock(&net->lock);
    net->peers[number] = f;
    pthread_mutex_unlock(&net->lock);
    return &f->base;
}

sim_net *sim_net_open(uint32_t rails, uint64_t seed) {
    sim_net *net = calloc(1, sizeof *net);
    GW_ASSERT_MEMORY(net != NULL);
    GW_ASSERT(rails <= SIM_NET_RAILS);
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&net->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_cond_init(&net->changed, NULL);
    net->streams = FIRST_RAIL + rails;
    net->engine = gw_sim_engine_create(0);
    gw_sim_network_open(&net->network, net->engine, SIM_NET_PEERS, seed);
    return net;
}

void sim_net_close(sim_net *net) {
    for (uint32_t i = 0; i < SIM_NET_PEERS; i++) GW_ASSERT(net->peers[i] == NULL);
    gw_sim_network_close(&net->network);
    gw_sim_engine_destroy(net->engine);
    pthread_mutex_destroy(&net->lock);
    pthread_cond_destroy(&net->changed);
    free(net);
}

bool sim_net_step(sim_net *net, const _Atomic uint64_t *news, uint64_t seen) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&net->lock);
    bool came = atomic_load(news) != seen || gw_sim_step(net->engine, UINT64_MAX);
    if (!came) came = pthread_cond_timedwait(&net->changed, &net->lock, &until) == 0;
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->lock);
    return came;
}
