#include "net/onesided/onesided.h"

#include "core/base/assert.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A path message that is being sent. */
typedef struct path_message {
    struct path_message *next;
    gw_peer_id peer;
    uint64_t link;
    gw_path_note note;
    uint32_t count;
    uint8_t bytes[];
} path_message;

typedef enum cargo { NOTHING, REQUEST, REPLY, PATH_MESSAGE } cargo;

/* The state of a channel, to which the rail peer's `state` points. */
typedef struct channel {
    struct channel *next;
    gw_rail_peer *peer;
    uint64_t number;
    gw_requester *requester;
    gw_server *server;
    cargo sending;   /* the message that the rail is sending */
    bool asked_last; /* the last message was a request; requests and replies take turns */
    path_message *messages, **messages_last, *sending_message;
    cargo landing_cargo; /* the message that is arriving; a WRITE and a path message land in `written` */
    gw_request write;
    gw_path_note note;
    struct iovec landing, payload;
    uint8_t written[GW_SMALL_BYTES];
} channel;
_Static_assert(GW_WRITE_BYTES <= (int)GW_SMALL_BYTES && GW_PATH_HELLO_BYTES <= (int)GW_SMALL_BYTES,
               "they fit");

struct gw_onesided {
    gw_rail_thread *rail;
    uint32_t window, read_bytes;
    const gw_regions *regions;
    gw_provider *provider;
    gw_transport_events events;
    gw_onesided_received *receive;
    void *receiver_context;
    pthread_mutex_t inbox_lock;
    path_message *messages, **messages_last;
    gw_posted *posted, **posted_last;
    gw_lookup *answered; /* answered lookups, in any order */
    channel *channels;   /* accessed with the gate held */
    uint64_t numbers;
    _Atomic uint64_t served;
};

static void complete_unreachable(gw_onesided *onesided, gw_posted *posted) {
    gw_completion completion = {.token = posted->op.token,
                                .peer = posted->op.peer,
                                .kind = posted->op.kind,
                                .status = GW_OP_UNREACHABLE};
    free(posted);
    onesided->events.completed(onesided->events.context, &completion);
}

static void free_path_messages(path_message *first) {
    while (first != NULL) {
        path_message *next = first->next;
        free(first);
        first = next;
    }
}

/* The handlers of the rail's user, called with the gate held. */

static void on_up(void *context, gw_rail_peer *peer) {
    gw_onesided *onesided = context;
    channel *c = calloc(1, sizeof *c);
    peer->state = NULL;
    if (c != NULL) {
        c->number = ++onesided->numbers;
        c->requester = gw_requester_open(onesided->window, &onesided->events);
        c->server =
            gw_server_open(&peer->id, c->number, onesided->read_bytes, onesided->regions, onesided->provider);
    }
    if (c == NULL || c->requester == NULL || c->server == NULL) {
        if (c != NULL && c->requester != NULL) gw_requester_close(c->requester);
        if (c != NULL && c->server != NULL) gw_server_close(c->server);
        free(c);
        gw_err err;
        gw_fail(&err, GW_E_NOMEM, "net/onesided: no memory for a channel");
        gw_rail_thread_refuse(onesided->rail, peer, &err);
        return;
    }
    c->peer = peer;
    c->messages_last = &c->messages;
    peer->state = c;
    c->next = onesided->channels;
    onesided->channels = c;
}

static void on_down(void *context, gw_rail_peer *peer) {
    gw_onesided *onesided = context;
    channel *gone = peer->state;
    if (gone == NULL) return;
    for (channel **at = &onesided->channels; *at != NULL; at = &(*at)->next) {
        if (*at != gone) continue;
        *at = gone->next;
        break;
    }
    gw_requester_close(gone->requester);
    gw_server_close(gone->server);
    free_path_messages(gone->messages);
    free(gone->sending_message);
    free(gone);
}

static bool next_path_message(channel *c, gw_rail_message *message) {
    path_message *t = c->messages;
    if (t == NULL) return false;
    c->messages = t->next;
    if (c->messages == NULL) c->messages_last = &c->messages;
    c->sending_message = t;
    c->payload = (struct iovec){t->bytes, t->count};
    gw_path_note_encode(&t->note, message->header);
    return true;
}

static bool next_reply(channel *c, gw_rail_message *message) {
    gw_reply reply;
    if (!gw_server_next(c->server, &reply, &c->payload)) return false;
    gw_reply_encode(&reply, message->header);
    return true;
}

static bool next_request(channel *c, gw_rail_message *message) {
    gw_request request;
    if (!gw_requester_next(c->requester, &request, &c->payload)) return false;
    gw_request_encode(&request, message->header);
    return true;
}

static cargo pick_next(channel *c, gw_rail_message *message) {
    if (next_path_message(c, message)) return PATH_MESSAGE;
    if (c->asked_last && next_reply(c, message)) return REPLY;
    if (next_request(c, message)) return REQUEST;
    return next_reply(c, message) ? REPLY : NOTHING;
}

static bool on_next(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    (void)context;
    channel *c = peer->state;
    if (c == NULL) return false;
    GW_ASSERT(c->sending == NOTHING);
    c->sending = pick_next(c, message);
    if (c->sending == NOTHING) return false;
    c->asked_last = c->sending == REQUEST;
    message->bytes = (uint32_t)c->payload.iov_len;
    message->part_count = 1;
    message->parts = &c->payload;
    return true;
}

static void on_sent(void *context, gw_rail_peer *peer) {
    (void)context;
    channel *c = peer->state;
    GW_ASSERT(c->sending != NOTHING);
    if (c->sending == REPLY) gw_server_sent(c->server);
    if (c->sending == PATH_MESSAGE) {
        free(c->sending_message);
        c->sending_message = NULL;
    }
    c->sending = NOTHING;
}

static bool serve(gw_onesided *onesided, channel *c, const gw_request *request, const void *payload,
                  uint32_t bytes) {
    atomic_fetch_add_explicit(&onesided->served, 1, memory_order_relaxed);
    return gw_server_take(c->server, request, payload, bytes);
}

static gw_arrival take_request(gw_onesided *onesided, channel *c, const gw_request *request,
                               gw_rail_message *message) {
    if (request->kind == GW_OP_WRITE) {
        if (message->bytes != request->bytes || request->bytes > GW_WRITE_BYTES) return GW_ARRIVAL_REFUSE;
        c->landing_cargo = REQUEST;
        c->write = *request;
        c->landing = (struct iovec){c->written, message->bytes};
        return GW_ARRIVAL_LAND;
    }
    if (message->bytes != 0 || !serve(onesided, c, request, NULL, 0)) return GW_ARRIVAL_REFUSE;
    gw_rail_thread_push(onesided->rail, c->peer);
    return GW_ARRIVAL_DROP; /* there is no payload */
}

static gw_arrival on_arrive(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    gw_onesided *onesided = context;
    channel *c = peer->state;
    gw_request request;
    gw_reply reply;
    if (c == NULL) return GW_ARRIVAL_REFUSE;
    gw_arrival arrival = GW_ARRIVAL_REFUSE;
    c->landing_cargo = NOTHING;
    message->parts = &c->landing;
    message->part_count = 1;
    if (onesided->receive != NULL && gw_path_note_decode(message->header, &c->note)) {
        c->landing_cargo = PATH_MESSAGE;
        c->landing = (struct iovec){c->written, message->bytes};
        return message->bytes <= sizeof c->written ? GW_ARRIVAL_LAND : GW_ARRIVAL_REFUSE;
    }
    switch (gw_header_decode(message->header, &request, &reply)) {
    case GW_HEADER_BAD:
        return GW_ARRIVAL_REFUSE;
    case GW_HEADER_REQUEST:
        arrival = take_request(onesided, c, &request, message);
        break;
    case GW_HEADER_REPLY:
        arrival = gw_requester_place(c->requester, &reply, message->bytes, &c->landing);
        if (arrival == GW_ARRIVAL_LAND) c->landing_cargo = REPLY;
        gw_rail_thread_push(onesided->rail, peer); /* the window may have room now */
        break;
    }
    return arrival;
}

static void on_landed(void *context, gw_rail_peer *peer) {
    gw_onesided *onesided = context;
    channel *c = peer->state;
    cargo landed = c->landing_cargo;
    c->landing_cargo = NOTHING;
    if (landed == PATH_MESSAGE) {
        onesided->receive(onesided->receiver_context, &peer->id, peer->link, &c->note, c->written,
                          (uint32_t)c->landing.iov_len);
    } else if (landed == REPLY) {
        gw_requester_landed(c->requester);
    } else if (!serve(onesided, c, &c->write, c->written, c->write.bytes)) {
        gw_err err;
        gw_fail(&err, GW_E_PEER, "net/onesided: the peer sent too many requests at once");
        gw_rail_thread_refuse(onesided->rail, peer, &err);
    }
    gw_rail_thread_push(onesided->rail, peer);
}

static channel *find_channel(const gw_onesided *onesided, const gw_peer_id *peer) {
    for (channel *c = onesided->channels; c != NULL;
         c = c->next) /* newest first, so that a link's successor comes before it */
        if (gw_peer_id_equal(&c->peer->id, peer)) return c;
    return NULL;
}

static void take_answer(gw_onesided *onesided, gw_lookup *lookup) {
    for (channel *c = onesided->channels; c != NULL; c = c->next) {
        if (c->number != lookup->channel) continue;
        gw_server_answered(c->server, lookup);
        gw_rail_thread_push(onesided->rail, c->peer);
        return;
    }
    gw_lookup_free(lookup);
}

static void take_path_message(gw_onesided *onesided, path_message *t) {
    for (channel *c = onesided->channels; c != NULL; c = c->next) {
        if (c->peer->link != t->link || !gw_peer_id_equal(&c->peer->id, &t->peer)) continue;
        t->next = NULL;
        *c->messages_last = t;
        c->messages_last = &t->next;
        gw_rail_thread_push(onesided->rail, c->peer);
        return;
    }
    free(t);
}

/* Hands what other threads left in the inbox to its channels. With `refresh` (on the rail's thread only) the
 * channels are brought up to date first; without it there are no channels any more. */
static void take_inbox(gw_onesided *onesided, bool refresh) {
    pthread_mutex_lock(&onesided->inbox_lock);
    gw_posted *posted = onesided->posted;
    gw_lookup *answered = onesided->answered;
    path_message *messages = onesided->messages;
    onesided->messages = NULL;
    onesided->messages_last = &onesided->messages;
    onesided->posted = NULL;
    onesided->posted_last = &onesided->posted;
    onesided->answered = NULL;
    pthread_mutex_unlock(&onesided->inbox_lock);
    if (refresh) gw_rail_thread_refresh(onesided->rail);
    while (messages != NULL) {
        path_message *next = messages->next;
        take_path_message(onesided, messages);
        messages = next;
    }
    while (posted != NULL) {
        gw_posted *next = posted->next;
        channel *c = find_channel(onesided, &posted->op.peer);
        if (c == NULL) {
            complete_unreachable(onesided, posted);
        } else {
            gw_requester_add(c->requester, posted);
            gw_rail_thread_push(onesided->rail, c->peer);
        }
        posted = next;
    }
    while (answered != NULL) {
        gw_lookup *next = answered->next;
        take_answer(onesided, answered);
        answered = next;
    }
}

static void on_woken(void *context, uint32_t number) {
    (void)number;
    take_inbox(context, true);
}

/* Takes the operations on `peer` (NULL: on all) out of the inbox. */
static gw_posted *take_posted(gw_onesided *onesided, const gw_peer_id *peer) {
    gw_posted *taken = NULL, **taken_last = &taken;
    pthread_mutex_lock(&onesided->inbox_lock);
    gw_posted **at = &onesided->posted;
    while (*at != NULL) {
        gw_posted *posted = *at;
        if (peer != NULL && !gw_peer_id_equal(&posted->op.peer, peer)) {
            at = &posted->next;
            continue;
        }
        *at = posted->next;
        posted->next = NULL;
        *taken_last = posted;
        taken_last = &posted->next;
    }
    onesided->posted_last = at;
    pthread_mutex_unlock(&onesided->inbox_lock);
    return taken;
}

/* From outside. */

gw_onesided *gw_onesided_open(gw_rail_thread *rail, uint32_t window, uint32_t read_bytes,
                              const gw_regions *regions, gw_provider *provider,
                              const gw_transport_events *events, gw_onesided_received *receive,
                              void *receiver_context, gw_err *err) {
    gw_onesided *onesided = calloc(1, sizeof *onesided);
    if (onesided == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/onesided: no memory");
        return NULL;
    }
    *onesided = (gw_onesided){.rail = rail,
                              .window = window,
                              .read_bytes = read_bytes,
                              .regions = regions,
                              .provider = provider,
                              .events = *events,
                              .receive = receive,
                              .receiver_context = receiver_context};
    onesided->posted_last = &onesided->posted;
    onesided->messages_last = &onesided->messages;
    pthread_mutex_init(&onesided->inbox_lock, NULL);
    gw_rail_user user = {.context = onesided,
                         .up = on_up,
                         .down = on_down,
                         .next = on_next,
                         .sent = on_sent,
                         .arrive = on_arrive,
                         .landed = on_landed,
                         .woken = on_woken};
    gw_rail_thread_enter(rail);
    gw_rail_thread_use(rail, &user);
    gw_rail_thread_leave(rail);
    return onesided;
}

void gw_onesided_close(gw_onesided *onesided) {
    GW_ASSERT(onesided->channels == NULL);
    take_inbox(onesided, false); /* what still waits has no channel: it is unreachable, or dropped */
    pthread_mutex_destroy(&onesided->inbox_lock);
    free(onesided);
}

void gw_onesided_post(gw_onesided *onesided, gw_posted *posted) {
    posted->next = NULL;
    pthread_mutex_lock(&onesided->inbox_lock);
    *onesided->posted_last = posted;
    onesided->posted_last = &posted->next;
    pthread_mutex_unlock(&onesided->inbox_lock);
    gw_rail_thread_wake(onesided->rail);
}

uint64_t gw_onesided_served(gw_onesided *onesided) {
    return atomic_load_explicit(&onesided->served, memory_order_relaxed);
}

void gw_onesided_tell(gw_onesided *onesided, const gw_peer_id *peer, uint64_t link, const gw_path_note *note,
                      const void *bytes, uint32_t count) {
    GW_ASSERT(count <= GW_SMALL_BYTES);
    path_message *t = malloc(sizeof *t + count);
    GW_ASSERT_MEMORY(t != NULL);
    *t = (path_message){.peer = *peer, .link = link, .note = *note, .count = count};
    if (count > 0) memcpy(t->bytes, bytes, count);
    pthread_mutex_lock(&onesided->inbox_lock);
    *onesided->messages_last = t;
    onesided->messages_last = &t->next;
    pthread_mutex_unlock(&onesided->inbox_lock);
    gw_rail_thread_wake(onesided->rail);
}

void gw_onesided_answered(gw_onesided *onesided, gw_lookup *lookup) {
    pthread_mutex_lock(&onesided->inbox_lock);
    lookup->next = onesided->answered;
    onesided->answered = lookup;
    pthread_mutex_unlock(&onesided->inbox_lock);
    gw_rail_thread_wake(onesided->rail);
}

/* Makes the channel release the requester's memory, if it holds any. If that would lose a request or a path
 * message of the other side, the link ends. */
static void release_channel(gw_onesided *onesided, channel *c) {
    bool lands_theirs = c->landing_cargo == REQUEST || c->landing_cargo == PATH_MESSAGE;
    if (c->sending != REQUEST && c->landing_cargo != REPLY) return;
    (void)gw_rail_thread_release(onesided->rail, c->peer);
    if (c->sending != NOTHING) on_sent(onesided, c->peer);
    c->landing_cargo = NOTHING;
    if (!lands_theirs) return;
    gw_err err;
    gw_fail(&err, GW_E_PEER, "net/onesided: abandoned in the middle of a message from the peer");
    gw_rail_thread_refuse(onesided->rail, c->peer, &err);
}

static void end_unanswered(gw_onesided *onesided, channel *c) {
    gw_err err;
    gw_fail(&err, GW_E_PEER,
            "net/onesided: the peer has not answered %d fetches, all given up by now: does its disk hang?",
            GW_REQUESTER_WINDOW);
    gw_rail_thread_refuse(onesided->rail, c->peer, &err);
}

void gw_onesided_abandon(gw_onesided *onesided, const gw_peer_id *peer) {
    gw_rail_thread_enter(onesided->rail);
    /* The rest of the inbox is left to the rail's thread, since it may be for a channel that is not up
     * yet. */
    gw_posted *posted = take_posted(onesided, peer);
    while (posted != NULL) {
        gw_posted *next = posted->next;
        complete_unreachable(onesided, posted);
        posted = next;
    }
    for (channel *c = onesided->channels; c != NULL; c = c->next) {
        if (peer != NULL && !gw_peer_id_equal(&c->peer->id, peer)) continue;
        release_channel(onesided, c);
        if (!gw_requester_abandon(c->requester)) end_unanswered(onesided, c);
    }
    gw_rail_thread_leave(onesided->rail);
    gw_rail_thread_wake(onesided->rail);
}
