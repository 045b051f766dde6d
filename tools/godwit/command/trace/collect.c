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
enum { ROUNDS = 8, MUCH = 8000, LAST_BATCHES = 64 };

/* What the threads share. */
typedef struct gathering {
    const gw_collect_options *options;
    const gw_members *members;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool go, stop; /* guarded by `lock`, as is the next */
    uint32_t connected, failed, ended;
    uint64_t begin_ns, end_ns;
    atomic_uint_fast64_t spans;
    atomic_bool full;
} gathering;

typedef struct tracer {
    gathering *of;
    gw_traced_peer *peer;
    uint32_t member;
    gw_client *client; /* NULL: not connected yet */
    pthread_t thread;
    uint64_t from_ns, to_ns; /* by the peer's clock */
} tracer;

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
        t->client =
            gw_client_dial_member(t->of->members, t->member, options->place.key_file, options->program, err);
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

/* Waits until the trace is over, all of so many peers have ended, or a signal comes. */
static void await_end(gathering *g, uint32_t count) {
    bool signalled = false, over = false;
    while (!signalled && !over) {
        uint64_t now_ns = gw_now_ns(), left_ns = g->end_ns > now_ns ? g->end_ns - now_ns : 0;
        signalled = await_signal(left_ns < SELDOM_NS ? left_ns : SELDOM_NS);
        pthread_mutex_lock(&g->lock);
        over = is_over(g) || g->ended == count;
        pthread_mutex_unlock(&g->lock);
    }
    pthread_mutex_lock(&g->lock);
    g->stop = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
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

/* Lists the peers that are to be traced. `first` is the client of the first of them. */
static uint32_t list_peers(gathering *g, gw_client *first, tracer *tracers, gw_traced_peer *peers) {
    const gw_members *members = g->members;
    const gw_collect_options *options = g->options;
    uint32_t count = 0, shut = 0;
    bool lacks_key = members->keyed && options->place.key_file == NULL;
    for (uint32_t i = 0; i < members->count; i++) {
        if (i > 0 && members->list[i].knowledge == GW_HOLDER_SILENT) continue;
        if (i > 0 && lacks_key) {
            shut++;
            continue;
        }
        name_peer(&members->list[i], &peers[count]);
        tracers[count] =
            (tracer){.of = g, .peer = &peers[count], .member = i, .client = i == 0 ? first : NULL};
        count++;
    }
    if (shut > 0)
        fprintf(
            stderr,
            "%s: the other %u peer%s of this flock let%s in only who has its key: give --key FILE to trace "
            "them, too\n",
            options->program, shut, shut == 1 ? "" : "s", shut == 1 ? "s" : "");
    return count;
}

static bool run(gathering *g, tracer *tracers, gw_collected *collected, gw_err *err) {
    uint32_t count = collected->count, started = 0;
    bool good = true;
    for (; good && started < count; started++) {
        int failure = pthread_create(&tracers[started].thread, NULL, tracer_main, &tracers[started]);
        if (failure == 0) continue;
        good = gw_fail_thread(err, failure, "trace");
        break;
    }
    if (!good) {
        pthread_mutex_lock(&g->lock);
        g->stop = true;
        pthread_cond_broadcast(&g->changed);
        pthread_mutex_unlock(&g->lock);
    } else if (begin(g, count)) {
        await_end(g, count);
    }
    for (uint32_t i = 0; i < started; i++) pthread_join(tracers[i].thread, NULL);
    for (uint32_t i = started; i < count; i++) gw_client_close(tracers[i].client);
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

bool gw_collect(const gw_collect_options *options, gw_collected *collected, gw_err *err) {
    bool named = options->place.from != NULL;
    gw_members members;
    *collected = (gw_collected){.count = 0};
    gw_client *first = named ? gw_client_dial(&options->place, options->program, err)
                             : gw_client_open(options->dir, options->program, err);
    if (first == NULL) return false;
    if (!gw_client_members(first, &members, err)) {
        gw_fail_in(err, "%s", gw_client_name(first));
        gw_client_close(first);
        return false;
    }
    gathering g = {.options = options, .members = &members, .end_ns = UINT64_MAX};
    pthread_mutex_init(&g.lock, NULL);
    gw_cond_init(&g.changed);
    tracer *tracers = calloc(members.count, sizeof *tracers);
    collected->peers = calloc(members.count, sizeof *collected->peers);
    bool good = tracers != NULL && collected->peers != NULL;
    if (good) {
        collected->count = list_peers(&g, first, tracers, collected->peers);
        good = run(&g, tracers, collected, err) && tell(options, collected, err);
    } else {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        gw_client_close(first);
    }
    free(tracers);
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
