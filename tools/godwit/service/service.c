#include "tools/godwit/service/service.h"

#include "checkpoint/catalog.h"
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/base/utf8.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/os/priority.h"
#include "core/os/trace.h"
#include "tools/godwit/thread/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOSE_NS UINT64_C(2000000000)

/* One client. The loop's thread owns it. */
typedef struct session {
    struct session *next, *previous;
    gw_service *service;
    gw_stream *stream;
    uint64_t number;   /* of the connection, counted from 1 */
    uint64_t order;    /* of its request among all requests; while it is idle, of its last sign of life */
    bool ready;        /* it is authenticated */
    bool asks, served; /* a request waits; it is being carried out */
    gw_service_request request;
    gw_trace_cursor *trace; /* NULL: it does not trace */
    uint64_t traced_ns;     /* its last TRACE */
} session;

struct gw_service {
    gw_store *store;
    gw_service_world world;
    gw_peer_id self;
    gw_addr addr;
    gw_keyring no_keys;
    gw_hash cluster; /* of the peers */
    bool keyed;      /* they have a key */
    gw_local local;  /* of connections by the control socket */
    gw_loop *loop;
    pthread_t thread;
    gw_helper *helper;

    /* The loop's thread owns these. */
    session ring; /* ring.next is the oldest */
    uint32_t count;
    uint64_t connections, order;
    gw_timer beat, pace;
    uint64_t next_ns; /* no chunk is begun before */

    bool working; /* a request is being carried out */
    gw_trace_unended open[GW_TRACE_BATCH_OPEN];

    atomic_bool closing;
    pthread_mutex_t lock; /* guards `inside` */
    pthread_cond_t outside;
    bool inside; /* the helper has a task that it has not finished */
};

static void serve_next(void *service);

/* Sessions. */

static bool send_answer(session *s, const gw_service_answer *answer, gw_err *err) {
    uint8_t *bytes;
    size_t length;
    if (!gw_service_answer_encode(answer, &bytes, &length, err)) return false;
    bool sent = gw_stream_send(s->stream, bytes, length, err);
    free(bytes);
    return sent;
}

static void end_trace(session *s) {
    if (s->trace == NULL) return;
    gw_trace_close(s->trace);
    free(s->trace);
    s->trace = NULL;
}

static void forget(session *s) {
    end_trace(s);
    s->next->previous = s->previous;
    s->previous->next = s->next;
    s->service->count--;
    free(s);
}

static void end(session *s, const char *why) {
    gw_log(GW_DEBUG, "service", "client %llu: %s", (unsigned long long)s->number, why);
    gw_stream_close(s->stream);
    forget(s);
}

/* Ends the connection that has been idle for longest. False if all but `newcomer` are being served. */
static bool make_room(gw_service *service, const session *newcomer) {
    session *longest = NULL;
    for (session *s = service->ring.next; s != &service->ring; s = s->next)
        if (s != newcomer && !s->asks && !s->served && (longest == NULL || s->order < longest->order))
            longest = s;
    if (longest == NULL) return false;
    end(longest, "it has been idle, and another client has come");
    return true;
}

/* Requests that are answered at once, as they wait for nothing. */

static void answer_now(session *s, const gw_service_answer *answer) {
    gw_err err;
    if (!send_answer(s, answer, &err)) end(s, err.text);
}

/* Begins to record for this client, or encodes what was recorded since it asked last. */
static bool read_trace(session *s, uint8_t **bytes, size_t *length, gw_err *err) {
    gw_service *service = s->service;
    if (s->trace == NULL) {
        s->trace = malloc(sizeof *s->trace);
        if (s->trace == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory for a trace");
        gw_trace_open(s->trace);
    }
    s->traced_ns = gw_now_ns();
    uint32_t count =
        service->world.open_spans != NULL
            ? service->world.open_spans(service->world.context, service->open, GW_TRACE_BATCH_OPEN)
            : 0;
    return gw_trace_batch_encode(s->trace, service->world.workers, service->open, count, bytes, length, err);
}

static void answer_trace(session *s) {
    gw_service_answer answer = {.kind = GW_SERVICE_TRACE, .id = s->request.id};
    uint8_t *bytes = NULL;
    size_t length = 0;
    gw_err err;
    if (read_trace(s, &bytes, &length, &err)) {
        answer.bytes = bytes;
        answer.length = (uint32_t)length;
    } else {
        answer.outcome = GW_SERVICE_UNAVAILABLE;
        gw_utf8_shorten(err.text, answer.why, sizeof answer.why);
    }
    answer_now(s, &answer);
    free(bytes);
}

static void message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    (void)stream;
    session *s = context;
    gw_err err;
    uint64_t now_ns = gw_now_ns();
    if (s->asks || s->served)
        end(s, "it has sent a request before the last one was answered");
    else if (!gw_service_request_decode(bytes, count, &s->request, &err))
        end(s, err.text);
    else if (s->request.kind == GW_SERVICE_TIME)
        answer_now(s, &(gw_service_answer){.kind = GW_SERVICE_TIME,
                                           .id = s->request.id,
                                           .received_ns = now_ns,
                                           .sent_ns = gw_now_ns()});
    else if (s->request.kind == GW_SERVICE_TRACE)
        answer_trace(s);
    else {
        s->asks = true;
        s->order = ++s->service->order;
        serve_next(s->service);
    }
}

static void closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    (void)stream, (void)why, (void)fault;
    session *s = context;
    gw_log(GW_DEBUG, "service", "client %llu: %s", (unsigned long long)s->number, text);
    forget(s);
}

/* A client is authenticated: it is welcomed, or told that there are too many. */
static void welcome(session *s) {
    gw_service_answer answer = {.kind = GW_SERVICE_WELCOME, .self = s->service->self};
    gw_err err;
    const gw_remote *remote = gw_stream_remote(s->stream);
    char from[GW_ADDR_TEXT];
    s->ready = true;
    gw_log(GW_INFO, "service", "a client %s%s is served",
           remote->from.family != 0 ? "at " : "in the directory",
           remote->from.family != 0 ? gw_addr_text(&remote->from, from) : "");
    if (s->service->count > GW_SERVICE_CLIENTS && !make_room(s->service, s)) {
        answer.outcome = GW_SERVICE_BUSY;
        snprintf(answer.why, sizeof answer.why, "it is serving %d clients already", GW_SERVICE_CLIENTS);
        gw_fail(&err, GW_E_LIMIT, "there are too many clients");
    }
    if (!send_answer(s, &answer, &err) || answer.outcome != GW_SERVICE_DONE) end(s, err.text);
}

static void ready(void *context, gw_stream *stream, const gw_remote *remote) {
    (void)stream, (void)remote;
    welcome(context);
}

static session *add_session(gw_service *service) {
    session *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->service = service;
    s->number = ++service->connections;
    s->order = ++service->order;
    s->next = &service->ring;
    s->previous = service->ring.previous;
    s->previous->next = s;
    service->ring.previous = s;
    service->count++;
    return s;
}

static gw_stream_events events_of(session *s) {
    return (gw_stream_events){.context = s, .ready = ready, .message = message, .closed = closed};
}

/* Connections come from other threads. */

typedef struct arrival {
    gw_detached detached; /* must come first: its ciphers need its alignment */
    gw_service *service;
    int local_fd; /* -1: it is `detached` */
} arrival;

static void refuse(arrival *a, const char *why) {
    gw_log(GW_WARN, "service", "a client cannot be served: %s", why);
    if (a->local_fd < 0)
        gw_detached_close(&a->detached);
    else
        close(a->local_fd);
    free(a);
}

static void arrive(void *context) {
    arrival *a = context;
    gw_service *service = a->service;
    gw_err err;
    const gw_addr nowhere = {0};
    session *s = atomic_load(&service->closing) ? NULL : add_session(service);
    if (s == NULL) {
        refuse(a, "this peer ends, or is out of memory");
        return;
    }
    gw_stream_events events = events_of(s);
    bool local = a->local_fd >= 0;
    s->stream = local ? gw_stream_answer(service->loop, &service->local, a->local_fd, &nowhere, &events, &err)
                      : gw_stream_attach(service->loop, &a->detached, &events, &err);
    free(a);
    if (s->stream == NULL) {
        gw_log(GW_WARN, "service", "a client cannot be served: %s", err.text);
        forget(s);
    } else if (!local) {
        welcome(s);
    }
}

static arrival *make_arrival(gw_service *service, int local_fd) {
    arrival *a = aligned_alloc(_Alignof(arrival), sizeof *a);
    if (a == NULL) return NULL;
    memset(a, 0, sizeof *a);
    a->service = service;
    a->local_fd = local_fd;
    return a;
}

void gw_service_take(gw_service *service, gw_stream *stream) {
    gw_err err;
    arrival *a = make_arrival(service, -1);
    if (a == NULL || !gw_stream_detach(stream, &a->detached, &err)) {
        gw_log(GW_WARN, "service", "a client cannot be served: out of memory");
        gw_stream_close(stream);
        free(a);
        return;
    }
    if (!gw_loop_post(service->loop, arrive, a, &err)) refuse(a, err.text);
}

void gw_service_take_local(gw_service *service, int fd) {
    gw_err err;
    int flags = fcntl(fd, F_GETFL);
    arrival *a = flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 ? make_arrival(service, fd) : NULL;
    if (a == NULL)
        close(fd);
    else if (!gw_loop_post(service->loop, arrive, a, &err))
        refuse(a, err.text);
}

void gw_service_local_cluster(gw_hash *cluster) {
    gw_cluster_id("the control socket of a directory", cluster);
}

/* Requests are carried out on the helper's thread. */

typedef struct task {
    gw_service *service;
    uint64_t number; /* of the connection */
    gw_service_request request;
    uint8_t *bytes; /* the encoded answer; NULL: out of memory */
    size_t length;
} task;

static void fail(gw_service_answer *answer, const gw_err *why) {
    bool missing = why->code == GW_E_NOTFOUND || why->code == GW_E_CORRUPT;
    answer->outcome = missing                  ? GW_SERVICE_NOTFOUND
                      : why->code == GW_E_PEER ? GW_SERVICE_UNREACHABLE
                                               : GW_SERVICE_UNAVAILABLE;
    gw_utf8_shorten(why->text, answer->why, sizeof answer->why);
}

static bool list(gw_service *service, gw_service_answer *answer, gw_err *err) {
    gw_catalog catalog;
    if (!gw_catalog_load(gw_store_io(service->store), gw_store_dir(service->store), &catalog, err)) {
        gw_catalog_free(&catalog);
        return false;
    }
    uint32_t count = catalog.good_count < GW_SERVICE_LISTED ? catalog.good_count : GW_SERVICE_LISTED;
    answer->listed = calloc(count + 1u, sizeof *answer->listed);
    for (uint32_t i = 0; answer->listed != NULL && i < count; i++) {
        const gw_manifest *m = &catalog.good[i];
        answer->listed[answer->count++] =
            (gw_checkpoint_key){.job_id = m->job_id, .step = m->step, .root = m->root};
    }
    gw_catalog_free(&catalog);
    return answer->listed != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
}

/* The answer points into what *memory becomes, which the caller frees. */
static bool read_manifest(gw_service *service, const gw_service_request *request, gw_service_answer *answer,
                          void **memory, gw_err *err) {
    const gw_checkpoint_key *key = &request->checkpoint;
    size_t length;
    if (!gw_catalog_bytes(gw_store_io(service->store), gw_store_dir(service->store), &key->job_id, key->step,
                          &key->root, memory, &length, err))
        return false;
    if (request->offset > length) return gw_fail(err, GW_E_NOTFOUND, "the manifest ends at byte %zu", length);
    size_t left = length - (size_t)request->offset;
    answer->file_bytes = length;
    answer->offset = request->offset;
    answer->length = left < GW_SERVICE_PIECE_BYTES ? (uint32_t)left : GW_SERVICE_PIECE_BYTES;
    answer->bytes = (const uint8_t *)*memory + request->offset;
    return true;
}

gw_set gw_service_held(gw_store *store, const gw_manifest *manifest) {
    gw_set held = gw_set_of(manifest->chunk_count);
    for (uint32_t i = 0; i < manifest->chunk_count; i++)
        if (gw_store_has(store, &manifest->chunks[i], gw_chunk_length(manifest->state_bytes, i)))
            gw_set_add(&held, i);
    return held;
}

/* Asks the other peers one after the other which chunks they have. */
static void ask_others(gw_service *service, const gw_checkpoint_key *key, uint32_t chunk_count,
                       gw_service_answer *answer) {
    uint32_t count = service->world.peers(service->world.context, answer->holders + 1, GW_SERVICE_PEERS - 1);
    for (uint32_t i = 1; i <= count && !atomic_load(&service->closing); i++) {
        gw_service_holder *holder = &answer->holders[i];
        gw_err err;
        answer->count++;
        if (holder->knowledge == GW_HOLDER_SILENT) continue;
        bool told = service->world.held(service->world.context, &holder->id, key, &holder->chunks, &err);
        if (told && holder->chunks.size != chunk_count) gw_set_free(&holder->chunks), told = false;
        holder->knowledge = told                    ? GW_HOLDER_KNOWN
                            : err.code == GW_E_PEER ? GW_HOLDER_SILENT
                                                    : GW_HOLDER_UNKNOWN;
    }
}

/* This peer's own entry in a list of peers. The caller frees the list. */
static bool begin_holders(const gw_service *service, gw_service_answer *answer, gw_err *err) {
    answer->holders = calloc(GW_SERVICE_PEERS, sizeof *answer->holders);
    if (answer->holders == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    answer->holders[0] =
        (gw_service_holder){.id = service->self, .addr = service->addr, .knowledge = GW_HOLDER_UNKNOWN};
    gw_utf8_shorten(service->world.name, answer->holders[0].name, GW_SERVICE_NAME_TEXT);
    answer->count = 1;
    return true;
}

static bool list_members(gw_service *service, gw_service_answer *answer, gw_err *err) {
    if (!begin_holders(service, answer, err)) return false;
    answer->count += service->world.peers(service->world.context, answer->holders + 1, GW_SERVICE_PEERS - 1);
    answer->cluster = service->cluster;
    answer->keyed = service->keyed;
    return true;
}

static bool find_holders(gw_service *service, const gw_service_request *request, gw_service_answer *answer,
                         gw_err *err) {
    const gw_checkpoint_key *key = &request->checkpoint;
    gw_manifest manifest;
    if (!gw_catalog_find(gw_store_io(service->store), gw_store_dir(service->store), &key->job_id, key->step,
                         &key->root, &manifest, err))
        return false;
    bool good = begin_holders(service, answer, err);
    if (good) {
        answer->holders[0].knowledge = GW_HOLDER_KNOWN;
        answer->holders[0].chunks = gw_service_held(service->store, &manifest);
        if (request->others) ask_others(service, key, manifest.chunk_count, answer);
    }
    gw_manifest_free(&manifest);
    return good;
}

static bool read_chunk(gw_service *service, const gw_service_request *request, gw_service_answer *answer,
                       void **memory, gw_err *err) {
    *memory = malloc(request->length);
    if (*memory == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    answer->bytes = *memory;
    answer->length = request->length;
    if (gw_peer_id_equal(&request->peer, &service->self))
        return gw_store_read(service->store, &request->name, *memory, request->length, err);
    return service->world.fetch(service->world.context, &request->peer, &request->name, *memory,
                                request->length, err);
}

static bool carry_out(gw_service *service, const gw_service_request *request, gw_service_answer *answer,
                      void **memory, gw_err *err) {
    switch (request->kind) {
    case GW_SERVICE_LIST:
        return list(service, answer, err);
    case GW_SERVICE_MANIFEST:
        return read_manifest(service, request, answer, memory, err);
    case GW_SERVICE_HOLDERS:
        return find_holders(service, request, answer, err);
    case GW_SERVICE_CHUNK:
        return read_chunk(service, request, answer, memory, err);
    case GW_SERVICE_MEMBERS:
        return list_members(service, answer, err);
    case GW_SERVICE_WELCOME:
    case GW_SERVICE_TIME:
    case GW_SERVICE_TRACE:
        break;
    }
    return gw_fail(err, GW_E_INVALID, "no such request");
}

/* On the loop's thread: the answer is sent, if the client is still there. */
static void deliver(void *context) {
    task *t = context;
    gw_service *service = t->service;
    gw_err err;
    service->working = false;
    session *s = service->ring.next;
    while (s != &service->ring && s->number != t->number) s = s->next;
    if (s != &service->ring) {
        s->served = false;
        s->order = ++service->order;
        if (t->bytes == NULL || !gw_stream_send(s->stream, t->bytes, t->length, &err))
            end(s, t->bytes == NULL ? "out of memory for its answer" : err.text);
    }
    free(t->bytes);
    free(t);
    serve_next(service);
}

static void run_task(void *context) {
    task *t = context;
    gw_service *service = t->service;
    gw_service_answer answer = {.kind = t->request.kind, .id = t->request.id};
    void *memory = NULL;
    gw_err err;
    gw_priority_lower();
    if (!carry_out(service, &t->request, &answer, &memory, &err)) fail(&answer, &err);
    if (!gw_service_answer_encode(&answer, &t->bytes, &t->length, &err)) t->bytes = NULL;
    if (t->bytes != NULL && t->length > GW_MESSAGE_BYTES) {
        free(t->bytes);
        t->bytes = NULL;
    }
    gw_service_answer_free(&answer);
    free(memory);
    GW_ASSERT_MEMORY(gw_loop_post(service->loop, deliver, t, &err));
    pthread_mutex_lock(&service->lock);
    service->inside = false;
    pthread_cond_signal(&service->outside);
    pthread_mutex_unlock(&service->lock);
}

/* Gives the request that has waited for longest to the helper, when it is idle and the pace allows it. */
static void serve_next(void *context) {
    gw_service *service = context;
    session *first = NULL;
    gw_err err;
    for (session *s = service->ring.next; s != &service->ring; s = s->next)
        if (s->asks && (first == NULL || s->order < first->order)) first = s;
    if (first == NULL || service->working || atomic_load(&service->closing)) return;
    uint64_t now = gw_now_ns(), bytes = first->request.kind == GW_SERVICE_CHUNK ? first->request.length : 0;
    if (bytes > 0 && now < service->next_ns) {
        GW_ASSERT_MEMORY(
            gw_timer_set(service->loop, &service->pace, service->next_ns, serve_next, service, &err));
        return;
    }
    if (service->next_ns < now) service->next_ns = now;
    service->next_ns += bytes * 1000000000 / GW_SERVICE_BYTES_PER_S;
    task *t = calloc(1, sizeof *t);
    GW_ASSERT_MEMORY(t != NULL);
    *t = (task){.service = service, .number = first->number, .request = first->request};
    first->asks = false;
    first->served = service->working = true;
    pthread_mutex_lock(&service->lock);
    service->inside = true;
    pthread_mutex_unlock(&service->lock);
    gw_helper_give(service->helper, run_task, t);
}

/* The thread. */

/* Heartbeats tell the clients that this peer lives, however long a request takes. */
static void beat(void *context) {
    gw_service *service = context;
    gw_err err;
    uint64_t now_ns = gw_now_ns();
    for (session *s = service->ring.next, *next; s != &service->ring; s = next) {
        next = s->next;
        if (s->trace != NULL && now_ns - s->traced_ns > GW_SERVICE_TRACE_NS) {
            end(s, "it has begun a trace and does not fetch it");
            continue;
        }
        if (s->ready && gw_stream_queued(s->stream) == 0 && !gw_stream_send(s->stream, NULL, 0, &err))
            end(s, err.text);
    }
    GW_ASSERT_MEMORY(
        gw_timer_set(service->loop, &service->beat, gw_now_ns() + GW_HEARTBEAT_NS, beat, service, &err));
}

static void *service_main(void *context) {
    gw_service *service = context;
    pthread_setname_np(pthread_self(), "gw-service");
    gw_priority_lower();
    beat(service);
    gw_loop_run(service->loop);
    return NULL;
}

static void release(gw_service *service) {
    gw_helper_close(service->helper);
    if (service->loop != NULL) gw_loop_close(service->loop);
    pthread_cond_destroy(&service->outside);
    pthread_mutex_destroy(&service->lock);
    free(service);
}

gw_service *gw_service_open(const gw_local *local, gw_store *store, const gw_service_world *world,
                            gw_err *err) {
    gw_service *service = calloc(1, sizeof *service);
    if (service == NULL) {
        gw_fail(err, GW_E_NOMEM, "service: out of memory");
        return NULL;
    }
    service->store = store;
    service->world = *world;
    service->self = local->identity->id;
    service->addr = local->listen;
    service->local = *local;
    service->cluster = local->cluster;
    service->keyed = local->keyring->count > 0;
    service->local.keyring = &service->no_keys;
    gw_service_local_cluster(&service->local.cluster);
    service->ring.next = service->ring.previous = &service->ring;
    pthread_mutex_init(&service->lock, NULL);
    gw_cond_init(&service->outside);
    service->loop = gw_loop_open(err);
    service->helper = service->loop != NULL ? gw_helper_open("gw-service-read", err) : NULL;
    int failure = service->helper != NULL ? pthread_create(&service->thread, NULL, service_main, service) : 0;
    if (service->helper != NULL && failure == 0) return service;
    if (failure != 0) gw_fail_thread(err, failure, "service");
    release(service);
    return NULL;
}

static bool await_helper(gw_service *service) {
    uint64_t until_ns = gw_now_ns() + CLOSE_NS;
    pthread_mutex_lock(&service->lock);
    while (service->inside)
        if (!gw_cond_wait_until(&service->outside, &service->lock, until_ns)) break;
    bool hangs = service->inside;
    pthread_mutex_unlock(&service->lock);
    return !hangs;
}

bool gw_service_close(gw_service *service) {
    if (service == NULL) return true;
    atomic_store(&service->closing, true);
    gw_loop_stop(service->loop);
    pthread_join(service->thread, NULL);
    if (!await_helper(service)) return false;
    gw_timer_cancel(&service->beat);
    gw_timer_cancel(&service->pace);
    gw_loop_turn(service->loop, 0); /* what other threads have posted is freed */
    while (service->ring.next != &service->ring) {
        gw_stream_close(service->ring.next->stream);
        forget(service->ring.next);
    }
    release(service);
    return true;
}
