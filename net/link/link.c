#include "net/link/link.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/base/wire.h"
#include "core/os/clock.h"
#include "core/rng.h"
#include "net/loop/warning_rate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256, WIRE_VERSION = 1, OFFER = 1, TAKE = 2, NOTE_BYTES = 10 };
static const uint64_t first_pause_ns = 10000000, longest_pause_ns = 1000000000, offer_ns = GW_HANDSHAKE_NS;

typedef enum phase { DIALLING, SPARE, OFFERED, UP } phase;

typedef struct peer peer;
typedef struct connection connection;

struct connection {
    connection *next; /* the next connection of its peer */
    peer *peer;
    gw_stream *stream;
    phase phase;
    uint64_t ordinal; /* the ordinal of its offer */
    uint64_t serial;  /* unique among all connections of these links */
};

struct peer {
    peer *next; /* the next in its bucket */
    gw_links *links;
    gw_peer_id id;
    bool wanted;
    gw_addr addrs[GW_LINK_ADDRS];
    size_t addr_count;
    connection *connections;
    connection *link;    /* the one that is UP, or NULL */
    connection *offered; /* the one that is OFFERED, or NULL */
    uint64_t ordinal;    /* the last ordinal that was offered or taken: the offerer's boot << 32 | count */
    gw_timer retry, offer_deadline;
    uint64_t pause_ns, up_since_ns;
    gw_closed round_why; /* the most hopeful failure of this round of dialling so far */
    gw_fault round_fault;
    char round_text[200];
};

struct gw_links {
    gw_loop *loop;
    const gw_local *local;
    gw_link_events events;
    peer *buckets[BUCKETS];
    gw_rng rng;
    uint64_t serial; /* the serial number of the last connection */
    uint64_t offers; /* offers made so far, to all peers */
    gw_rate_limit clones;
    gw_timer heartbeat;
    uint32_t silence_most; /* in heartbeats */
    gw_timer sweep;        /* frees peers that are neither wanted nor connected, outside of any callback */
};

static void dial(peer *p);
static void pursue(peer *p);

/* Peers. */

static peer **bucket_of(gw_links *links, const gw_peer_id *id) {
    return &links->buckets[id->bytes[0] % BUCKETS];
}

static peer *find(const gw_links *links, const gw_peer_id *id) {
    peer *p = links->buckets[id->bytes[0] % BUCKETS];
    while (p != NULL && !gw_peer_id_equal(&p->id, id)) p = p->next;
    return p;
}

static peer *find_or_add(gw_links *links, const gw_peer_id *id) {
    peer *p = find(links, id);
    if (p != NULL) return p;
    p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->links = links;
    p->id = *id;
    p->pause_ns = first_pause_ns;
    p->next = *bucket_of(links, id);
    *bucket_of(links, id) = p;
    return p;
}

static void sweep(void *context) {
    gw_links *links = context;
    for (size_t i = 0; i < BUCKETS; i++)
        for (peer **at = &links->buckets[i]; *at != NULL;) {
            peer *p = *at;
            if (p->wanted || p->connections != NULL) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            gw_timer_cancel(&p->retry);
            gw_timer_cancel(&p->offer_deadline);
            free(p);
        }
}

static void sweep_soon(gw_links *links) {
    gw_err err; /* if out of memory, a later sweep frees the peer */
    (void)gw_timer_set(links->loop, &links->sweep, 0, sweep, links, &err);
}

static bool we_offer(const peer *p) {
    return gw_peer_id_compare(&p->links->local->identity->id, &p->id) > 0;
}

/* Connections. */

static void remove_connection(connection *c) {
    peer *p = c->peer;
    connection **at = &p->connections;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    if (p->link == c) p->link = NULL;
    if (p->offered == c) {
        p->offered = NULL;
        gw_timer_cancel(&p->offer_deadline);
    }
    free(c);
    if (p->connections == NULL && !p->wanted) sweep_soon(p->links);
}

static void drop(connection *c) {
    gw_stream_close(c->stream);
    remove_connection(c);
}

static void drop_all(peer *p, phase which) {
    for (connection *c = p->connections, *next; c != NULL; c = next) {
        next = c->next;
        if (c->phase == which) drop(c);
    }
}

static connection *find_serial(peer *p, uint64_t serial) {
    connection *c = p->connections;
    while (c != NULL && c->serial != serial) c = c->next;
    return c;
}

static connection *find_spare(peer *p) {
    connection *c = p->connections;
    while (c != NULL && c->phase != SPARE) c = c->next;
    return c;
}

static bool send_note(connection *c, uint8_t type) {
    uint8_t bytes[NOTE_BYTES];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_u8(&w, WIRE_VERSION);
    gw_put_u8(&w, type);
    gw_put_u64(&w, c->ordinal);
    gw_err err;
    GW_ASSERT(!w.failed && w.length == NOTE_BYTES);
    return gw_stream_send(c->stream, bytes, w.length, &err);
}

static bool read_note(const uint8_t *bytes, size_t count, uint8_t type, uint64_t *ordinal) {
    gw_reader r = gw_reader_on(bytes, count);
    uint8_t version = gw_get_u8(&r), found = gw_get_u8(&r);
    *ordinal = gw_get_u64(&r);
    return gw_reader_done(&r) && version == WIRE_VERSION && found == type;
}

/* Going up and down. */

static void go_up(connection *c) {
    peer *p = c->peer;
    GW_ASSERT(p->link == NULL && p->offered != c);
    c->phase = UP;
    p->link = c;
    p->up_since_ns = gw_now_ns();
    gw_timer_cancel(&p->retry);
    drop_all(p, DIALLING);
    if (we_offer(p)) drop_all(p, SPARE); /* closing them ends the taker's spare connections too */
    p->links->events.up(p->links->events.context, &p->id, gw_stream_remote(c->stream));
}

static void report_down(peer *p, gw_closed why, gw_fault fault, const char *text) {
    p->links->events.down(p->links->events.context, &p->id, why, fault, text);
}

/* Takes a link down that a newer connection has shown to be broken. */
static void lose_link(peer *p, const char *text) {
    if (p->link == NULL) return;
    drop(p->link);
    report_down(p, GW_CLOSED_RESET, GW_FAULT_NONE, text);
}

static void offer_expired(void *context) {
    peer *p = context;
    GW_ASSERT(p->offered != NULL);
    drop(p->offered);
    pursue(p);
}

static void offer(connection *c) {
    peer *p = c->peer;
    GW_ASSERT(p->offered == NULL && p->link == NULL && c->phase == SPARE);
    /* There is one count for all peers: a peer that this side has forgotten meanwhile remembers the ordinals
     * that it took. */
    p->ordinal = (p->links->local->identity->incarnation.boot << 32) + ++p->links->offers;
    c->ordinal = p->ordinal;
    c->phase = OFFERED;
    p->offered = c;
    gw_err err;
    gw_loop *loop = p->links->loop;
    bool going = gw_timer_set(loop, &p->offer_deadline, gw_now_ns() + offer_ns, offer_expired, p, &err);
    if (!going || !send_note(c, OFFER)) drop(c);
}

/* Takes the next step towards a link: offers a connection that is there, waits for an offer, or dials. */
static void pursue(peer *p) {
    if (p->link != NULL) return;
    for (connection *c; we_offer(p) && p->offered == NULL && (c = find_spare(p)) != NULL;) offer(c);
    if (p->wanted && p->connections == NULL && p->retry.loop == NULL) dial(p);
}

/* Dialling. */

/* How much a failed dial leaves open whether the peer lives. A round of dialling is reported by its failure
 * of the highest rank. An address that leads back to this process tells nothing about the peer (bridges of
 * containers have the same address on every host), so it counts only where there is no other address. A round
 * in which every other address refused proves that the process is gone. */
static int hope(gw_closed why, gw_fault fault) {
    if (fault == GW_FAULT_SELF) return 0;
    switch (why) {
    case GW_CLOSED_NOT:
        return -1;
    case GW_CLOSED_REFUSED:
        return 1;
    case GW_CLOSED_UNREACHABLE:
        return 2;
    case GW_CLOSED_TIMEOUT:
        return 3;
    case GW_CLOSED_PROTOCOL:
    case GW_CLOSED_CORRUPT:
        return 5;
    default:
        return 4;
    }
}

static void note_failure(peer *p, gw_closed why, gw_fault fault, const char *text) {
    if (fault == GW_FAULT_SELF) why = GW_CLOSED_UNREACHABLE;
    if (hope(why, fault) <= hope(p->round_why, p->round_fault)) return;
    p->round_why = why;
    p->round_fault = fault;
    snprintf(p->round_text, sizeof p->round_text, "%.*s", (int)sizeof p->round_text - 1, text);
}

static void retry(void *context) {
    peer *p = context;
    pursue(p);
}

static void pursue_later(peer *p, uint64_t pause_ns) {
    gw_err err;
    if (!gw_timer_set(p->links->loop, &p->retry, gw_now_ns() + pause_ns, retry, p, &err))
        gw_log(GW_ERROR, "net/link", "%s", err.text);
}

/* The pause before the next round of dialling. It doubles from round to round and is jittered, so that peers
 * do not dial in lockstep. */
static uint64_t next_pause(peer *p) {
    uint64_t pause_ns = p->pause_ns - p->pause_ns / 4 + gw_rng_below(&p->links->rng, p->pause_ns / 2);
    p->pause_ns = 2 * p->pause_ns < longest_pause_ns ? 2 * p->pause_ns : longest_pause_ns;
    return pause_ns;
}

static void end_round(peer *p) {
    char text[sizeof p->round_text];
    gw_closed why = p->round_why;
    gw_fault fault = p->round_fault;
    GW_ASSERT(why != GW_CLOSED_NOT);
    memcpy(text, p->round_text, sizeof text);
    p->round_why = GW_CLOSED_NOT;
    p->round_fault = GW_FAULT_NONE; /* that of the next round counts for itself */
    pursue_later(p, next_pause(p));
    report_down(p, why, fault, text);
}

/* Notes that a dial or a connection has failed. The round of dialling has failed when no other connection is
 * left. */
static void lose_way(peer *p, gw_closed why, gw_fault fault, const char *text) {
    note_failure(p, why, fault, text);
    if (p->connections == NULL && p->wanted)
        end_round(p);
    else
        pursue(p);
}

static void on_ready(void *context, gw_stream *stream, const gw_remote *remote);
static void on_message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count);
static void on_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text);

static gw_stream_events events_of(connection *c) {
    return (gw_stream_events){.context = c, .ready = on_ready, .message = on_message, .closed = on_closed};
}

static connection *add_connection(peer *p, phase first) {
    connection *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->peer = p;
    c->phase = first;
    c->serial = ++p->links->serial;
    c->next = p->connections;
    p->connections = c;
    return c;
}

static void dial_one(peer *p, const gw_addr *addr) {
    gw_err err;
    connection *c = add_connection(p, DIALLING);
    if (c == NULL) {
        note_failure(p, GW_CLOSED_LOCAL, GW_FAULT_NONE, "out of memory");
        return;
    }
    gw_stream_events events = events_of(c);
    c->stream =
        gw_stream_dial(p->links->loop, p->links->local, addr, GW_STREAM_CONTROL, p->ordinal, &events, &err);
    if (c->stream != NULL) return;
    remove_connection(c);
    note_failure(p, GW_CLOSED_LOCAL, GW_FAULT_NONE, err.text);
}

static void end_empty_round(void *context) {
    peer *p = context;
    if (p->connections == NULL) end_round(p);
}

static void dial(peer *p) {
    gw_err err;
    GW_ASSERT(p->wanted && p->link == NULL && p->addr_count > 0);
    p->round_why = GW_CLOSED_NOT;
    p->round_fault = GW_FAULT_NONE;
    for (size_t i = 0; i < p->addr_count; i++) dial_one(p, &p->addrs[i]);
    if (p->connections == NULL && !gw_timer_set(p->links->loop, &p->retry, 0, end_empty_round, p, &err))
        gw_log(GW_ERROR, "net/link", "%s", err.text);
}

/* Events of a connection. */

/* Whether a new connection may exist beside those of the same peer. A connection of an older life of the peer
 * may not; one of a newer life ends the older ones; of two clones (equal boot count, different nonce) the
 * first one stays. */
static bool judge_life(connection *c, const gw_remote *remote) {
    peer *p = c->peer;
    const connection *held = p->link != NULL ? p->link : p->offered;
    if (held == NULL) return true;
    gw_incarnation known = gw_stream_remote(held->stream)->incarnation, found = remote->incarnation;
    if (gw_same_life(&known, &found)) return true;
    char text[GW_SHORT_TEXT];
    uint64_t times;
    if (known.boot == found.boot && gw_rate_limit_admits(&p->links->clones, gw_now_ns(), &times))
        gw_log(GW_WARN, "net/link",
               "two processes use the identity of peer %s, seen %" PRIu64
               " time%s: one --dir is a copy of the other",
               gw_peer_id_short(&p->id, text), times, times == 1 ? "" : "s");
    if (known.boot >= found.boot) return false;
    if (p->offered != NULL) drop(p->offered);
    lose_link(p, "the peer has restarted");
    return true;
}

/* Uses the label of a dialler's handshake, the last ordinal that it took. If that is this side's link or
 * offer, the link is broken on the other side. */
static void apply_label(peer *p, uint64_t label) {
    if (!we_offer(p)) return;
    if (p->offered != NULL && label >= p->offered->ordinal) drop(p->offered);
    if (p->link != NULL && label >= p->link->ordinal) lose_link(p, "the connection broke on the other side");
}

static void on_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    connection *c = context;
    peer *p = c->peer;
    GW_ASSERT(c->stream == stream);
    if (!gw_peer_id_equal(&remote->id, &p->id)) {
        drop(c);
        lose_way(p, GW_CLOSED_REFUSED, GW_FAULT_NONE, "another peer has that address now");
        return;
    }
    c->phase = SPARE;
    bool dialled = remote->dialled;
    uint64_t label = remote->label;
    if (!judge_life(c, remote)) {
        drop(c);
        lose_way(p, GW_CLOSED_END, GW_FAULT_NONE, "the connection was of another life of the peer");
        return;
    }
    if (!dialled) apply_label(p, label);
    pursue(p);
}

static void taken(connection *c, const uint8_t *bytes, size_t count) {
    peer *p = c->peer;
    uint64_t ordinal;
    if (!read_note(bytes, count, TAKE, &ordinal) || ordinal != c->ordinal) {
        drop(c);
        lose_way(p, GW_CLOSED_PROTOCOL, GW_FAULT_NONE, "the answer to an offer is malformed");
        return;
    }
    p->offered = NULL;
    gw_timer_cancel(&p->offer_deadline);
    go_up(c);
}

static void offered(connection *c, const uint8_t *bytes, size_t count) {
    peer *p = c->peer;
    uint64_t ordinal, serial = c->serial;
    if (we_offer(p) || !read_note(bytes, count, OFFER, &ordinal) || ordinal <= p->ordinal) {
        drop(c);
        lose_way(p, GW_CLOSED_PROTOCOL, GW_FAULT_NONE, "an offer that is malformed or old");
        return;
    }
    c->ordinal = p->ordinal = ordinal;
    lose_link(p, "the other side has made a new connection");
    c = find_serial(p, serial); /* the receiver of the event may have closed it */
    if (c == NULL) return;
    if (send_note(c, TAKE)) {
        go_up(c);
        return;
    }
    drop(c);
    lose_way(p, GW_CLOSED_LOCAL, GW_FAULT_NONE, "out of memory");
}

static void on_message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    connection *c = context;
    gw_links *links = c->peer->links;
    GW_ASSERT(c->stream == stream && c->phase != DIALLING);
    if (c->phase == UP && count == 0) return; /* a heartbeat */
    if (c->phase == UP)
        links->events.message(links->events.context, &c->peer->id, bytes, count);
    else if (c->phase == OFFERED)
        taken(c, bytes, count);
    else
        offered(c, bytes, count);
}

/* Removes a connection whose stream has ended, and reports the link down if it was the link. */
static void lose(connection *c, gw_closed why, gw_fault fault, const char *text) {
    peer *p = c->peer;
    phase was = c->phase;
    remove_connection(c);
    if (was != UP) {
        lose_way(p, why, fault, text);
        return;
    }
    if (p->wanted &&
        gw_now_ns() - p->up_since_ns < longest_pause_ns) /* the other side may be one that ends every link */
        pursue_later(p, next_pause(p));
    else
        p->pause_ns = first_pause_ns;
    report_down(p, why, fault, text);
    pursue(p);
}

static void on_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    connection *c = context;
    GW_ASSERT(c->stream == stream);
    lose(c, why, fault, text);
}

/* Heartbeats. */

/* Whether the other side is expected to send on this connection: heartbeats on a link, or an offer if there
 * is no link. An offered connection has a deadline of its own. */
static bool is_owed(const connection *c) {
    return c->phase == UP || (c->phase == SPARE && c->peer->link == NULL && !we_offer(c->peer));
}

/* A connection on which too many heartbeats have been missed, or NULL. */
static connection *find_silent(peer *p) {
    connection *silent = NULL;
    for (connection *c = p->connections; c != NULL; c = c->next)
        if (is_owed(c) && gw_stream_silence(c->stream) > p->links->silence_most) silent = c;
    return silent;
}

static void beat(void *context) {
    gw_links *links = context;
    gw_err err;
    for (size_t i = 0; i < BUCKETS; i++)
        for (peer *p = links->buckets[i]; p != NULL;
             p = p->next) { /* no peer is freed meanwhile, since `sweep` runs later */
            if (p->link != NULL)
                (void)gw_stream_send(p->link->stream, "", 0,
                                     &err); /* a full queue may refuse the heartbeat */
            connection *silent = find_silent(p);
            if (silent == NULL) continue;
            gw_stream_close(silent->stream);
            lose(silent, GW_CLOSED_TIMEOUT, GW_FAULT_NONE,
                 "nothing has come for a while, not even heartbeats, though the connection stands");
        }
    if (!gw_timer_set(links->loop, &links->heartbeat, gw_now_ns() + GW_HEARTBEAT_NS, beat, links, &err))
        gw_log(GW_ERROR, "net/link", "%s", err.text);
}

/* The public functions. */

void gw_links_set_silence(gw_links *links, uint64_t silence_ns) {
    links->silence_most = (uint32_t)(silence_ns / GW_HEARTBEAT_NS);
}

gw_links *gw_links_open(gw_loop *loop, const gw_local *local, const gw_link_events *events, gw_err *err) {
    GW_ASSERT(events->up != NULL && events->down != NULL && events->message != NULL);
    gw_links *links = calloc(1, sizeof *links);
    if (links == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for the control links");
        return NULL;
    }
    links->loop = loop;
    links->local = local;
    links->events = *events;
    gw_links_set_silence(links, GW_SILENCE_NS);
    uint64_t seed;
    randombytes_buf(&seed, sizeof seed);
    links->rng = gw_rng_seeded(seed);
    if (gw_timer_set(loop, &links->heartbeat, gw_now_ns() + GW_HEARTBEAT_NS, beat, links, err)) return links;
    free(links);
    return NULL;
}

static void stop_wanting(peer *p) {
    p->wanted = false;
    gw_timer_cancel(&p->retry);
    while (p->connections != NULL) drop(p->connections);
}

void gw_links_close(gw_links *links) {
    if (links == NULL) return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (peer *p = links->buckets[i]; p != NULL; p = p->next) stop_wanting(p);
    sweep(links);
    gw_timer_cancel(&links->sweep);
    gw_timer_cancel(&links->heartbeat);
    free(links);
}

bool gw_links_want(gw_links *links, const gw_peer_id *id, const gw_addr *addrs, size_t count, gw_err *err) {
    GW_ASSERT(count > 0 && count <= GW_LINK_ADDRS);
    GW_ASSERT(!gw_peer_id_equal(id, &links->local->identity->id));
    peer *p = find_or_add(links, id);
    if (p == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a link");
    memcpy(p->addrs, addrs, count * sizeof *addrs);
    p->addr_count = count;
    p->wanted = true;
    pursue(p);
    return true;
}

void gw_links_unwant(gw_links *links, const gw_peer_id *id) {
    peer *p = find(links, id);
    if (p != NULL) stop_wanting(p);
}

void gw_links_adopt(gw_links *links, gw_stream *stream) {
    const gw_remote *remote = gw_stream_remote(stream);
    GW_ASSERT(remote != NULL && remote->kind == GW_STREAM_CONTROL && !remote->dialled);
    peer *p = find_or_add(links, &remote->id);
    connection *c = p == NULL ? NULL : add_connection(p, SPARE);
    if (c == NULL) {
        gw_log(GW_ERROR, "net/link", "no memory for a link");
        gw_stream_close(stream);
        return;
    }
    c->stream = stream;
    gw_stream_events events = events_of(c);
    gw_stream_set_events(stream, &events);
    on_ready(c, stream, remote);
}

const gw_remote *gw_links_remote(const gw_links *links, const gw_peer_id *id) {
    const peer *p = find(links, id);
    return p == NULL || p->link == NULL ? NULL : gw_stream_remote(p->link->stream);
}

bool gw_links_send(gw_links *links, const gw_peer_id *id, const void *bytes, size_t count, gw_err *err) {
    const peer *p = find(links, id);
    char text[GW_SHORT_TEXT];
    GW_ASSERT(count > 0);
    if (p == NULL || p->link == NULL)
        return gw_fail(err, GW_E_NOTFOUND, "no link to peer %s is up", gw_peer_id_short(id, text));
    return gw_stream_send(p->link->stream, bytes, count, err) ||
           gw_fail_in(err, "link to peer %s", gw_peer_id_short(id, text));
}

size_t gw_links_queued(const gw_links *links) {
    size_t bytes = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (const peer *p = links->buckets[i]; p != NULL; p = p->next)
            if (p->link != NULL) bytes += gw_stream_queued(p->link->stream);
    return bytes;
}
