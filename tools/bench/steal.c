/* The round trip of a steal's READ and CAS between two processes on this machine, and of both together (a
 * steal). "busy link": while 64 MiB READs from the same victim are under way; "bare": with verbs alone.
 * Over TCP the threads at both ends sleep between operations (blocking) or do not (polling); over other
 * paths there is no thread at the victim's end (direct). */
#include "core/os/clock.h"
#include "tools/bench/bench.h"
#include "tools/bench/mesh.h"
#include "tools/bench/verbs.h"

#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORDS = 1, DATA = 2, DATA_BYTES = 64 << 20, WARM_UP = 1000 };
enum { TOKEN_WORD = 1, TOKEN_READ = 2 };

typedef struct options {
    uint32_t count; /* number of operations of each kind */
    uint32_t kinds;
    const char *transport;
    const char *mode;
    bool direct; /* the path is not TCP */
    bool spin;
} options;

/* The thief. It posts the next operation from the completion of the last one, so that only the transport
 * takes time. */
typedef struct thief {
    gw_transport *transport;
    gw_op op;
    uint64_t posted_ns;
    uint32_t left, measured;
    bool steals;         /* each READ is followed by a CAS of what it has read, and both count as one */
    atomic_bool arrived; /* the completion has come, or the post has returned */
    double *ns;
    bool failed, done;
    bool broken;    /* the link is gone */
    bool measuring; /* this is the thief's end, and it has not finished */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t word;    /* the word that was read */
    uint64_t swapped; /* the word that the last CAS wrote */
    uint8_t *copy;    /* not NULL: large READs run beside, one after the other */
    bool reading;
} thief;

static const gw_fence fence = {.epoch = 1, .view = {{1}}};

static void post_read(thief *t) {
    gw_op read = {
        .kind = GW_OP_READ, .token = TOKEN_READ, .peer = gw_mesh_id(1), .fence = fence, .region = DATA};
    read.buffer = t->copy;
    read.bytes = DATA_BYTES;
    gw_transport_post(t->transport, &read);
}

/* Goes on with the large READs until the small operations end. */
static void on_read(thief *t) {
    pthread_mutex_lock(&t->lock);
    bool again = !t->done;
    t->reading = again;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (again) post_read(t);
}

static void end(thief *t) {
    pthread_mutex_lock(&t->lock);
    t->done = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* Turns the operation into the next one; false where there is none. */
static bool prepare_next(thief *t) {
    if (t->failed) return false;
    if (t->steals && t->op.kind == GW_OP_READ) {
        t->op.kind = GW_OP_CAS;
        t->op.expected = t->word;
        t->op.operand = t->word + 1;
        t->swapped = t->op.operand;
        return true;
    }
    if (t->left < t->measured) t->ns[t->left] = (double)(gw_now_ns() - t->posted_ns);
    if (t->left == 0) return false;
    t->left--;
    if (t->steals)
        t->op.kind = GW_OP_READ;
    else
        t->op.expected = t->op.operand++;
    t->posted_ns = gw_now_ns();
    return true;
}

/* Posts one operation after the other. A completion may come from inside the post: of completion and
 * poster, the last one goes on. */
static void post_next(thief *t) {
    do {
        atomic_store(&t->arrived, false);
        gw_transport_post(t->transport, &t->op);
        if (!atomic_exchange(&t->arrived, true)) return;
    } while (prepare_next(t));
    end(t);
}

static void on_completed(void *context, const gw_completion *completion) {
    thief *t = context;
    if (completion->token == TOKEN_READ) {
        on_read(t);
        return;
    }
    t->failed = completion->status != GW_OP_OK;
    if (!atomic_exchange(&t->arrived, true)) return;
    if (prepare_next(t))
        post_next(t);
    else
        end(t);
}

static void on_down(void *context, const gw_peer_id *peer, uint64_t link, const gw_err *why) {
    thief *t = context;
    (void)peer;
    (void)link;
    pthread_mutex_lock(&t->lock);
    /* otherwise the other process has finished */
    if (t->measuring) fprintf(stderr, "godwit bench steal: %s\n", why->text);
    t->broken = true;
    pthread_mutex_unlock(&t->lock);
    end(t);
}

static void wait_done(thief *t) {
    pthread_mutex_lock(&t->lock);
    while (!t->done || t->reading) pthread_cond_wait(&t->changed, &t->lock);
    t->done = false;
    pthread_mutex_unlock(&t->lock);
}

static void print_row(const char *name, const options *o, double *ns) {
    printf("  %-14s %-9s %9.2f %9.2f %9.2f\n", name, o->mode, gw_mesh_percentile(ns, o->count, 50) * 1e-3,
           gw_mesh_percentile(ns, o->count, 90) * 1e-3, gw_mesh_percentile(ns, o->count, 99) * 1e-3);
}

static void measure(thief *t, gw_op_kind kind, bool steals, const char *name, const options *o) {
    t->op =
        (gw_op){.kind = kind, .token = TOKEN_WORD, .peer = gw_mesh_id(1), .fence = fence, .region = WORDS};
    t->op.expected = t->op.operand = t->swapped;
    t->op.buffer = &t->word;
    t->op.bytes = kind == GW_OP_READ ? 8 : 0;
    t->steals = steals;
    t->measured = o->count;
    t->left = o->count + WARM_UP;
    t->reading = t->copy != NULL;
    if (t->reading) post_read(t);
    t->posted_ns = gw_now_ns();
    post_next(t);
    wait_done(t);
    if (t->failed) return;
    if (kind == GW_OP_CAS) t->swapped = t->op.operand;
    print_row(name, o, t->ns);
}

/* Waits until the victim is in the view, and is reached directly where that is possible. */
static void await_victim(thief *t, const options *o) {
    do {
        t->op = (gw_op){
            .kind = GW_OP_CAS, .peer = gw_mesh_id(1), .fence = fence, .region = WORDS, .token = TOKEN_WORD};
        t->left = t->measured = 0;
        post_next(t);
        wait_done(t);
    } while (!t->broken && (t->failed || (o->direct && gw_transport_count(t->transport).direct == 0)));
}

static bool measure_bare(const options *o) {
    double *ns[3];
    gw_err err;
    for (int i = 0; i < 3; i++) ns[i] = calloc(o->count, sizeof(double));
    bool good = ns[0] != NULL && ns[1] != NULL && ns[2] != NULL;
    if (!good) gw_fail(&err, GW_E_NOMEM, "out of memory");
    good = good && gw_bench_verbs(o->count, ns[0], ns[1], ns[2], &err);
    if (good) {
        print_row("bare READ", o, ns[0]);
        print_row("bare CAS", o, ns[1]);
        print_row("bare steal", o, ns[2]);
    } else {
        fprintf(stderr, "godwit bench steal: bare verbs: %s\n", err.text);
    }
    for (int i = 0; i < 3; i++) free(ns[i]);
    return good;
}

static void set_measuring(thief *t, bool measuring) {
    pthread_mutex_lock(&t->lock);
    t->measuring = measuring;
    pthread_mutex_unlock(&t->lock);
}

static bool be_thief(thief *t, uint8_t *copy, const options *o) {
    set_measuring(t, true);
    await_victim(t, o);
    measure(t, GW_OP_READ, false, "READ", o);
    if (!t->failed) measure(t, GW_OP_CAS, false, "CAS", o);
    if (!t->failed) measure(t, GW_OP_READ, true, "steal", o);
    t->copy = copy;
    if (!t->failed) measure(t, GW_OP_CAS, false, "CAS, busy link", o);
    set_measuring(t, false);
    return !t->failed && (o->kinds != GW_FABRIC_RDMA || measure_bare(o));
}

/* Runs one member. Rank 1 is the victim: it serves until rank 0 has finished. */
static bool member(gw_mesh *mesh, uint32_t rank, void *argument) {
    const options *o = argument;
    thief t = {.ns = calloc(o->count, sizeof(double))};
    uint8_t *data = calloc(1, DATA_BYTES);
    gw_err err;
    pthread_mutex_init(&t.lock, NULL);
    pthread_cond_init(&t.changed, NULL);
    gw_peer_id members[] = {gw_mesh_id(0), gw_mesh_id(1)};
    gw_transport_events events = {.context = &t, .completed = on_completed, .link_down = on_down};
    if (t.ns == NULL || data == NULL || !gw_mesh_join(mesh, rank, &events, &t.transport, &err) ||
        !gw_transport_share_words(t.transport, WORDS, 1, &err) ||
        !gw_transport_register(t.transport, DATA, data, DATA_BYTES, &err) ||
        !gw_transport_fence(t.transport, &fence, members, 2, &err)) {
        fprintf(stderr, "godwit bench steal: %s\n",
                t.ns == NULL || data == NULL ? "out of memory" : err.text);
        free(t.ns);
        free(data);
        return false;
    }
    gw_transport_spin(t.transport, o->spin);
    bool good = rank != 0 || be_thief(&t, data, o);
    gw_mesh_finish(mesh, rank);
    gw_transport_close(t.transport);
    free(t.ns);
    free(data);
    return good;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *o = state->input;
    if (key == 't') {
        o->transport = argument;
        if (gw_fabric_kinds(argument, &o->kinds)) return 0;
        gw_argp_error(state, "--transport: '%s' is none of tcp, shm, rdma and auto", argument);
        return EINVAL;
    }
    if (key != 'n') return ARGP_ERR_UNKNOWN;
    o->count = (uint32_t)gw_number_of_option(state, "--count", argument, 1, 10000000);
    return 0;
}

int gw_bench_steal(int argc, char **argv) {
    static const struct argp_option table[] = {
        {"count", 'n', "N", 0, "Operations of each kind (20000)", 0},
        {"transport", 't', "KIND", 0, "The path: tcp, shm, rdma or auto (tcp)", 0},
        {0}};
    const struct argp argp = {.options = table,
                              .parser = parse,
                              .doc =
                                  "Measures the round trip of one-sided operations between two processes."};
    options o = {.count = 20000, .kinds = GW_FABRIC_TCP, .transport = "tcp"};
    if (gw_argp_parse(&argp, argc, argv, &o) != 0) return 2;
    if (sodium_init() < 0) return 1;
    o.direct = o.kinds != GW_FABRIC_TCP;
    for (int sealed = 0; sealed <= !o.direct; sealed++) {
        printf("%s, %s, microseconds\n  %-14s %-9s %9s %9s %9s\n", o.transport,
               sealed ? "encrypted" : "plain", "", "", "median", "90 %", "99 %");
        for (int spin = 0; spin <= !o.direct; spin++) {
            gw_mesh mesh;
            gw_err err;
            o.spin = spin != 0;
            o.mode = o.direct ? "direct" : o.spin ? "polling" : "blocking";
            if (!gw_mesh_make(&mesh, o.kinds, 2, 1, sealed ? gw_mesh_sealed() : GW_ALGORITHM_PLAIN, &err)) {
                fprintf(stderr, "%s: %s\n", argv[0], err.text);
                return 1;
            }
            if (!gw_mesh_run(&mesh, member, &o)) return 1;
        }
    }
    return 0;
}
