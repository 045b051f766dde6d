#include "net/rdma/endpoint.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "net/loop/backoff.h"
#include "net/rdma/lender.h"
#include "net/rdma/packing.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* The queue numbers of dials that are not for a rail, whose number is its stream: for operations on words,
 * and for READs of lent memory. */
enum { FOR_WORDS = 0, FOR_READS = GW_PATH_STREAMS };

typedef struct gw_rdma_endpoint endpoint;

/* One queue pair of an endpoint, as the connection manager knows it (its owner). */
typedef struct line {
    endpoint *of;
    uint32_t number; /* the queue's number, as a dialler names it */
    gw_rdma_connection *connection;
    bool connected;
} line;

struct gw_rdma_endpoint {
    gw_path_endpoint base; /* first */
    gw_rdma_endpoints *endpoints;
    endpoint *next;
    gw_addr address;
    bool packs;                     /* sums to the other side travel packed */
    uint8_t secret[GW_RDMA_SECRET]; /* must be known to a peer that dials this endpoint */
    bool greeted;                   /* `self` and `their_secret` are filled in */
    gw_peer_id self;
    uint8_t their_secret[GW_RDMA_SECRET];
    gw_channel *channels[GW_PATH_STREAMS]; /* NULL: there is none, or its rail has taken it */
    line rails[GW_PATH_STREAMS];
    bool failed;
    gw_rdma_requester *requester;
    line words;       /* carries this side's operations on words */
    line their_words; /* carries the other side's operations; the connection is the guest's */
    gw_rdma_guest guest;
    atomic_bool refused_by_fence; /* the other side's fence has refused this side's queue pair for words */
    bool keys_known;              /* the keys of the other side's words are known here */
    /* It was dialled again since the keys came, or since a connection lasted: the next dial waits for a
     * pause. */
    bool redialled;
    gw_timer again; /* set while `words` has no connection and will be dialled */
    uint64_t connected_ns;
    gw_rdma_pause word_pause;
    gw_rdma_reader *reader;
    line reads; /* carries this side's READs */
    gw_rdma_lender *lender;
    line their_reads;                /* carries the other side's READs */
    gw_rdma_queue *their_read_queue; /* the queue pair of `their_reads`; NULL: none */
};

static endpoint *endpoint_of(gw_path_endpoint *base) {
    return (endpoint *)base;
}

static const gw_path_host *host_of(const endpoint *e) {
    return e->base.path->host;
}

/* Reports the failure of the endpoint, once: later failures follow from the first one. */
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

/* Dials with a queue pair for this side's operations, the first or another one. Without one the operations go
 * by the rails. */
static void dial_words(endpoint *e) {
    gw_err err;
    gw_timer_cancel(&e->again);
    gw_rdma_connection_drop(e->words.connection);
    e->words.connection = NULL;
    gw_rdma_queue *queue = gw_rdma_requester_renew(e->requester, &err);
    if (queue == NULL || !dial(e, &e->words, queue, &err)) fail_endpoint(e, &err);
}

/* Dials with a queue pair for this side's READs, the first or another one. */
static void dial_reads(gw_path_endpoint *base) {
    endpoint *e = endpoint_of(base);
    gw_err err;
    if (e->failed) return;
    gw_rdma_connection_drop(e->reads.connection);
    e->reads.connection = NULL;
    gw_rdma_queue *queue = gw_rdma_reader_renew(e->reader, &err);
    if (queue == NULL || !dial(e, &e->reads, queue, &err)) fail_endpoint(e, &err);
}

static void dial_rails(endpoint *e) {
    gw_err err;
    for (uint32_t i = 1; i < host_of(e)->streams; i++) {
        if (dial(e, &e->rails[i], gw_rdma_channel_queue(e->channels[i]), &err)) continue;
        fail_endpoint(e, &err);
        return;
    }
}

static void use_word_connection(endpoint *e) {
    e->connected_ns = gw_now_ns();
    gw_rdma_pause_end(&e->word_pause, &e->base.peer, "operations on its words go directly again");
    gw_rdma_requester_use(e->requester);
}

static void on_connected(void *context, void *owner) {
    line *l = owner;
    endpoint *e = l->of;
    (void)context;
    l->connected = true;
    if (l == &e->words) use_word_connection(e);
    if (l == &e->reads) gw_rdma_reader_use(e->reader);
    if (l == &e->words || l == &e->reads) return;
    for (uint32_t i = 1; i < host_of(e)->streams; i++)
        if (!e->rails[i].connected) return;
    host_of(e)->ready(&e->base);
}

/* Being dialled. */

static bool is_for(const endpoint *e, const gw_rdma_hello *hello, const uint8_t *bytes) {
    gw_rdma_hello whole = *hello;
    whole.acceptor = e->self;
    return e->greeted && e->base.serial == hello->serial &&
           gw_peer_id_equal(&e->base.peer, &hello->dialler) && gw_rdma_hello_verify(&whole, e->secret, bytes);
}

static void stop_lending(endpoint *e) {
    gw_rdma_connection_drop(e->their_reads.connection);
    e->their_reads.connection = NULL;
    gw_rdma_queue_close(e->their_read_queue);
    e->their_read_queue = NULL;
}

/* Makes another queue pair by which the other side READs. */
static gw_rdma_queue *make_their_read_queue(endpoint *e) {
    static const gw_rdma_queue_options options = {.send_depth = 1, .lends = true};
    gw_err err;
    stop_lending(e);
    e->their_read_queue = gw_rdma_queue_open(e->endpoints->memory, &options, &err);
    if (e->their_read_queue == NULL) gw_log(GW_WARN, "net/rdma", "%s", err.text);
    return e->their_read_queue;
}

static gw_rdma_queue *on_request(void *context, const uint8_t *bytes, size_t count, void **owner) {
    gw_rdma_endpoints *endpoints = context;
    gw_rdma_hello hello;
    if (!gw_rdma_hello_decode(bytes, count, &hello)) return NULL;
    endpoint *e = endpoints->first;
    while (e != NULL && !is_for(e, &hello, bytes)) e = e->next;
    if (e == NULL || e->failed) return NULL;
    if (hello.queue == FOR_WORDS) {
        *owner = &e->their_words;
        return gw_rdma_guest_serve(&e->guest);
    }
    if (hello.queue == FOR_READS) {
        *owner = &e->their_reads;
        return make_their_read_queue(e);
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
    if (l == &l->of->their_words)
        gw_rdma_guest_answered(&l->of->guest, connection);
    else
        l->connection = connection;
}

/* The ends of connections. */

static void redial_words(void *context) {
    endpoint *e = context;
    if (!e->failed) dial_words(e);
}

/* Handles the loss of the connection for this side's operations: it could not be made, or the other side has
 * ended it. If the keys of the words are known here, nothing else would cause a dial until the next keys
 * come. The first dial follows at once: a peer that is moving its fence refuses a dial that comes too soon,
 * and its keys, which go over another connection, may overtake that refusal. */
static void lose_word_connection(endpoint *e, const gw_err *why) {
    gw_err err;
    uint64_t now = gw_now_ns(), pause = 0;
    if (e->failed || !e->keys_known) return;
    if (e->words.connected && now >= e->connected_ns + GW_BACKOFF_FIRST_NS) e->redialled = false;
    if (e->redialled)
        pause = gw_rdma_pause_begin(&e->word_pause, &e->base.peer, why,
                                    "operations on its words go by the rails");
    e->redialled = true;
    if (!gw_timer_set(host_of(e)->loop, &e->again, now + pause, redial_words, e, &err))
        fail_endpoint(e, &err);
}

static void on_ended(void *context, void *owner, const gw_err *why) {
    line *l = owner;
    endpoint *e = l->of;
    (void)context;
    if (l == &e->their_words) { /* operations only: they go by the rails until the other side dials again */
        gw_rdma_guest_dismiss(&e->guest);
    } else if (l == &e->their_reads) {
        stop_lending(e);
    } else if (l == &e->words || l == &e->reads) {
        gw_rdma_connection_drop(l->connection);
        l->connection = NULL;
        if (l == &e->reads)
            gw_rdma_reader_lost(e->reader, why);
        else
            lose_word_connection(e, why);
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

static void redial_refused(void *context) {
    const gw_rdma_endpoints *endpoints = context;
    for (endpoint *e = endpoints->first; e != NULL; e = e->next)
        if (atomic_exchange(&e->refused_by_fence, false) && !e->failed) dial_words(e);
}

/* Called on any thread. */
static void on_requester_broken(gw_path_endpoint *base, const gw_err *why, bool refused) {
    endpoint *e = endpoint_of(base);
    gw_err err = *why;
    if (refused) {
        atomic_store(&e->refused_by_fence, true);
        if (gw_loop_post(host_of(e)->loop, redial_refused, e->endpoints, &err)) return;
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
                                         .asked = on_request,
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

/* Messages of the other side. */

static void tell_slots(endpoint *e) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_slots_message message = {.addressee = e->base.peer, .count = host_of(e)->streams};
    memcpy(message.secret, e->secret, sizeof message.secret);
    for (uint32_t i = 1; i < message.count; i++) message.slots[i] = gw_rdma_channel_slots(e->channels[i]);
    host_of(e)->tell(&e->base, bytes, gw_rdma_slots_encode(&message, bytes));
    sodium_memzero(bytes, sizeof bytes);
    sodium_memzero(&message, sizeof message);
}

static void on_slots(endpoint *e, const gw_rdma_slots_message *message) {
    const gw_path_host *host = host_of(e);
    gw_err err;
    bool good = !e->greeted && message->count == host->streams;
    if (!good) gw_fail(&err, GW_E_PEER, "net/rdma: the peer told slots that do not fit this path");
    for (uint32_t i = 1; i < host->streams && good; i++)
        good = gw_rdma_channel_aim(e->channels[i], &message->slots[i], &err);
    if (!good) {
        fail_endpoint(e, &err);
        return;
    }
    e->greeted = true;
    e->self = message->addressee;
    memcpy(e->their_secret, message->secret, sizeof e->their_secret);
    if (e->base.leads)
        dial_rails(e);
    else
        tell_slots(e);
}

static void on_words(endpoint *e, const gw_rdma_words_message *message) {
    e->keys_known = message->address != 0;
    e->redialled = false;
    if (!e->keys_known) { /* outstanding operations come back refused */
        gw_timer_cancel(&e->again);
        gw_rdma_requester_set_keys(e->requester, message);
        gw_rdma_connection_drop(e->words.connection);
        e->words.connection = NULL;
        return;
    }
    if (e->words.connection == NULL && e->greeted)
        dial_words(e); /* first, so that no queue pair that is gone is used */
    gw_rdma_requester_set_keys(e->requester, message);
}

static void bad_message(endpoint *e) {
    gw_err err;
    gw_fail(&err, GW_E_PEER, "net/rdma: the peer sent a malformed message");
    fail_endpoint(e, &err);
}

void gw_rdma_endpoint_message(gw_path_endpoint *base, const uint8_t *bytes, uint32_t count) {
    endpoint *e = endpoint_of(base);
    gw_rdma_message_body message;
    if (e->failed) return;
    switch (gw_rdma_message_decode(bytes, count, &message)) {
    case GW_RDMA_MESSAGE_SLOTS:
        on_slots(e, &message.slots);
        break;
    case GW_RDMA_MESSAGE_WORDS:
        on_words(e, &message.words);
        break;
    case GW_RDMA_MESSAGE_WANT:
        gw_rdma_lender_wanted(e->lender, &message.want);
        break;
    case GW_RDMA_MESSAGE_LENT:
        if (!gw_rdma_reader_lent(e->reader, &message.lent)) bad_message(e);
        break;
    case GW_RDMA_MESSAGE_BACK:
        gw_rdma_lender_given_back(e->lender, message.back.id);
        break;
    case GW_RDMA_MESSAGE_BAD:
        bad_message(e);
        break;
    }
    sodium_memzero(&message, sizeof message);
}

/* Life. */

static void free_endpoint(endpoint *e) {
    gw_timer_cancel(&e->again);
    gw_rdma_requester_close(e->requester);
    gw_rdma_connection_drop(e->words.connection);
    gw_rdma_guest_leave(&e->guest);
    gw_rdma_reader_close(e->reader);
    gw_rdma_connection_drop(e->reads.connection);
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

static bool make_parts(endpoint *e, gw_err *err) {
    const gw_path_host *host = host_of(e);
    e->words = (line){.of = e, .number = FOR_WORDS};
    e->their_words = (line){.of = e, .number = FOR_WORDS};
    e->reads = (line){.of = e, .number = FOR_READS};
    e->their_reads = (line){.of = e, .number = FOR_READS};
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

/* Decides whether sums to the other side travel packed, and logs what is new in that. */
static bool decide_packing(const endpoint *e, uint32_t their_mbits) {
    gw_rdma_endpoints *all = e->endpoints;
    uint32_t link = gw_rdma_memory_device(all->memory)->mbits, streams = host_of(e)->streams;
    uint32_t rails = streams > GW_PATH_FIRST_RAIL ? streams - GW_PATH_FIRST_RAIL : 1;
    if (their_mbits < link) link = their_mbits;
    bool packs = gw_rdma_packs(link, all->packing_mbits, rails);
    if (all->told && all->told_mbits == link) return packs;
    all->told = true;
    all->told_mbits = link;
    char id[GW_SHORT_TEXT];
    gw_peer_id_short(&e->base.peer, id);
    if (link == 0)
        gw_log(GW_INFO, "net/rdma",
               "exact sums go to peer %s as they are: the speed of a port between is not known", id);
    else
        gw_log(GW_INFO, "net/rdma",
               "exact sums go to peer %s %s: the slower port carries %.1f Gbit a second, and this machine "
               "packs and unpacks %.1f on %u core%s",
               id, packs ? "packed" : "as they are", link * 1e-3, all->packing_mbits * 1e-3 * rails, rails,
               rails == 1 ? "" : "s");
    return packs;
}

gw_path_endpoint *gw_rdma_endpoint_open(gw_rdma_endpoints *endpoints, const gw_path_endpoint *as,
                                        const gw_rdma_card *card, gw_err *err) {
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
    e->address = card->address;
    e->packs = decide_packing(e, card->mbits);
    randombytes_buf(e->secret, sizeof e->secret);
    if (!make_parts(e, err)) {
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
    channel->peer = (gw_rail_peer){.id = base->peer, .rail = rail, .packs = e->packs, .unpacks = true};
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
