#include "net/rdma/endpoint.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "net/loop/backoff.h"
#include "net/rdma/lender.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* Queue numbers of dials that are not for a rail (those are their streams'): for operations, for READs. */
enum { ASKED = 0, LENT = GW_PATH_STREAMS };

typedef struct gw_rdma_endpoint endpoint;

/* One queue pair of an end: what the connection manager knows it by. */
typedef struct line {
    endpoint *of;
    uint32_t number; /* of the queue, as a dialler names it */
    gw_rdma_connection *connection;
    bool connected;
} line;

struct gw_rdma_endpoint {
    gw_path_endpoint base; /* first */
    gw_rdma_endpoints *endpoints;
    endpoint *next;
    gw_addr address;
    uint8_t secret[GW_RDMA_SECRET]; /* who dials us must have it */
    bool heard;                     /* `self` and `their_secret` are filled in */
    gw_peer_id self;
    uint8_t their_secret[GW_RDMA_SECRET];
    gw_channel *channels[GW_PATH_STREAMS]; /* NULL: none, or the rail's already */
    line rails[GW_PATH_STREAMS];
    bool failed;
    gw_rdma_requester *requester;
    line ask;   /* our operations */
    line serve; /* theirs; the connection is the guest's */
    gw_rdma_guest guest;
    atomic_bool redial; /* our queue pair was refused */
    bool told;          /* the keys of their words are ours */
    bool dialled_again; /* since they were told, or since a connection lasted: the next time after a pause */
    gw_timer again;     /* set while `ask` has no connection, and is to be dialled */
    uint64_t asks_since_ns;
    gw_rdma_pause ask_pause;
    gw_rdma_reader *reader;
    line read; /* our READs */
    gw_rdma_lender *lender;
    line lend;           /* theirs */
    gw_rdma_queue *lent; /* by which they READ; NULL: none */
};

static endpoint *endpoint_of(gw_path_endpoint *base) {
    return (endpoint *)base;
}

static const gw_path_host *host_of(const endpoint *e) {
    return e->base.path->host;
}

/* Once; what follows is of no interest. */
static void fail_endpoint(endpoint *e, const gw_err *why) {
    if (e->failed) return;
    char id[GW_SHORT_TEXT];
    gw_err text = *why;
    e->failed = true;
    gw_fail_in(&text, "to peer %s", gw_peer_id_short(&e->base.peer, id));
    host_of(e)->failed(&e->base, &text);
}

/* Dialling. */

static bool dial(endpoint *e, line *to, gw_rdma_queue *queue, gw_err *err) {
    uint8_t bytes[GW_RDMA_HELLO];
    gw_rdma_hello hello = {
        .queue = (uint8_t)to->number, .serial = e->base.serial, .dialler = e->self, .acceptor = e->base.peer};
    gw_rdma_hello_encode(&hello, e->their_secret, bytes);
    to->connected = false;
    to->connection = gw_rdma_cm_dial(e->endpoints->cm, &e->address, queue, bytes, to, err);
    return to->connection != NULL;
}

/* A queue pair for our operations, the first or another one. Without it they go by the rails. */
static void dial_words(endpoint *e) {
    gw_err err;
    gw_timer_cancel(&e->again);
    gw_rdma_connection_drop(e->ask.connection);
    e->ask.connection = NULL;
    gw_rdma_queue *queue = gw_rdma_requester_renew(e->requester, &err);
    if (queue == NULL || !dial(e, &e->ask, queue, &err)) fail_endpoint(e, &err);
}

/* A queue pair for our READs, the first or another one. */
static void dial_reads(gw_path_endpoint *base) {
    endpoint *e = endpoint_of(base);
    gw_err err;
    if (e->failed) return;
    gw_rdma_connection_drop(e->read.connection);
    e->read.connection = NULL;
    gw_rdma_queue *queue = gw_rdma_reader_renew(e->reader, &err);
    if (queue == NULL || !dial(e, &e->read, queue, &err)) fail_endpoint(e, &err);
}

static void dial_rails(endpoint *e) {
    gw_err err;
    for (uint32_t i = 1; i < host_of(e)->streams; i++) {
        if (dial(e, &e->rails[i], gw_rdma_channel_queue(e->channels[i]), &err)) continue;
        fail_endpoint(e, &err);
        return;
    }
}

static void ask(endpoint *e) {
    e->asks_since_ns = gw_now_ns();
    gw_rdma_pause_end(&e->ask_pause, &e->base.peer, "operations on its words go directly again");
    gw_rdma_requester_use(e->requester);
}

static void on_connected(void *context, void *owner) {
    line *l = owner;
    endpoint *e = l->of;
    (void)context;
    l->connected = true;
    if (l == &e->ask) ask(e);
    if (l == &e->read) gw_rdma_reader_use(e->reader);
    if (l == &e->ask || l == &e->read) return;
    for (uint32_t i = 1; i < host_of(e)->streams; i++)
        if (!e->rails[i].connected) return;
    host_of(e)->ready(&e->base);
}

/* Being dialled. */

static bool is_for(const endpoint *e, const gw_rdma_hello *hello, const uint8_t *bytes) {
    gw_rdma_hello whole = *hello;
    whole.acceptor = e->self;
    return e->heard && e->base.serial == hello->serial && gw_peer_id_equal(&e->base.peer, &hello->dialler) &&
           gw_rdma_hello_verify(&whole, e->secret, bytes);
}

static void stop_lending(endpoint *e) {
    gw_rdma_connection_drop(e->lend.connection);
    e->lend.connection = NULL;
    gw_rdma_queue_close(e->lent);
    e->lent = NULL;
}

/* Another queue pair for the other side to READ by. */
static gw_rdma_queue *lend(endpoint *e) {
    static const gw_rdma_queue_options options = {.send_depth = 1, .lends = true};
    gw_err err;
    stop_lending(e);
    e->lent = gw_rdma_queue_open(e->endpoints->memory, &options, &err);
    if (e->lent == NULL) gw_log(GW_WARN, "net/rdma", "%s", err.text);
    return e->lent;
}

static gw_rdma_queue *on_asked(void *context, const uint8_t *bytes, size_t count, void **owner) {
    gw_rdma_endpoints *endpoints = context;
    gw_rdma_hello hello;
    if (!gw_rdma_hello_decode(bytes, count, &hello)) return NULL;
    endpoint *e = endpoints->first;
    while (e != NULL && !is_for(e, &hello, bytes)) e = e->next;
    if (e == NULL || e->failed) return NULL;
    if (hello.queue == ASKED) {
        *owner = &e->serve;
        return gw_rdma_guest_serve(&e->guest);
    }
    if (hello.queue == LENT) {
        *owner = &e->lend;
        return lend(e);
    }
    bool expected = !e->base.leads && hello.queue < endpoints->host->streams &&
                    e->rails[hello.queue].connection == NULL && e->channels[hello.queue] != NULL;
    if (!expected) return NULL;
    *owner = &e->rails[hello.queue];
    return gw_rdma_channel_queue(e->channels[hello.queue]);
}

static void on_accepted(void *context, void *owner, gw_rdma_connection *connection) {
    line *l = owner;
    (void)context;
    l->connected = true;
    if (l == &l->of->serve)
        gw_rdma_guest_answered(&l->of->guest, connection);
    else
        l->connection = connection;
}

/* Endings. */

static void dial_words_again(void *context) {
    endpoint *e = context;
    if (!e->failed) dial_words(e);
}

/* The connection that we ask by could not be made, or the other side has ended it. If the keys are ours
 * nothing would have us dial until the next ones. The first time at once: who moves its fence refuses a dial
 * that comes too soon, and its keys, told over another connection, may overtake that. */
static void lose_ask(endpoint *e, const gw_err *why) {
    gw_err err;
    uint64_t now = gw_now_ns(), pause = 0;
    if (e->failed || !e->told) return;
    if (e->ask.connected && now >= e->asks_since_ns + GW_BACKOFF_FIRST_NS) e->dialled_again = false;
    if (e->dialled_again)
        pause =
            gw_rdma_pause_begin(&e->ask_pause, &e->base.peer, why, "operations on its words go by the rails");
    e->dialled_again = true;
    if (!gw_timer_set(host_of(e)->loop, &e->again, now + pause, dial_words_again, e, &err))
        fail_endpoint(e, &err);
}

static void on_ended(void *context, void *owner, const gw_err *why) {
    line *l = owner;
    endpoint *e = l->of;
    (void)context;
    if (l == &e->serve) { /* for operations alone: they go by the rails until it dials again */
        gw_rdma_guest_dismiss(&e->guest);
    } else if (l == &e->lend) {
        stop_lending(e);
    } else if (l == &e->ask || l == &e->read) {
        gw_rdma_connection_drop(l->connection);
        l->connection = NULL;
        if (l == &e->read)
            gw_rdma_reader_lost(e->reader, why);
        else
            lose_ask(e, why);
    } else {
        fail_endpoint(e, why);
    }
}

static void on_completed(gw_path_endpoint *base, const gw_completion *completion) {
    base->path->host->completed(base, completion);
}

static void on_passed(gw_path_endpoint *base, const gw_op *op) {
    base->path->host->pass(base, op);
}

static void redial(void *context) {
    const gw_rdma_endpoints *endpoints = context;
    for (endpoint *e = endpoints->first; e != NULL; e = e->next)
        if (atomic_exchange(&e->redial, false) && !e->failed) dial_words(e);
}

/* On any thread. */
static void on_requester_broken(gw_path_endpoint *base, const gw_err *why, bool refused) {
    endpoint *e = endpoint_of(base);
    gw_err err = *why;
    if (refused) {
        atomic_store(&e->redial, true);
        if (gw_loop_post(host_of(e)->loop, redial, e->endpoints, &err)) return;
    }
    char id[GW_SHORT_TEXT];
    gw_fail_in(&err, "to peer %s", gw_peer_id_short(&base->peer, id));
    host_of(e)->failed(base, &err);
}

/* The device. */

static void on_lost(void *context, const gw_err *why, bool removed) {
    gw_rdma_endpoints *endpoints = context;
    endpoints->removed = endpoints->removed || removed;
    if (!endpoints->lost) gw_log(GW_WARN, "net/rdma", "%s", why->text);
    endpoints->lost = true;
    endpoints->why_lost = *why;
    for (endpoint *e = endpoints->first; e != NULL; e = e->next) fail_endpoint(e, why);
}

static void on_found(void *context) {
    gw_rdma_endpoints *endpoints = context;
    if (endpoints->removed) return;
    bool lost = endpoints->lost;
    endpoints->lost = false;
    gw_rdma_owner_found(endpoints->owner);
    if (!lost) return;
    gw_log(GW_INFO, "net/rdma", "the device's port is active again");
    endpoints->host->usable(endpoints->host->fabric, GW_PATH_RDMA);
}

bool gw_rdma_endpoints_open(gw_rdma_endpoints *endpoints, uint16_t *port, gw_err *err) {
    static const gw_rdma_requester_events requester_events = {on_completed, on_passed, on_requester_broken};
    const gw_rdma_cm_events cm_events = {.context = endpoints,
                                         .asked = on_asked,
                                         .accepted = on_accepted,
                                         .connected = on_connected,
                                         .ended = on_ended,
                                         .lost = on_lost,
                                         .found = on_found};
    endpoints->cm = gw_rdma_cm_open(gw_rdma_memory_device(endpoints->memory), endpoints->host->loop,
                                    &cm_events, port, err);
    if (endpoints->cm == NULL) return false;
    endpoints->readers = gw_rdma_readers_open(endpoints->host->loop, dial_reads, err);
    if (endpoints->readers == NULL) return false;
    endpoints->requesters = gw_rdma_requesters_open(endpoints->host->direct, &requester_events, err);
    if (endpoints->requesters == NULL) return false;
    endpoints->lost = endpoints->removed = false;
    return true;
}

void gw_rdma_endpoints_close(gw_rdma_endpoints *endpoints) {
    GW_ASSERT(endpoints->first == NULL);
    gw_rdma_requesters_close(endpoints->requesters);
    gw_rdma_readers_close(endpoints->readers);
    gw_rdma_cm_close(endpoints->cm);
    endpoints->requesters = NULL;
    endpoints->readers = NULL;
    endpoints->cm = NULL;
}

/* What the other side tells. */

static void tell_slots(endpoint *e) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_slots_message told = {.addressee = e->base.peer, .count = host_of(e)->streams};
    memcpy(told.secret, e->secret, sizeof told.secret);
    for (uint32_t i = 1; i < told.count; i++) told.slots[i] = gw_rdma_channel_slots(e->channels[i]);
    host_of(e)->tell(&e->base, bytes, gw_rdma_slots_encode(&told, bytes));
    sodium_memzero(bytes, sizeof bytes);
    sodium_memzero(&told, sizeof told);
}

static void on_slots(endpoint *e, const gw_rdma_slots_message *told) {
    const gw_path_host *host = host_of(e);
    gw_err err;
    bool good = !e->heard && told->count == host->streams;
    if (!good) gw_fail(&err, GW_E_PEER, "net/rdma: the peer tells slots that make no sense");
    for (uint32_t i = 1; i < host->streams && good; i++)
        good = gw_rdma_channel_aim(e->channels[i], &told->slots[i], &err);
    if (!good) {
        fail_endpoint(e, &err);
        return;
    }
    e->heard = true;
    e->self = told->addressee;
    memcpy(e->their_secret, told->secret, sizeof e->their_secret);
    if (e->base.leads)
        dial_rails(e);
    else
        tell_slots(e);
}

static void on_words(endpoint *e, const gw_rdma_words_message *told) {
    e->told = told->address != 0;
    e->dialled_again = false;
    if (!e->told) { /* what is outstanding comes back refused */
        gw_timer_cancel(&e->again);
        gw_rdma_requester_told(e->requester, told);
        gw_rdma_connection_drop(e->ask.connection);
        e->ask.connection = NULL;
        return;
    }
    if (e->ask.connection == NULL && e->heard) dial_words(e); /* before a queue pair that is gone is used */
    gw_rdma_requester_told(e->requester, told);
}

static void bad_message(endpoint *e) {
    gw_err err;
    gw_fail(&err, GW_E_PEER, "net/rdma: the peer tells what makes no sense");
    fail_endpoint(e, &err);
}

void gw_rdma_endpoint_message(gw_path_endpoint *base, const uint8_t *bytes, uint32_t count) {
    endpoint *e = endpoint_of(base);
    gw_rdma_message_body told;
    if (e->failed) return;
    switch (gw_rdma_message_decode(bytes, count, &told)) {
    case GW_RDMA_MESSAGE_SLOTS:
        on_slots(e, &told.slots);
        break;
    case GW_RDMA_MESSAGE_WORDS:
        on_words(e, &told.words);
        break;
    case GW_RDMA_MESSAGE_WANT:
        gw_rdma_lender_wanted(e->lender, &told.want);
        break;
    case GW_RDMA_MESSAGE_LENT:
        if (!gw_rdma_reader_lent(e->reader, &told.lent)) bad_message(e);
        break;
    case GW_RDMA_MESSAGE_BACK:
        gw_rdma_lender_given_back(e->lender, told.back.id);
        break;
    case GW_RDMA_MESSAGE_BAD:
        bad_message(e);
        break;
    }
    sodium_memzero(&told, sizeof told);
}

/* Life. */

static void free_endpoint(endpoint *e) {
    gw_timer_cancel(&e->again);
    gw_rdma_requester_close(e->requester);
    gw_rdma_connection_drop(e->ask.connection);
    gw_rdma_guest_leave(&e->guest);
    gw_rdma_reader_close(e->reader);
    gw_rdma_connection_drop(e->read.connection);
    stop_lending(e);
    gw_rdma_lender_close(e->lender);
    for (uint32_t i = 1; i < GW_PATH_STREAMS; i++) {
        gw_rdma_connection_drop(e->rails[i].connection);
        if (e->channels[i] != NULL) e->channels[i]->ops->close(e->channels[i]);
    }
    sodium_memzero(e->secret, sizeof e->secret);
    sodium_memzero(e->their_secret, sizeof e->their_secret);
    free(e);
}

void gw_rdma_endpoint_close(gw_path_endpoint *base) {
    endpoint *e = endpoint_of(base), **at = &e->endpoints->first;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    free_endpoint(e);
}

static bool furnish(endpoint *e, gw_err *err) {
    const gw_path_host *host = host_of(e);
    e->ask = (line){.of = e, .number = ASKED};
    e->serve = (line){.of = e, .number = ASKED};
    e->read = (line){.of = e, .number = LENT};
    e->lend = (line){.of = e, .number = LENT};
    for (uint32_t i = 1; i < host->streams; i++) {
        e->rails[i] = (line){.of = e, .number = i};
        e->channels[i] = gw_rdma_channel_open(e->endpoints->memory, host->payload_most[i], err);
        if (e->channels[i] == NULL) return false;
        e->channels[i]->peer.id = e->base.peer;
    }
    e->lender = gw_rdma_lender_open(&e->base, e->endpoints->owner);
    if (e->lender == NULL) return gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
    e->reader = gw_rdma_reader_open(e->endpoints->readers, &e->base, e->endpoints->memory, err);
    if (e->reader == NULL) return false;
    e->requester = gw_rdma_requester_open(e->endpoints->requesters, &e->base, e->endpoints->memory, err);
    return e->requester != NULL;
}

gw_path_endpoint *gw_rdma_endpoint_open(gw_rdma_endpoints *endpoints, const gw_path_endpoint *as,
                                        const gw_addr *address, gw_err *err) {
    if (endpoints->lost) {
        *err = endpoints->why_lost;
        return NULL;
    }
    endpoint *e = calloc(1, sizeof *e);
    if (e == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    e->base = *as;
    e->endpoints = endpoints;
    e->address = *address;
    randombytes_buf(e->secret, sizeof e->secret);
    if (!furnish(e, err)) {
        free_endpoint(e);
        return NULL;
    }
    gw_rdma_guest_enter(&e->guest, endpoints->owner, &e->base);
    e->next = endpoints->first;
    endpoints->first = e;
    if (as->leads) tell_slots(e);
    return &e->base;
}

gw_channel *gw_rdma_endpoint_channel(gw_path_endpoint *base, uint32_t stream, uint32_t rail, gw_err *err) {
    endpoint *e = endpoint_of(base);
    gw_channel *channel = e->channels[stream];
    if (channel == NULL || e->failed) {
        gw_fail(err, GW_E_ABORTED, "net/rdma: the path has failed");
        return NULL;
    }
    e->channels[stream] = NULL;
    channel->peer = (gw_rail_peer){.id = base->peer, .rail = rail};
    if (stream == 1) gw_rdma_guest_stand(&e->guest);
    return channel;
}

/* Operations. */

gw_path_posted gw_rdma_endpoint_post(gw_path_endpoint *base, const gw_op *op, gw_completion *completion) {
    endpoint *e = endpoint_of(base);
    if (gw_rdma_reader_takes(op)) return gw_rdma_reader_post(e->reader, op);
    return op->kind != GW_OP_FETCH ? gw_rdma_requester_post(e->requester, op, completion) : GW_PATH_PASS;
}

void gw_rdma_endpoint_abandon(gw_path_endpoint *base) {
    gw_rdma_requester_abandon(endpoint_of(base)->requester);
    gw_rdma_reader_abandon(endpoint_of(base)->reader);
}

void gw_rdma_endpoint_found(gw_path_endpoint *base, gw_lookup *lookup) {
    gw_rdma_lender_found(endpoint_of(base)->lender, lookup);
}
