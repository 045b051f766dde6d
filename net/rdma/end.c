#include "net/rdma/end.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "net/rdma/lender.h"
#include "net/rdma/pause.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* Queue numbers of dials that are not for a rail (those are their streams'): for operations, for READs. */
enum { ASKED = 0, LENT = GW_PATH_STREAMS };

typedef struct gw_rdma_end end;

/* One queue pair of an end: what the connection manager knows it by. */
typedef struct line {
    end *of;
    uint32_t number; /* of the queue, as a dialler names it */
    gw_rdma_connection *connection;
    bool connected;
} line;

struct gw_rdma_end {
    gw_path_end base; /* first */
    gw_rdma_ends *ends;
    end *next;
    gw_addr address;
    uint8_t secret[GW_RDMA_SECRET]; /* who dials us must have it */
    bool heard;                     /* `self` and `their_secret` are filled in */
    gw_peer_id self;
    uint8_t their_secret[GW_RDMA_SECRET];
    gw_channel *channels[GW_PATH_STREAMS]; /* NULL: none, or the rail's already */
    line rails[GW_PATH_STREAMS];
    bool failed;
    gw_rdma_asker *asker;
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

static end *end_of(gw_path_end *base) {
    return (end *)base;
}

static const gw_path_host *host_of(const end *e) {
    return e->base.path->host;
}

/* Once; what follows is of no interest. */
static void fail_end(end *e, const gw_err *why) {
    if (e->failed) return;
    char id[GW_SHORT_TEXT];
    gw_err text = *why;
    e->failed = true;
    gw_fail_in(&text, "to peer %s", gw_peer_id_short(&e->base.peer, id));
    host_of(e)->failed(&e->base, &text);
}

/* Dialling. */

static bool dial(end *e, line *to, gw_rdma_queue *queue, gw_err *err) {
    uint8_t bytes[GW_RDMA_HELLO];
    gw_rdma_hello hello = {
        .queue = (uint8_t)to->number, .serial = e->base.serial, .dialler = e->self, .acceptor = e->base.peer};
    gw_rdma_hello_encode(&hello, e->their_secret, bytes);
    to->connected = false;
    to->connection = gw_rdma_cm_dial(e->ends->cm, &e->address, queue, bytes, to, err);
    return to->connection != NULL;
}

/* A queue pair for our operations, the first or another one. Without it they go by the rails. */
static void dial_words(end *e) {
    gw_err err;
    gw_timer_cancel(&e->again);
    gw_rdma_connection_drop(e->ask.connection);
    e->ask.connection = NULL;
    gw_rdma_queue *queue = gw_rdma_asker_renew(e->asker, &err);
    if (queue == NULL || !dial(e, &e->ask, queue, &err)) fail_end(e, &err);
}

/* A queue pair for our READs, the first or another one. */
static void dial_reads(gw_path_end *base) {
    end *e = end_of(base);
    gw_err err;
    if (e->failed) return;
    gw_rdma_connection_drop(e->read.connection);
    e->read.connection = NULL;
    gw_rdma_queue *queue = gw_rdma_reader_renew(e->reader, &err);
    if (queue == NULL || !dial(e, &e->read, queue, &err)) fail_end(e, &err);
}

static void dial_rails(end *e) {
    gw_err err;
    for (uint32_t i = 1; i < host_of(e)->streams; i++) {
        if (dial(e, &e->rails[i], gw_rdma_channel_queue(e->channels[i]), &err)) continue;
        fail_end(e, &err);
        return;
    }
}

static void ask(end *e) {
    e->asks_since_ns = gw_now_ns();
    gw_rdma_pause_end(&e->ask_pause, &e->base.peer, "operations on its words go directly again");
    gw_rdma_asker_use(e->asker);
}

static void on_connected(void *context, void *owner) {
    line *l = owner;
    end *e = l->of;
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

static bool is_for(const end *e, const gw_rdma_hello *hello, const uint8_t *bytes) {
    gw_rdma_hello whole = *hello;
    whole.acceptor = e->self;
    return e->heard && e->base.serial == hello->serial && gw_peer_id_equal(&e->base.peer, &hello->dialler) &&
           gw_rdma_hello_verify(&whole, e->secret, bytes);
}

static void stop_lending(end *e) {
    gw_rdma_connection_drop(e->lend.connection);
    e->lend.connection = NULL;
    gw_rdma_queue_close(e->lent);
    e->lent = NULL;
}

/* Another queue pair for the other side to READ by. */
static gw_rdma_queue *lend(end *e) {
    static const gw_rdma_queue_options options = {.send_depth = 1, .lends = true};
    gw_err err;
    stop_lending(e);
    e->lent = gw_rdma_queue_open(e->ends->memory, &options, &err);
    if (e->lent == NULL) gw_log(GW_WARN, "net/rdma", "%s", err.text);
    return e->lent;
}

static gw_rdma_queue *on_asked(void *context, const uint8_t *bytes, size_t count, void **owner) {
    gw_rdma_ends *ends = context;
    gw_rdma_hello hello;
    if (!gw_rdma_hello_decode(bytes, count, &hello)) return NULL;
    end *e = ends->first;
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
    bool expected = !e->base.leads && hello.queue < ends->host->streams &&
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
    end *e = context;
    if (!e->failed) dial_words(e);
}

/* The connection that we ask by could not be made, or the other side has ended it. If the keys are ours
 * nothing would have us dial until the next ones. The first time at once: who moves its fence refuses a dial
 * that comes too soon, and its keys, told over another connection, may overtake that. */
static void lose_ask(end *e, const gw_err *why) {
    gw_err err;
    uint64_t now = gw_now_ns(), pause = 0;
    if (e->failed || !e->told) return;
    if (e->ask.connected && now >= e->asks_since_ns + GW_RDMA_PAUSE_NS) e->dialled_again = false;
    if (e->dialled_again)
        pause =
            gw_rdma_pause_begin(&e->ask_pause, &e->base.peer, why, "operations on its words go by the rails");
    e->dialled_again = true;
    if (!gw_timer_set(host_of(e)->loop, &e->again, now + pause, dial_words_again, e, &err)) fail_end(e, &err);
}

static void on_ended(void *context, void *owner, const gw_err *why) {
    line *l = owner;
    end *e = l->of;
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
        fail_end(e, why);
    }
}

static void on_completed(gw_path_end *base, const gw_completion *completion) {
    base->path->host->completed(base, completion);
}

static void on_passed(gw_path_end *base, const gw_op *op) {
    base->path->host->pass(base, op);
}

static void redial(void *context) {
    const gw_rdma_ends *ends = context;
    for (end *e = ends->first; e != NULL; e = e->next)
        if (atomic_exchange(&e->redial, false) && !e->failed) dial_words(e);
}

/* On any thread. */
static void on_asker_broken(gw_path_end *base, const gw_err *why, bool refused) {
    end *e = end_of(base);
    gw_err err = *why;
    if (refused) {
        atomic_store(&e->redial, true);
        if (gw_loop_post(host_of(e)->loop, redial, e->ends, &err)) return;
    }
    char id[GW_SHORT_TEXT];
    gw_fail_in(&err, "to peer %s", gw_peer_id_short(&base->peer, id));
    host_of(e)->failed(base, &err);
}

/* The device. */

static void on_lost(void *context, const gw_err *why, bool removed) {
    gw_rdma_ends *ends = context;
    ends->removed = ends->removed || removed;
    if (!ends->lost) gw_log(GW_WARN, "net/rdma", "%s", why->text);
    ends->lost = true;
    ends->why_lost = *why;
    for (end *e = ends->first; e != NULL; e = e->next) fail_end(e, why);
}

static void on_found(void *context) {
    gw_rdma_ends *ends = context;
    if (ends->removed) return;
    bool lost = ends->lost;
    ends->lost = false;
    gw_rdma_owner_found(ends->owner);
    if (!lost) return;
    gw_log(GW_INFO, "net/rdma", "the device's port is active again");
    ends->host->usable(ends->host->fabric, GW_PATH_RDMA);
}

bool gw_rdma_ends_open(gw_rdma_ends *ends, uint16_t *port, gw_err *err) {
    static const gw_rdma_asker_events asker_events = {on_completed, on_passed, on_asker_broken};
    const gw_rdma_cm_events cm_events = {.context = ends,
                                         .asked = on_asked,
                                         .accepted = on_accepted,
                                         .connected = on_connected,
                                         .ended = on_ended,
                                         .lost = on_lost,
                                         .found = on_found};
    ends->cm = gw_rdma_cm_open(gw_rdma_memory_device(ends->memory), ends->host->loop, &cm_events, port, err);
    if (ends->cm == NULL) return false;
    ends->readers = gw_rdma_readers_open(ends->host->loop, dial_reads, err);
    if (ends->readers == NULL) return false;
    ends->askers = gw_rdma_askers_open(ends->host->direct, &asker_events, err);
    if (ends->askers == NULL) return false;
    ends->lost = ends->removed = false;
    return true;
}

void gw_rdma_ends_close(gw_rdma_ends *ends) {
    GW_ASSERT(ends->first == NULL);
    gw_rdma_askers_close(ends->askers);
    gw_rdma_readers_close(ends->readers);
    gw_rdma_cm_close(ends->cm);
    ends->askers = NULL;
    ends->readers = NULL;
    ends->cm = NULL;
}

/* What the other side tells. */

static void tell_slots(end *e) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_told_slots told = {.addressee = e->base.peer, .count = host_of(e)->streams};
    memcpy(told.secret, e->secret, sizeof told.secret);
    for (uint32_t i = 1; i < told.count; i++) told.slots[i] = gw_rdma_channel_slots(e->channels[i]);
    host_of(e)->tell(&e->base, bytes, gw_rdma_slots_encode(&told, bytes));
    sodium_memzero(bytes, sizeof bytes);
    sodium_memzero(&told, sizeof told);
}

static void on_slots(end *e, const gw_rdma_told_slots *told) {
    const gw_path_host *host = host_of(e);
    gw_err err;
    bool good = !e->heard && told->count == host->streams;
    if (!good) gw_fail(&err, GW_E_PEER, "net/rdma: the peer tells slots that make no sense");
    for (uint32_t i = 1; i < host->streams && good; i++)
        good = gw_rdma_channel_aim(e->channels[i], &told->slots[i], &err);
    if (!good) {
        fail_end(e, &err);
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

static void on_words(end *e, const gw_rdma_told_words *told) {
    e->told = told->address != 0;
    e->dialled_again = false;
    if (!e->told) { /* what is outstanding comes back refused */
        gw_timer_cancel(&e->again);
        gw_rdma_asker_told(e->asker, told);
        gw_rdma_connection_drop(e->ask.connection);
        e->ask.connection = NULL;
        return;
    }
    if (e->ask.connection == NULL && e->heard) dial_words(e); /* before a queue pair that is gone is used */
    gw_rdma_asker_told(e->asker, told);
}

static void bad_message(end *e) {
    gw_err err;
    gw_fail(&err, GW_E_PEER, "net/rdma: the peer tells what makes no sense");
    fail_end(e, &err);
}

void gw_rdma_end_message(gw_path_end *base, const uint8_t *bytes, uint32_t count) {
    end *e = end_of(base);
    gw_rdma_told told;
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

static void free_end(end *e) {
    gw_timer_cancel(&e->again);
    gw_rdma_asker_close(e->asker);
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

void gw_rdma_end_close(gw_path_end *base) {
    end *e = end_of(base), **at = &e->ends->first;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    free_end(e);
}

static bool furnish(end *e, gw_err *err) {
    const gw_path_host *host = host_of(e);
    e->ask = (line){.of = e, .number = ASKED};
    e->serve = (line){.of = e, .number = ASKED};
    e->read = (line){.of = e, .number = LENT};
    e->lend = (line){.of = e, .number = LENT};
    for (uint32_t i = 1; i < host->streams; i++) {
        e->rails[i] = (line){.of = e, .number = i};
        e->channels[i] = gw_rdma_channel_open(e->ends->memory, host->payload_most[i], err);
        if (e->channels[i] == NULL) return false;
        e->channels[i]->peer.id = e->base.peer;
    }
    e->lender = gw_rdma_lender_open(&e->base, e->ends->owner);
    if (e->lender == NULL) return gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
    e->reader = gw_rdma_reader_open(e->ends->readers, &e->base, e->ends->memory, err);
    if (e->reader == NULL) return false;
    e->asker = gw_rdma_asker_open(e->ends->askers, &e->base, e->ends->memory, err);
    return e->asker != NULL;
}

gw_path_end *gw_rdma_end_open(gw_rdma_ends *ends, const gw_path_end *as, const gw_addr *address,
                              gw_err *err) {
    if (ends->lost) {
        *err = ends->why_lost;
        return NULL;
    }
    end *e = calloc(1, sizeof *e);
    if (e == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    e->base = *as;
    e->ends = ends;
    e->address = *address;
    randombytes_buf(e->secret, sizeof e->secret);
    if (!furnish(e, err)) {
        free_end(e);
        return NULL;
    }
    gw_rdma_guest_enter(&e->guest, ends->owner, &e->base);
    e->next = ends->first;
    ends->first = e;
    if (as->leads) tell_slots(e);
    return &e->base;
}

gw_channel *gw_rdma_end_channel(gw_path_end *base, uint32_t stream, uint32_t rail, gw_err *err) {
    end *e = end_of(base);
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

gw_path_posted gw_rdma_end_post(gw_path_end *base, const gw_op *op, gw_completion *completion) {
    end *e = end_of(base);
    if (gw_rdma_reader_takes(op)) return gw_rdma_reader_post(e->reader, op);
    return op->kind != GW_OP_FETCH ? gw_rdma_asker_post(e->asker, op, completion) : GW_PATH_PASS;
}

void gw_rdma_end_abandon(gw_path_end *base) {
    gw_rdma_asker_abandon(end_of(base)->asker);
    gw_rdma_reader_abandon(end_of(base)->reader);
}

void gw_rdma_end_found(gw_path_end *base, gw_lookup *lookup) {
    gw_rdma_lender_found(end_of(base)->lender, lookup);
}
