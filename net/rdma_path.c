#include "net/rdma_path.h"

#include "core/check.h"
#include "core/log.h"
#include "net/rdma_asker.h"
#include "net/rdma_words.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define BARRING_NS UINT64_C(1000000000) /* between a fence and the end of non-members' queue pairs */

enum { ASKED = 0 /* queue number of a dial for operations; those of lanes are their streams' */ };

typedef struct rdma_end rdma_end;

/* One queue pair of an end: what the connection manager knows it by. */
typedef struct line {
    rdma_end *end;
    uint32_t number; /* of the queue, as a dialler names it */
    gw_rdma_connection *connection;
    bool connected;
} line;

typedef struct rdma_path {
    gw_path base; /* first */
    gw_rdma_memory *memory;
    gw_rdma_cm *cm;
    uint16_t port;
    gw_rdma_words *words;
    gw_rdma_askers *askers;
    gw_timer barring;
    bool lost; /* the device is gone, or its port down: no new ends. The control thread's */
    pthread_mutex_t lock;
    /* under the lock */
    rdma_end *ends;
    gw_fence fence; /* zeros: none */
    gw_peer_id *members;
    uint32_t member_count;
} rdma_path;

/* The control thread's, but for what the path's lock guards. */
struct rdma_end {
    gw_path_end base; /* first */
    rdma_end *next;   /* under the path's lock */
    gw_addr address;
    uint8_t secret[GW_RDMA_SECRET]; /* who dials us must have it */
    bool heard;                     /* `self` and `their_secret` are filled in */
    gw_peer_id self;
    uint8_t their_secret[GW_RDMA_SECRET];
    gw_channel *channels[GW_PATH_STREAMS]; /* NULL: none, or the lane's already */
    line lanes[GW_PATH_STREAMS];
    bool ready, failed;
    gw_rdma_asker *asker;
    line ask;             /* our operations */
    line serve;           /* theirs */
    gw_rdma_queue *asked; /* by which they ask; under the path's lock. NULL: none */
    bool standing;        /* under the path's lock: the link goes by this path */
    bool barred;          /* under the path's lock: theirs is to be destroyed, they are no member */
    atomic_bool redial;   /* our queue pair was refused */
};

static rdma_path *path_of(gw_path *path) {
    return (rdma_path *)path;
}

static rdma_end *end_of(gw_path_end *end) {
    return (rdma_end *)end;
}

static rdma_path *path_of_end(const rdma_end *end) {
    return (rdma_path *)end->base.path;
}

static const gw_path_host *host_of(const rdma_end *end) {
    return end->base.path->host;
}

/* Once; what follows is of no interest. */
static void fail_end(rdma_end *end, const gw_err *why) {
    if (end->failed) return;
    char id[GW_SHORT_TEXT];
    gw_err text = *why;
    end->failed = true;
    gw_fail_in(&text, "to peer %s", gw_peer_id_short(&end->base.peer, id));
    host_of(end)->failed(&end->base, &text);
}

/* ---- telling ---- */

static void tell_slots(rdma_end *end) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_told_slots told = {.addressee = end->base.peer, .count = host_of(end)->streams};
    memcpy(told.secret, end->secret, sizeof told.secret);
    for (uint32_t i = 1; i < told.count; i++) told.slots[i] = gw_rdma_channel_slots(end->channels[i]);
    host_of(end)->tell(&end->base, bytes, gw_rdma_slots_encode(&told, bytes));
    sodium_memzero(bytes, sizeof bytes);
    sodium_memzero(&told, sizeof told);
}

/* Under the path's lock. */
static bool is_member(const rdma_path *path, const gw_peer_id *peer) {
    for (uint32_t i = 0; i < path->member_count; i++)
        if (gw_peer_id_equal(&path->members[i], peer)) return true;
    return false;
}

/* Under the path's lock. The keys of our words, to a member of the fence. */
static void tell_words(rdma_path *path, rdma_end *end) {
    if (path->fence.epoch == 0 || !is_member(path, &end->base.peer)) return;
    gw_rdma_told_words told = {.fence = path->fence};
    if (!gw_rdma_words_key(path->words, &told.address, &told.rkey)) return;
    for (uint32_t region = 0; region < GW_MAX_REGIONS; region++) {
        uint64_t offset, bytes;
        if (!gw_words_find(path->base.host->words, region, &offset, &bytes)) continue;
        told.regions[told.count].region = region;
        told.regions[told.count].offset = (uint32_t)offset;
        told.regions[told.count].bytes = (uint32_t)bytes;
        told.count++;
    }
    end->barred = false;
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    host_of(end)->tell(&end->base, bytes, gw_rdma_words_encode(&told, bytes));
}

/* ---- dialling ---- */

static bool dial(rdma_end *end, line *to, gw_rdma_queue *queue, gw_err *err) {
    uint8_t bytes[GW_RDMA_HELLO];
    gw_rdma_hello hello = {.queue = (uint8_t)to->number,
                           .serial = end->base.serial,
                           .dialler = end->self,
                           .acceptor = end->base.peer};
    gw_rdma_hello_encode(&hello, end->their_secret, bytes);
    to->connected = false;
    to->connection = gw_rdma_cm_dial(path_of_end(end)->cm, &end->address, queue, bytes, to, err);
    return to->connection != NULL;
}

/* A queue pair for our operations, the first or another one. Without it they go by the lanes. */
static void dial_words(rdma_end *end) {
    gw_err err;
    gw_rdma_connection_drop(end->ask.connection);
    end->ask.connection = NULL;
    gw_rdma_queue *queue = gw_rdma_asker_renew(end->asker, &err);
    if (queue == NULL || !dial(end, &end->ask, queue, &err)) fail_end(end, &err);
}

static void dial_lanes(rdma_end *end) {
    gw_err err;
    for (uint32_t i = 1; i < host_of(end)->streams; i++) {
        if (dial(end, &end->lanes[i], gw_rdma_channel_queue(end->channels[i]), &err)) continue;
        fail_end(end, &err);
        return;
    }
}

static void on_connected(void *context, void *owner) {
    line *l = owner;
    rdma_end *end = l->end;
    (void)context;
    l->connected = true;
    if (l == &end->ask) {
        gw_rdma_asker_use(end->asker);
        return;
    }
    for (uint32_t i = 1; i < host_of(end)->streams; i++)
        if (!end->lanes[i].connected) return;
    end->ready = true;
    host_of(end)->ready(&end->base);
}

/* ---- being dialled ---- */

static bool is_for(const rdma_end *end, const gw_rdma_hello *hello, const uint8_t *bytes) {
    gw_rdma_hello whole = *hello;
    whole.acceptor = end->self;
    return end->heard && end->base.serial == hello->serial &&
           gw_peer_id_equal(&end->base.peer, &hello->dialler) &&
           gw_rdma_hello_verify(&whole, end->secret, bytes);
}

static void stop_serving(rdma_end *end) {
    rdma_path *path = path_of_end(end);
    gw_rdma_connection_drop(end->serve.connection);
    end->serve.connection = NULL;
    pthread_mutex_lock(&path->lock);
    gw_rdma_queue *queue = end->asked;
    end->asked = NULL;
    pthread_mutex_unlock(&path->lock);
    gw_rdma_queue_close(queue);
}

/* Another queue pair for the other side to ask by, if it may. */
static gw_rdma_queue *serve(rdma_end *end) {
    static const gw_rdma_queue_options options = {.send_depth = 1};
    rdma_path *path = path_of_end(end);
    gw_err err;
    stop_serving(end);
    gw_rdma_queue *queue = gw_rdma_queue_open(path->memory, &options, &err);
    if (queue == NULL) {
        gw_log(GW_WARN, "net/rdma", "%s", err.text);
        return NULL;
    }
    pthread_mutex_lock(&path->lock);
    bool may = is_member(path, &end->base.peer);
    end->asked = may ? queue : NULL;
    pthread_mutex_unlock(&path->lock);
    if (!may) gw_rdma_queue_close(queue);
    return may ? queue : NULL;
}

static gw_rdma_queue *on_asked(void *context, const uint8_t *bytes, size_t count, void **owner) {
    rdma_path *path = context;
    gw_rdma_hello hello;
    if (!gw_rdma_hello_decode(bytes, count, &hello)) return NULL;
    rdma_end *end = path->ends; /* changed by this thread alone */
    while (end != NULL && !is_for(end, &hello, bytes)) end = end->next;
    if (end == NULL || end->failed) return NULL;
    if (hello.queue == ASKED) {
        *owner = &end->serve;
        return serve(end);
    }
    bool expected = !end->base.leads && hello.queue < path->base.host->streams &&
                    end->lanes[hello.queue].connection == NULL && end->channels[hello.queue] != NULL;
    if (!expected) return NULL;
    *owner = &end->lanes[hello.queue];
    return gw_rdma_channel_queue(end->channels[hello.queue]);
}

static void on_accepted(void *context, void *owner, gw_rdma_connection *connection) {
    line *l = owner;
    (void)context;
    l->connection = connection;
    l->connected = true;
}

/* ---- endings ---- */

static void on_ended(void *context, void *owner, const gw_err *why) {
    line *l = owner;
    (void)context;
    if (l != &l->end->serve && l != &l->end->ask) {
        fail_end(l->end, why);
        return;
    }
    /* For operations alone: they go by the lanes until the next words are told. */
    if (l == &l->end->serve)
        stop_serving(l->end);
    else
        gw_rdma_connection_drop(l->connection);
    l->connection = NULL;
}

static void on_lost(void *context, const gw_err *why) {
    rdma_path *path = context;
    if (!path->lost) gw_log(GW_WARN, "net/rdma", "%s", why->text);
    path->lost = true;
    for (rdma_end *end = path->ends; end != NULL; end = end->next) fail_end(end, why);
}

static void on_found(void *context) {
    rdma_path *path = context;
    if (path->lost) gw_log(GW_INFO, "net/rdma", "the device's port is active again");
    path->lost = false;
}

static void on_completed(gw_path_end *end, const gw_completion *completion) {
    end->path->host->completed(end, completion);
}

static void on_passed(gw_path_end *end, const gw_op *op) {
    end->path->host->pass(end, op);
}

static void redial(void *context) {
    rdma_path *path = context;
    for (rdma_end *end = path->ends; end != NULL; end = end->next)
        if (atomic_exchange(&end->redial, false) && !end->failed) dial_words(end);
}

/* On any thread. */
static void on_asker_broken(gw_path_end *base, const gw_err *why, bool refused) {
    rdma_end *end = end_of(base);
    gw_err err = *why;
    if (refused) {
        atomic_store(&end->redial, true);
        if (gw_loop_post(base->path->host->loop, redial, base->path, &err)) return;
    }
    char id[GW_SHORT_TEXT];
    gw_fail_in(&err, "to peer %s", gw_peer_id_short(&base->peer, id));
    base->path->host->failed(base, &err);
}

/* ---- ends ---- */

static void free_end(rdma_end *end) {
    gw_rdma_asker_close(end->asker);
    gw_rdma_connection_drop(end->ask.connection);
    gw_rdma_connection_drop(end->serve.connection);
    gw_rdma_queue_close(end->asked);
    for (uint32_t i = 1; i < GW_PATH_STREAMS; i++) {
        gw_rdma_connection_drop(end->lanes[i].connection);
        if (end->channels[i] != NULL) end->channels[i]->ops->close(end->channels[i]);
    }
    sodium_memzero(end->secret, sizeof end->secret);
    sodium_memzero(end->their_secret, sizeof end->their_secret);
    free(end);
}

static void rdma_close_end(gw_path_end *base) {
    rdma_end *end = end_of(base);
    rdma_path *path = path_of_end(end);
    pthread_mutex_lock(&path->lock);
    rdma_end **at = &path->ends;
    while (*at != end) at = &(*at)->next;
    *at = end->next;
    pthread_mutex_unlock(&path->lock);
    free_end(end);
}

static bool furnish(rdma_end *end, gw_err *err) {
    rdma_path *path = path_of_end(end);
    const gw_path_host *host = host_of(end);
    end->ask = (line){.end = end, .number = ASKED};
    end->serve = (line){.end = end, .number = ASKED};
    for (uint32_t i = 1; i < host->streams; i++) {
        end->lanes[i] = (line){.end = end, .number = i};
        end->channels[i] = gw_rdma_channel_open(path->memory, host->payload_most[i], err);
        if (end->channels[i] == NULL) return false;
        end->channels[i]->peer.id = end->base.peer;
    }
    end->asker = gw_rdma_asker_open(path->askers, &end->base, path->memory, err);
    return end->asker != NULL;
}

static gw_path_end *rdma_open(gw_path *base, const gw_path_end *as, const uint8_t *bytes, uint32_t count,
                              gw_err *err) {
    rdma_path *path = path_of(base);
    gw_rdma_card card;
    if (!gw_rdma_card_decode(bytes, count, &card)) {
        gw_fail(err, GW_E_PEER, "net/rdma: the peer's card makes no sense");
        return NULL;
    }
    rdma_end *end = calloc(1, sizeof *end);
    if (end == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    end->base = *as;
    end->address = card.address;
    randombytes_buf(end->secret, sizeof end->secret);
    if (!furnish(end, err)) {
        free_end(end);
        return NULL;
    }
    pthread_mutex_lock(&path->lock);
    end->next = path->ends;
    path->ends = end;
    pthread_mutex_unlock(&path->lock);
    if (as->leads) tell_slots(end);
    return &end->base;
}

static void on_slots(rdma_end *end, const gw_rdma_told_slots *told) {
    const gw_path_host *host = host_of(end);
    gw_err err;
    bool good = !end->heard && told->count == host->streams;
    if (!good) gw_fail(&err, GW_E_PEER, "net/rdma: the peer tells slots that make no sense");
    for (uint32_t i = 1; i < host->streams && good; i++)
        good = gw_rdma_channel_aim(end->channels[i], &told->slots[i], &err);
    if (!good) {
        fail_end(end, &err);
        return;
    }
    end->heard = true;
    end->self = told->addressee;
    memcpy(end->their_secret, told->secret, sizeof end->their_secret);
    if (end->base.leads)
        dial_lanes(end);
    else
        tell_slots(end);
}

static void on_words(rdma_end *end, const gw_rdma_told_words *told) {
    if (told->address == 0) { /* what is outstanding comes back refused */
        gw_rdma_asker_told(end->asker, told);
        gw_rdma_connection_drop(end->ask.connection);
        end->ask.connection = NULL;
        return;
    }
    if (end->ask.connection == NULL && end->heard)
        dial_words(end); /* before a queue pair that is gone is used */
    gw_rdma_asker_told(end->asker, told);
}

static void rdma_message(gw_path_end *base, const uint8_t *bytes, uint32_t count) {
    rdma_end *end = end_of(base);
    gw_rdma_told_slots slots;
    gw_rdma_told_words words;
    gw_err err;
    if (end->failed) return;
    switch (gw_rdma_message_decode(bytes, count, &slots, &words)) {
    case GW_RDMA_MESSAGE_SLOTS:
        on_slots(end, &slots);
        break;
    case GW_RDMA_MESSAGE_WORDS:
        on_words(end, &words);
        break;
    case GW_RDMA_MESSAGE_BAD:
        gw_fail(&err, GW_E_PEER, "net/rdma: the peer tells what makes no sense");
        fail_end(end, &err);
        break;
    }
    sodium_memzero(&slots, sizeof slots);
}

static gw_channel *rdma_channel(gw_path_end *base, uint32_t stream, uint32_t lane, gw_err *err) {
    rdma_end *end = end_of(base);
    gw_channel *channel = end->channels[stream];
    if (channel == NULL || end->failed) {
        gw_fail(err, GW_E_ABORTED, "net/rdma: the path has failed");
        return NULL;
    }
    end->channels[stream] = NULL;
    channel->peer = (gw_lane_peer){.id = base->peer, .lane = lane};
    if (stream == 1) {
        rdma_path *path = path_of_end(end);
        pthread_mutex_lock(&path->lock);
        end->standing = true;
        tell_words(path, end);
        pthread_mutex_unlock(&path->lock);
    }
    return channel;
}

static gw_path_posted rdma_post(gw_path_end *end, const gw_op *op, gw_completion *completion) {
    return gw_rdma_asker_post(end_of(end)->asker, op, completion);
}

static void rdma_abandon(gw_path_end *end) {
    gw_rdma_asker_abandon(end_of(end)->asker);
}

/* ---- fences ---- */

/* Those that have been told so, and had the time to hear of it. */
static void bar(void *context) {
    rdma_path *path = context;
    for (rdma_end *end = path->ends; end != NULL; end = end->next) {
        pthread_mutex_lock(&path->lock);
        bool barred = end->barred;
        end->barred = false;
        pthread_mutex_unlock(&path->lock);
        if (barred) stop_serving(end);
    }
}

static void bar_soon(void *context) {
    rdma_path *path = context;
    gw_err err;
    if (!gw_timer_set(path->base.host->loop, &path->barring, gw_now_ns() + BARRING_NS, bar, path, &err))
        bar(path);
}

/* Under the path's lock. From now on its operations are refused for their keys; its queue pair stays a little
 * longer, so that it learns so at once instead of by retries, and keeps the link. */
static void tell_off(rdma_end *end) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_told_words none = {.address = 0};
    end->barred = true;
    host_of(end)->tell(&end->base, bytes, gw_rdma_words_encode(&none, bytes));
}

static void rdma_fence_begin(gw_path *base, const gw_fence *fence, const gw_peer_id *members,
                             uint32_t count) {
    rdma_path *path = path_of(base);
    (void)fence;
    gw_rdma_words_withdraw(path->words);
    pthread_mutex_lock(&path->lock);
    gw_peer_id *copy = count > 0 ? malloc(count * sizeof *copy) : NULL;
    if (copy != NULL) memcpy(copy, members, count * sizeof *copy);
    free(path->members);
    path->members = copy;
    path->member_count = copy != NULL ? count : 0; /* without memory: nobody is told, all go by the lanes */
    path->fence = (gw_fence){0};
    bool any = false;
    for (rdma_end *end = path->ends; end != NULL; end = end->next) {
        if (is_member(path, &end->base.peer) || end->asked == NULL || end->barred) continue;
        tell_off(end);
        any = true;
    }
    pthread_mutex_unlock(&path->lock);
    gw_err err;
    if (any && !gw_loop_post(base->host->loop, bar_soon, path, &err))
        gw_log(GW_WARN, "net/rdma", "%s", err.text);
}

static void rdma_fence_end(gw_path *base, const gw_fence *fence, const gw_peer_id *members, uint32_t count) {
    rdma_path *path = path_of(base);
    gw_err err;
    (void)members;
    if (fence == NULL || count == 0) return;
    if (!gw_rdma_words_publish(path->words, &err)) {
        gw_log(GW_WARN, "net/rdma", "%s: operations on this peer's words go by the lanes", err.text);
        return;
    }
    pthread_mutex_lock(&path->lock);
    path->fence = *fence;
    for (rdma_end *end = path->ends; end != NULL; end = end->next)
        if (end->standing) tell_words(path, end);
    pthread_mutex_unlock(&path->lock);
}

/* ---- the path ---- */

static uint32_t rdma_card(gw_path *base, uint8_t bytes[GW_PATH_CARD_BYTES], gw_err *why) {
    rdma_path *path = path_of(base);
    const gw_rdma_device *device = gw_rdma_memory_device(path->memory);
    if (path->lost) {
        gw_fail(why, GW_E_IO, "net/rdma: %s port %u is not active", device->name, device->port);
        return 0;
    }
    gw_rdma_card card = {.ethernet = device->ethernet, .address = device->address};
    card.address.port = path->port;
    if (!device->ethernet) memcpy(card.network, device->gid.raw, sizeof card.network);
    return gw_rdma_card_encode(&card, bytes);
}

static bool rdma_suits(gw_path *base, const uint8_t *bytes, uint32_t count, gw_err *why) {
    const gw_rdma_device *device = gw_rdma_memory_device(path_of(base)->memory);
    gw_rdma_card card;
    if (!gw_rdma_card_decode(bytes, count, &card))
        return gw_fail(why, GW_E_PEER, "net/rdma: the peer's card makes no sense");
    bool same = card.ethernet == device->ethernet &&
                (card.ethernet || memcmp(card.network, device->gid.raw, sizeof card.network) == 0) &&
                card.address.family == device->address.family;
    return same ||
           gw_fail(why, GW_E_UNSUPPORTED, "net/rdma: %s port %u and the peer's device are on two fabrics",
                   device->name, device->port);
}

static const gw_word_domain *rdma_domain(gw_path *path) {
    return gw_rdma_words_domain(path_of(path)->words);
}

static void rdma_close(gw_path *base) {
    rdma_path *path = path_of(base);
    GW_CHECK(path->ends == NULL);
    gw_timer_cancel(&path->barring);
    gw_rdma_askers_close(path->askers);
    gw_rdma_cm_close(path->cm);
    gw_rdma_words_close(path->words);
    gw_rdma_memory_close(path->memory);
    pthread_mutex_destroy(&path->lock);
    free(path->members);
    free(path);
}

static const gw_path_ops rdma_ops = {
    .kind = GW_PATH_RDMA,
    .card = rdma_card,
    .suits = rdma_suits,
    .open = rdma_open,
    .message = rdma_message,
    .channel = rdma_channel,
    .post = rdma_post,
    .abandon = rdma_abandon,
    .close_end = rdma_close_end,
    .fence_begin = rdma_fence_begin,
    .fence_end = rdma_fence_end,
    .domain = rdma_domain,
    .close = rdma_close,
};

static bool open_parts(rdma_path *path, const gw_rdma_options *options, gw_err *err) {
    static const gw_rdma_asker_events asker_events = {on_completed, on_passed, on_asker_broken};
    const gw_rdma_cm_events cm_events = {.context = path,
                                         .asked = on_asked,
                                         .accepted = on_accepted,
                                         .connected = on_connected,
                                         .ended = on_ended,
                                         .lost = on_lost,
                                         .found = on_found};
    gw_rdma_device device;
    if (!gw_rdma_device_open(&device, options, err)) return false;
    path->memory = gw_rdma_memory_open(&device, err);
    if (path->memory == NULL) return false;
    path->words = gw_rdma_words_open(path->memory, path->base.host->words, err);
    if (path->words == NULL) return false;
    path->cm = gw_rdma_cm_open(gw_rdma_memory_device(path->memory), path->base.host->loop, &cm_events,
                               &path->port, err);
    if (path->cm == NULL) return false;
    path->askers = gw_rdma_askers_open(path->base.host->direct, &asker_events, err);
    return path->askers != NULL;
}

gw_path *gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err) {
    rdma_path *path = calloc(1, sizeof *path);
    if (path == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    path->base = (gw_path){&rdma_ops, host};
    pthread_mutex_init(&path->lock, NULL);
    if (open_parts(path, options, err)) return &path->base;
    if (path->memory != NULL) {
        gw_rdma_cm_close(path->cm);
        gw_rdma_words_close(path->words);
        gw_rdma_memory_close(path->memory);
    }
    pthread_mutex_destroy(&path->lock);
    free(path);
    return NULL;
}
