/* The speed of messages in one direction between two processes, which is that of a large one-sided
 * transfer. Over RDMA each message is written into the receiver's slots (net/rdma/channel.h), and copied
 * from there. */
#include "core/os/clock.h"
#include "tools/bench/bench.h"
#include "tools/bench/mesh.h"

#include "net/data/rail.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, ROUND_BYTES = 32 << 20, SIZES = 3 };

typedef struct options {
    uint32_t kinds;
    uint32_t bytes; /* size of a message; 0 = a table of sizes */
} options;

/* One side. Rank 0 sends rounds of messages; rank 1 answers each round with an empty one. */
typedef struct side {
    const gw_transport_ops *ops;
    gw_transport *transport;
    uint32_t rank, bytes, messages; /* messages: the number in a round */
    gw_rail_peer *peer;
    uint32_t to_send, arrived, rounds; /* used by the rail's thread only */
    uint64_t begun_ns;
    double ns[ROUNDS];
    uint8_t *buffer;
    struct iovec part;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
} side;

static void finish(side *s) {
    pthread_mutex_lock(&s->lock);
    s->done = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void begin_round(side *s) {
    s->begun_ns = gw_now_ns();
    s->to_send = s->messages;
    s->ops->rail_push(s->transport, s->peer);
}

static void on_up(void *context, gw_rail_peer *peer) {
    side *s = context;
    s->peer = peer;
    if (s->rank == 0) begin_round(s);
}

static void on_down(void *context, gw_rail_peer *peer) {
    (void)peer;
    finish(context);
}

static bool on_next(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    side *s = context;
    (void)peer;
    if (s->to_send == 0) return false;
    s->to_send--;
    *message = (gw_rail_message){.bytes = s->rank == 0 ? s->bytes : 0, .part_count = 1, .parts = &s->part};
    return true;
}

static void on_sent(void *context, gw_rail_peer *peer) {
    (void)context;
    (void)peer;
}

static gw_arrival on_arrive(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    side *s = context;
    (void)peer;
    message->parts = &s->part;
    message->part_count = message->bytes > 0;
    return message->bytes == (s->rank == 0 ? 0 : s->bytes) ? GW_ARRIVAL_LAND : GW_ARRIVAL_REFUSE;
}

static void on_landed(void *context, gw_rail_peer *peer) {
    side *s = context;
    if (s->rank != 0) {
        if (++s->arrived % s->messages != 0) return;
        s->to_send++;
        s->ops->rail_push(s->transport, peer);
        return;
    }
    s->ns[s->rounds++] = (double)(gw_now_ns() - s->begun_ns);
    if (s->rounds < ROUNDS)
        begin_round(s);
    else
        finish(s);
}

static void on_woken(void *context, uint32_t rail) {
    (void)context;
    (void)rail;
}

static void ignore_completion(void *context, const gw_completion *completion) {
    (void)context;
    (void)completion;
}

static bool member(gw_mesh *mesh, uint32_t rank, void *argument) {
    const options *o = argument;
    side s = {
        .rank = rank, .bytes = o->bytes, .messages = ROUND_BYTES / o->bytes, .buffer = calloc(1, o->bytes)};
    gw_transport_events events = {.completed = ignore_completion};
    gw_err err;
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.changed, NULL);
    if (s.buffer == NULL || !gw_mesh_join(mesh, rank, &events, &s.transport, &err)) {
        fprintf(stderr, "godwit bench write: %s\n", s.buffer == NULL ? "out of memory" : err.text);
        free(s.buffer);
        return false;
    }
    s.part = (struct iovec){s.buffer, o->bytes};
    s.ops = s.transport->ops;
    gw_rail_user user = {.context = &s,
                         .up = on_up,
                         .down = on_down,
                         .next = on_next,
                         .sent = on_sent,
                         .arrive = on_arrive,
                         .landed = on_landed,
                         .woken = on_woken};
    s.ops->rail_use(s.transport, &user);
    if (rank == 0) {
        pthread_mutex_lock(&s.lock);
        while (!s.done) pthread_cond_wait(&s.changed, &s.lock);
        pthread_mutex_unlock(&s.lock);
    }
    gw_mesh_finish(mesh, rank);
    s.ops->rail_use(s.transport, NULL);
    gw_transport_close(s.transport);
    free(s.buffer);
    if (rank != 0) return true;
    if (s.rounds < ROUNDS) {
        fputs("godwit bench write: the link broke\n", stderr);
        return false;
    }
    double seconds = gw_mesh_percentile(s.ns, ROUNDS, 50) * 1e-9;
    printf("%10u %10.1f\n", o->bytes, (double)s.messages * o->bytes / (1 << 20) / seconds);
    return true;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 't':
        if (gw_fabric_kinds(argument, &o->kinds)) return 0;
        gw_argp_error(state, "--transport: '%s' is none of tcp, shm, rdma and auto", argument);
        return EINVAL;
    case 'b':
        o->bytes = (uint32_t)gw_number_of_option(state, "--bytes", argument, 1, GW_RAIL_PAYLOAD);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int gw_bench_write(int argc, char **argv) {
    static const struct argp_option table[] = {
        {"bytes", 'b', "BYTES", 0, "Send only messages of this size", 0},
        {"transport", 't', "KIND", 0, "The path: tcp, shm, rdma or auto (tcp)", 0},
        {0}};
    const struct argp argp = {.options = table,
                              .parser = parse,
                              .doc = "Measures messages in one direction between two processes."};
    options o = {.kinds = GW_FABRIC_TCP};
    if (gw_argp_parse(&argp, argc, argv, &o) != 0) return 2;
    if (sodium_init() < 0) return 1;
    static const uint32_t sizes[SIZES] = {4096, 65536, GW_RAIL_PAYLOAD};
    printf("%10s %10s\n", "bytes", "MB/s");
    for (int i = 0; i < SIZES; i++) {
        options one = o;
        gw_mesh mesh;
        gw_err err;
        if (o.bytes == 0) one.bytes = sizes[i];
        if (!gw_mesh_make(&mesh, o.kinds, 2, 1, GW_ALGORITHM_PLAIN, &err)) {
            fprintf(stderr, "%s: %s\n", argv[0], err.text);
            return 1;
        }
        if (!gw_mesh_run(&mesh, member, &one)) return 1;
        if (o.bytes != 0) break;
    }
    return 0;
}
