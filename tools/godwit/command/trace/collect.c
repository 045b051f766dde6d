#include "tools/godwit/command/trace/collect.h"

#include "core/base/utf8.h"
#include "core/os/clock.h"
#include "core/os/condition.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The trace begins without peers that take longer to connect. */
#define CONNECT_NS UINT64_C(5000000000)
/* The time between two fetches, from a peer that has much to tell and from others. */
#define OFTEN_NS  UINT64_C(15000000)
#define SELDOM_NS UINT64_C(100000000)
/* The time between two looks for peers that have joined. */
#define LOOK_NS UINT64_C(1000000000)
enum { ROUNDS = 8, MUCH = 8000, LAST_BATCHES = 64 };

typedef struct tracer tracer;

/* What the threads share. */
typedef struct gathering {
    const gw_collect_options *options;
    gw_hash cluster;
    gw_collected *collected; /* This and the next two are the main thread's. */
    tracer *tracers;         /* of collected->peers; there is room for GW_SERVICE_PEERS of both */
    gw_client *scout;        /* by which newcomers are found; NULL: they are not */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool go, stop; /* guarded by `lock`, as is the next */
    uint32_t connected, failed, ended;
    uint64_t begin_ns, end_ns;
    atomic_uint_fast64_t spans;
    atomic_bool full;
} gathering;

struct tracer {
    gathering *of;
    gw_traced_peer *peer;
    gw_service_holder member;
    gw_client *client; /* NULL: not connected yet */
    pthread_t thread;
    uint64_t from_ns, to_ns; /* by the peer's clock */
};

/* Notes how far the peer's clock is off. */
static bool measure(tracer *t, uint32_t rounds, bool late, gw_err *err) {
    for (uint32_t i = 0; i < rounds; i++) {
        gw_trace_round round;
        if (!gw_client_time(t->client, &round, err)) return false;
        gw_trace_offset_note(&t->peer->offset, &round, late);
    }
    return true;
}

/* Fetches what there is. *count becomes the number of spans that came, and *more whether there are others. */
static bool fetch(tracer *t, uint32_t *count, bool *more, gw_err *err) {
    gw_trace_batch batch;
    if (!gw_client_trace(t->client, &batch, err)) return false;
    if (t->from_ns == 0) t->from_ns = batch.now_ns;
    t->to_ns = batch.now_ns;
    *count = batch.span_count;
    *more = batch.more;
    uint64_t all = atomic_fetch_add(&t->of->spans, batch.span_count) + batch.span_count;
    if (all > GW_COLLECT_SPANS) atomic_store(&t->of->full, true);
    return gw_traced_peer_add(t->peer, &batch, err);
}

static bool is_over(gathering *g) {
    return g->stop || atomic_load(&g->full) || gw_now_ns() >= g->end_ns;
}

/* Waits for the time of the next fetch. False: the trace is over. */
static bool await_next(gathering *g, uint64_t wait_ns) {
    uint64_t until_ns = gw_now_ns() + wait_ns;
    pthread_mutex_lock(&g->lock);
    if (until_ns > g->end_ns) until_ns = g->end_ns;
    while (!is_over(g) && gw_cond_wait_until(&g->changed, &g->lock, until_ns)) continue;
    bool over = is_over(g);
    pthread_mutex_unlock(&g->lock);
    return !over;
}

/* Says that this thread is connected, or is not going to be, and waits until the trace begins. */
static void await_go(gathering *g, bool connected) {
    pthread_mutex_lock(&g->lock);
    if (connected)
        g->connected++;
    else
        g->failed++;
    pthread_cond_broadcast(&g->changed);
    while (connected && !g->go && !g->stop) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static bool connect(tracer *t, gw_err *err) {
    const gw_collect_options *options = t->of->options;
    if (t->client == NULL)
        t->client = gw_client_dial_member(&t->member, &t->of->cluster, options->place.key_file,
                                          options->program, err);
    return t->client != NULL && measure(t, ROUNDS, false, err);
}

static bool trace(tracer *t, gw_err *err) {
    gathering *g = t->of;
    uint32_t count = 0;
    bool more = false, goes_on = true;
    while (goes_on) {
        if (!fetch(t, &count, &more, err)) return false;
        goes_on = await_next(g, more ? 0 : count > MUCH ? OFTEN_NS : SELDOM_NS);
        bool late = gw_now_ns() > g->begin_ns + (g->end_ns - g->begin_ns) / 2;
        if (goes_on && !measure(t, 1, late, err)) return false;
    }
    for (uint32_t i = 0; i < LAST_BATCHES && (i == 0 || more); i++)
        if (!fetch(t, &count, &more, err)) return false;
    return measure(t, ROUNDS, true, err);
}

static void *tracer_main(void *context) {
    tracer *t = context;
    gw_err err = {.text = ""};
    bool connected = connect(t, &err);
    await_go(t->of, connected);
    if (!connected || !trace(t, &err)) gw_utf8_shorten(err.text, t->peer->why, sizeof t->peer->why);
    if (t->from_ns != 0) {
        t->peer->from_ns = gw_trace_offset_apply(&t->peer->offset, t->from_ns);
        t->peer->to_ns = gw_trace_offset_apply(&t->peer->offset, t->to_ns);
    }
    gw_client_close(t->client);
    pthread_mutex_lock(&t->of->lock);
    t->of->ended++;
    pthread_mutex_unlock(&t->of->lock);
    return NULL;
}

/* Waits for a signal that ends the trace, at most so long. */
static bool await_signal(uint64_t wait_ns) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    struct timespec wait = {.tv_sec = (time_t)(wait_ns / 1000000000),
                            .tv_nsec = (long)(wait_ns % 1000000000)};
    return sigtimedwait(&set, NULL, &wait) > 0;
}

/* Waits until the threads are connected, and lets them begin. False: a signal has come. */
static bool begin(gathering *g, uint32_t count) {
    uint64_t until_ns = gw_now_ns() + CONNECT_NS;
    bool signalled = false, all = false;
    while (!signalled && !all && gw_now_ns() < until_ns) {
        pthread_mutex_lock(&g->lock);
        all = g->connected + g->failed == count;
        pthread_mutex_unlock(&g->lock);
        if (!all) signalled = await_signal(10000000);
    }
    pthread_mutex_lock(&g->lock);
    g->begin_ns = gw_now_ns();
    g->end_ns = g->begin_ns + g->options->duration_ns;
    g->go = true;
    g->stop = signalled;
    uint32_t connected = g->connected;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (!signalled)
        fprintf(stderr, "%s: traces %u peer%s for %g s; Ctrl-C ends it earlier\n", g->options->program,
                connected, connected == 1 ? "" : "s", (double)g->options->duration_ns * 1e-9);
    return !signalled;
}

static void name_peer(const gw_service_holder *holder, gw_traced_peer *peer) {
    char id[GW_SHORT_TEXT];
    peer->id = holder->id;
    gw_peer_id_short(&holder->id, id);
    if (holder->name[0] != '\0')
        snprintf(peer->name, sizeof peer->name, "%s (%s)", holder->name, id);
    else
        snprintf(peer->name, sizeof peer->name, "%s", id);
}

/* Begins the thread of one more peer. The thread takes the client, which may be NULL. */
static bool add_tracer(gathering *g, const gw_service_holder *member, gw_client *client, gw_err *err) {
    gw_collected *collected = g->collected;
    tracer *t = &g->tracers[collected->count];
    gw_traced_peer *peer = &collected->peers[collected->count];
    *t = (tracer){.of = g, .peer = peer, .member = *member, .client = client};
    name_peer(member, peer);
    int failure = pthread_create(&t->thread, NULL, tracer_main, t);
    if (failure != 0) {
        gw_client_close(client);
        return gw_fail_thread(err, failure, "trace");
    }
    collected->count++;
    return true;
}

static bool is_traced(const gathering *g, const gw_peer_id *id) {
    for (uint32_t i = 0; i < g->collected->count; i++)
        if (gw_peer_id_equal(&g->collected->peers[i].id, id)) return true;
    return false;
}

/* Begins the threads of the members that are alive and have none yet. `first` is the client of the first of
 * them; NULL: it has its thread. *shut becomes the number of those that ask for a key. */
static bool add_members(gathering *g, const gw_members *members, gw_client *first, uint32_t *shut,
                        gw_err *err) {
    bool lacks_key = members->keyed && g->options->place.key_file == NULL;
    *shut = 0;
    if (first != NULL && !add_tracer(g, &members->list[0], first, err)) return false;
    for (uint32_t i = 1; i < members->count && g->collected->count < GW_SERVICE_PEERS; i++) {
        const gw_service_holder *member = &members->list[i];
        if (member->knowledge == GW_HOLDER_SILENT || is_traced(g, &member->id)) continue;
        if (lacks_key)
            ++*shut;
        else if (!add_tracer(g, member, NULL, err))
            return false;
    }
    return true;
}

/* Has peers that have joined meanwhile traced from here on. */
static void add_newcomers(gathering *g) {
    gw_members members;
    gw_err err;
    uint32_t shut;
    if (g->scout == NULL) return;
    bool good = gw_client_members(g->scout, &members, &err);
    if (good) {
        good = add_members(g, &members, NULL, &shut, &err);
        gw_members_free(&members);
    }
    if (good) return;
    gw_client_close(g->scout); /* that peer has ended, or has too many clients */
    g->scout = NULL;
}

/* Waits until the trace is over, all peers have ended, or a signal comes. */
static void await_end(gathering *g) {
    bool signalled = false, over = false;
    uint64_t look_ns = g->begin_ns + LOOK_NS;
    while (!signalled && !over) {
        uint64_t now_ns = gw_now_ns(), left_ns = g->end_ns > now_ns ? g->end_ns - now_ns : 0;
        signalled = await_signal(left_ns < SELDOM_NS ? left_ns : SELDOM_NS);
        if (now_ns >= look_ns) {
            add_newcomers(g);
            look_ns = gw_now_ns() + LOOK_NS;
        }
        pthread_mutex_lock(&g->lock);
        over = is_over(g) || g->ended == g->collected->count;
        pthread_mutex_unlock(&g->lock);
    }
}

static void stop(gathering *g) {
    pthread_mutex_lock(&g->lock);
    g->stop = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static bool run(gathering *g, const gw_members *members, gw_client *first, gw_err *err) {
    const gw_collect_options *options = g->options;
    gw_collected *collected = g->collected;
    uint32_t shut;
    bool good = add_members(g, members, first, &shut, err);
    if (good && shut > 0)
        fprintf(
            stderr,
            "%s: the other %u peer%s of this flock let%s in only who has its key: give --key FILE to trace "
            "them, too\n",
            options->program, shut, shut == 1 ? "" : "s", shut == 1 ? "s" : "");
    if (good && begin(g, collected->count)) await_end(g);
    stop(g);
    for (uint32_t i = 0; i < collected->count; i++) pthread_join(g->tracers[i].thread, NULL);
    collected->full = atomic_load(&g->full);
    return good;
}

/* Tells of the peers that were not traced, or not to the end. Fails where there is no other. */
static bool tell(const gw_collect_options *options, const gw_collected *collected, gw_err *err) {
    uint32_t traced = 0;
    for (uint32_t i = 0; i < collected->count; i++) {
        const gw_traced_peer *peer = &collected->peers[i];
        traced += peer->to_ns > 0;
        if (peer->why[0] != '\0')
            fprintf(stderr, "%s: peer %s %s: %s\n", options->program, peer->name,
                    peer->to_ns > 0 ? "was traced only until its connection ended" : "is not traced",
                    peer->why);
    }
    if (collected->full)
        fprintf(stderr, "%s: it ended early, after %d records: trace for fewer --seconds\n", options->program,
                GW_COLLECT_SPANS);
    return traced > 0 || gw_fail(err, GW_E_PEER, "no peer has told what it did");
}

/* Connects to the peer that is asked for the others. */
static gw_client *connect_first(const gw_collect_options *options, gw_err *err) {
    return options->place.from != NULL ? gw_client_dial(&options->place, options->program, err)
                                       : gw_client_open(options->dir, options->program, err);
}

bool gw_collect(const gw_collect_options *options, gw_collected *collected, gw_err *err) {
    gw_members members;
    gw_err unused;
    *collected = (gw_collected){.count = 0};
    gw_client *first = connect_first(options, err);
    if (first == NULL) return false;
    if (!gw_client_members(first, &members, err)) {
        gw_fail_in(err, "%s", gw_client_name(first));
        gw_client_close(first);
        return false;
    }
    gathering g = {
        .options = options, .cluster = members.cluster, .collected = collected, .end_ns = UINT64_MAX};
    pthread_mutex_init(&g.lock, NULL);
    gw_cond_init(&g.changed);
    g.tracers = calloc(GW_SERVICE_PEERS, sizeof *g.tracers);
    collected->peers = calloc(GW_SERVICE_PEERS, sizeof *collected->peers);
    bool good = g.tracers != NULL && collected->peers != NULL;
    if (good) {
        g.scout = connect_first(options, &unused);
        good = run(&g, &members, first, err) && tell(options, collected, err);
    } else {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        gw_client_close(first);
    }
    gw_client_close(g.scout);
    free(g.tracers);
    gw_members_free(&members);
    pthread_cond_destroy(&g.changed);
    pthread_mutex_destroy(&g.lock);
    return good;
}

void gw_collected_free(gw_collected *collected) {
    for (uint32_t i = 0; i < collected->count; i++) gw_traced_peer_free(&collected->peers[i]);
    free(collected->peers);
    *collected = (gw_collected){.count = 0};
}
