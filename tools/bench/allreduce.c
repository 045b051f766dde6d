/* The all-reduce of exact sums between processes: over TCP, unencrypted and encrypted, beside gloo's and
 * OpenMPI's of floats, on loopback or by a wire of a given rate; or over another path beside TCP. All of a row is
 * measured in turns, so that other load on the machine affects it alike. */
#include "core/os/clock.h"
#include "kernels/host/memory.h"
#include "tools/bench/bench.h"
#include "tools/bench/gradient.h"
#include "tools/bench/mesh.h"
#include "tools/bench/others.h"
#include "tools/bench/records.h"

#include "net/collective/collective.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, WARM_UP = 3, MOST_REPEATS = 1000, SIZES = 6 };

typedef struct options {
    uint32_t peers, rails, repeats;
    uint64_t bytes; /* 0 = a table of sizes */
    uint32_t kinds;
    const char *transport;
    const char *python; /* NULL: one is looked for */
    const char *rate;   /* NULL: on loopback */
    uint64_t bits_per_s;
    const gw_gradient *gradients;
    bool no_mpi, no_gloo, full;
} options;

/* One measurement, shared with the member processes. */
typedef struct job {
    uint32_t repeats;
    uint64_t count;
    const int64_t *base; /* of which every member adds its own order (element_of) */
    double *ns;          /* rank 0 fills these in */
    uint64_t sent_bytes; /* rank 0: payload to others in all calls after the warm-up */
    gw_record_speed speed;
} job;

typedef struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, failed;
    uint64_t sent_bytes;
} waiter;

static void on_done(void *context, const gw_collective_result *result) {
    waiter *w = context;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    w->failed = result->status != GW_COLLECTIVE_OK;
    w->sent_bytes = result->sent_bytes;
    if (result->err != NULL) fprintf(stderr, "godwit bench allreduce: %s\n", result->err->text);
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void ignore_completion(void *context, const gw_completion *completion) {
    (void)context;
    (void)completion;
}

static bool reduce(gw_collective *collective, waiter *w, gw_collective_call *call, uint32_t step,
                   gw_err *err) {
    call->tag.step = step;
    w->done = false;
    if (!gw_collective_start(collective, call, err)) return false;
    pthread_mutex_lock(&w->lock);
    while (!w->done) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return !w->failed || gw_fail(err, GW_E_PEER, "the all-reduce failed");
}

/* Element i of a member: the elements of a block in another order for each, so that their scale is that of the
 * block for all members, as it is in training. */
static int64_t element_of(const job *j, uint32_t rank, uint64_t i) {
    uint64_t block = i - i % GW_GRADIENT_BLOCK, left = j->count - block;
    uint64_t length = left < GW_GRADIENT_BLOCK ? left : GW_GRADIENT_BLOCK;
    return j->base[block + (i - block + 37 * (uint64_t)rank) % length];
}

static bool check(const job *j, const int64_t *out, uint32_t peers, gw_err *err) {
    for (uint64_t i = 0; i < j->count; i++) {
        uint64_t sum = 0;
        for (uint32_t rank = 0; rank < peers; rank++) sum += (uint64_t)element_of(j, rank, i);
        if ((uint64_t)out[i] != sum)
            return gw_fail(err, GW_E_CORRUPT, "element %" PRIu64 " of the sum is wrong", i);
    }
    return true;
}

static bool measure(gw_mesh *mesh, uint32_t rank, job *j, int64_t *in, int64_t *out, gw_err *err) {
    waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    gw_transport_events events = {.context = NULL, .completed = ignore_completion};
    gw_transport *transport;
    gw_collective *collective;
    gw_peer_id members[GW_MESH_PEERS];
    uint32_t peers = mesh->count;
    for (uint32_t i = 0; i < peers; i++) members[i] = gw_mesh_id(i);
    for (uint64_t i = 0; i < j->count; i++) in[i] = element_of(j, rank, i);
    memset(out, 0, j->count * sizeof *out);
    j->sent_bytes = 0;
    if (!gw_mesh_join(mesh, rank, &events, &transport, err) ||
        !gw_collective_open(transport, on_done, &w, &collective, err))
        return false;
    gw_collective_piece piece = {in, out, j->count};
    gw_collective_call call = {.tag = {.fence = {.epoch = 1, .view = {{1}}}},
                               .type = GW_SUM_I64,
                               .members = members,
                               .member_count = peers,
                               .rank = rank,
                               .pieces = &piece,
                               .piece_count = 1,
                               .progress_ms = 30000};
    bool done = true;
    for (uint32_t step = 0; step < j->repeats + WARM_UP && done; step++) {
        uint64_t start = gw_now_ns();
        done = reduce(collective, &w, &call, step, err);
        if (rank != 0 || step < WARM_UP) continue;
        j->ns[step - WARM_UP] = (double)(gw_now_ns() - start);
        j->sent_bytes += w.sent_bytes;
    }
    done = done && check(j, out, peers, err);
    gw_mesh_finish(mesh, rank);
    gw_collective_close(collective);
    gw_transport_close(transport);
    return done;
}

static bool member(gw_mesh *mesh, uint32_t rank, void *argument) {
    job *j = argument;
    size_t bytes = j->count * sizeof(int64_t);
    void *in = NULL, *out = NULL; /* in huge pages, as the sums of a run are */
    gw_err err;
    bool done = gw_memory_map(bytes, &in, &err) && gw_memory_map(bytes, &out, &err) &&
                measure(mesh, rank, j, in, out, &err);
    if (!done) fprintf(stderr, "godwit bench allreduce: %s\n", err.text);
    gw_memory_unmap(in, bytes);
    gw_memory_unmap(out, bytes);
    return done;
}

/* The table. */

typedef struct column {
    double ns[ROUNDS * MOST_REPEATS];
    uint32_t count;
    bool present;
} column;

/* What is measured, and with what. */
typedef struct bench {
    options o;
    gw_slow_wire wire;
    gw_gloo gloo;
    gw_mpi mpi;
    bool has_wire, has_gloo, has_mpi;
    int64_t *base;
    double sent_bytes; /* that process 0 has sent for each element in the latest measurement of Godwit */
} bench;

static bool complain(const gw_err *err) {
    fprintf(stderr, "godwit bench allreduce: %s\n", err->text);
    return false;
}

static bool run_godwit(bench *b, uint32_t kinds, uint64_t count, uint32_t repeats, gw_sealing sealing,
                       column *c) {
    gw_mesh mesh;
    gw_err err;
    job j = {.repeats = repeats, .count = count, .base = b->base, .ns = c->ns + c->count};
    if (!(b->has_wire ? gw_mesh_make_over(&mesh, &b->wire, b->o.rails, sealing.algorithm, &err)
                      : gw_mesh_make(&mesh, kinds, b->o.peers, b->o.rails, sealing.algorithm, &err)))
        return complain(&err);
    mesh.libcrypto_from = sealing.libcrypto_from;
    c->present = true;
    c->count += repeats;
    if (!gw_mesh_run(&mesh, member, &j)) return false;
    b->sent_bytes = (double)j.sent_bytes / repeats / (double)count;
    return true;
}

static double median(column *c) {
    return gw_mesh_percentile(c->ns, c->count, 50);
}

static void print_cell(column *c) {
    if (c->present)
        printf(" %10.3f", median(c) * 1e-6);
    else
        printf(" %10s", "-");
}

/* Prints by what factor the first takes longer. */
static void print_ratio(column *one, column *other) {
    if (one->present && other->present)
        printf(" %10.2f", median(one) / median(other));
    else
        printf(" %10s", "-");
}

static bool seal_and_open(gw_mesh *mesh, uint32_t rank, void *argument) {
    job *j = argument;
    gw_err err;
    bool done =
        gw_record_measure_speed((gw_sealing){gw_mesh_sealed(), 0}, 64 << 10, 64 << 20, &j->speed, &err);
    if (!done) fprintf(stderr, "godwit bench allreduce: %s\n", err.text);
    gw_mesh_finish(mesh, rank);
    return done;
}

/* Computes the time in nanoseconds in which a member seals and opens the bytes of an all-reduce, at the
 * speed of a core while the others do the same. */
static bool bare_aead(bench *b, uint64_t count, column *c) {
    gw_mesh mesh;
    gw_err err;
    job j = {.count = count};
    double moved = (double)count * b->sent_bytes;
    if (!gw_mesh_make(&mesh, GW_FABRIC_TCP, b->o.peers, 1, GW_ALGORITHM_PLAIN, &err)) return complain(&err);
    if (!gw_mesh_run(&mesh, seal_and_open, &j)) return false;
    c->present = true;
    c->ns[c->count++] = moved / j.speed.seal + moved / j.speed.open;
    return true;
}

static uint32_t repeats_of(const options *o, uint64_t bytes) {
    if (o->repeats != 0) return o->repeats;
    return bytes >= 4 << 20 ? 20 : bytes >= 1 << 18 ? 100 : 500;
}

/* Measures a path and TCP. */
static bool print_path_row(bench *b, uint64_t count, uint32_t repeats) {
    static column path, tcp;
    const gw_sealing plain = {GW_ALGORITHM_PLAIN, 0};
    path.count = tcp.count = 0;
    for (int round = 0; round < ROUNDS; round++)
        if (!run_godwit(b, b->o.kinds, count, repeats, plain, &path) ||
            !run_godwit(b, GW_FABRIC_TCP, count, repeats, plain, &tcp))
            return false;
    printf("%10" PRIu64, count);
    print_cell(&path);
    printf(" %10.3f", gw_mesh_percentile(path.ns, path.count, 0) * 1e-6);
    print_cell(&tcp);
    print_ratio(&path, &tcp);
    putchar('\n');
    return true;
}

/* Measures gloo once more; where it ends, it is left out from then on. */
static void run_gloo(bench *b, uint64_t count, uint32_t repeats, column *c) {
    gw_err err;
    if (!b->has_gloo) return;
    b->has_gloo = gw_gloo_run(&b->gloo, count, repeats, c->ns + c->count, &err);
    if (b->has_gloo) {
        c->count += repeats;
        c->present = true;
        return;
    }
    c->present = false;
    complain(&err);
    gw_gloo_stop(&b->gloo);
}

/* The same for OpenMPI. */
static void run_mpi(bench *b, const char *type, uint64_t count, uint32_t repeats, column *c) {
    gw_err err;
    if (!b->has_mpi) return;
    b->has_mpi = gw_mpi_run(&b->mpi, b->o.peers, type, count, repeats, c->ns + c->count, &err);
    c->present = b->has_mpi;
    if (b->has_mpi)
        c->count += repeats;
    else {
        complain(&err);
        gw_mpi_remove(&b->mpi);
    }
}

static bool print_row(bench *b, uint64_t count, uint32_t repeats) {
    enum { PLAIN, SEALED, SODIUM, AEAD, GLOO, MPI_FLOAT, MPI_INT, COLUMNS };
    static column c[COLUMNS];
    const gw_sealing plain = {GW_ALGORITHM_PLAIN, 0}, sealed = {gw_mesh_sealed(), 0},
                     sodium = {gw_mesh_sealed(), SIZE_MAX};
    bool both = gw_libcrypto_from() != SIZE_MAX;
    memset(c, 0, sizeof c);
    for (int round = 0; round < ROUNDS; round++) {
        if (!run_godwit(b, GW_FABRIC_TCP, count, repeats, plain, &c[PLAIN]) ||
            !run_godwit(b, GW_FABRIC_TCP, count, repeats, sealed, &c[SEALED]) ||
            !bare_aead(b, count, &c[AEAD]) ||
            (both && !run_godwit(b, GW_FABRIC_TCP, count, repeats, sodium, &c[SODIUM])))
            return false;
        run_gloo(b, count, repeats, &c[GLOO]);
        run_mpi(b, "float", count, repeats, &c[MPI_FLOAT]);
        run_mpi(b, "int64", count, repeats, &c[MPI_INT]);
    }
    printf("%10" PRIu64 " %10.2f", count, b->sent_bytes);
    print_cell(&c[PLAIN]);
    print_cell(&c[SEALED]);
    printf(" %9.0f%%", 100 * median(&c[AEAD]) / median(&c[SEALED]));
    print_cell(&c[SODIUM]);
    print_ratio(&c[SEALED], &c[SODIUM]);
    print_cell(&c[GLOO]);
    print_ratio(&c[PLAIN], &c[GLOO]);
    print_cell(&c[MPI_FLOAT]);
    print_ratio(&c[PLAIN], &c[MPI_FLOAT]);
    print_cell(&c[MPI_INT]);
    print_ratio(&c[PLAIN], &c[MPI_INT]);
    putchar('\n');
    return true;
}

static void print_head(const bench *b) {
    const options *o = &b->o;
    bool tcp = o->kinds == GW_FABRIC_TCP;
    printf("all-reduce of exact sums (int64), %u processes, %u rail%s, TCP %s%s: median milliseconds of %d "
           "rounds "
           "in turns\n",
           o->peers, o->rails, o->rails == 1 ? "" : "s", o->rate != NULL ? "by a wire of " : "on loopback",
           o->rate != NULL ? o->rate : "", ROUNDS);
    if (o->full)
        puts("elements: all 64 bits are random");
    else
        printf("elements: drawn like recorded gradients of %s\n", o->gradients->run);
    if (!tcp) {
        printf("%10s %10s %10s %10s %10s\n%10s %10s %10s %10s\n", "elements", o->transport, o->transport,
               "tcp", "ratio", "", "median", "best", "median");
        return;
    }
    puts("sent: the bytes that a process sends for each element. of AEAD: the time that a core needs to seal "
         "and open as many, as a share of 'encrypted'. sodium: encrypted by libsodium alone");
    printf("%10s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s\n", "elements", "sent", "plain",
           "encrypted", "of AEAD", "sodium", "enc/sodium", "gloo f32", "plain/gloo", "MPI f32", "plain/MPI",
           "MPI i64", "plain/MPI");
}

/* Prints a row for each size. */
static bool print_table(bench *b) {
    static const uint64_t sizes[SIZES] = {8, 4096, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
    print_head(b);
    for (int i = 0; i < SIZES; i++) {
        uint64_t bytes = b->o.bytes != 0 ? b->o.bytes : sizes[i], count = bytes / 8;
        if (b->o.bytes != 0 && i > 0) break;
        gw_err err;
        b->base = malloc(bytes);
        if (b->base == NULL) return gw_fail(&err, GW_E_NOMEM, "no memory") || complain(&err);
        if (b->o.full)
            gw_gradient_draw_full(b->base, count, bytes);
        else
            gw_gradient_draw(b->o.gradients, b->base, count, bytes);
        bool good =
            (b->o.kinds == GW_FABRIC_TCP ? print_row : print_path_row)(b, count, repeats_of(&b->o, bytes));
        free(b->base);
        if (!good) return false;
        fflush(stdout);
    }
    return true;
}

/* Starts what is compared with; what is missing is said, and left out. */
static void start_others(bench *b) {
    gw_err err;
    if (b->o.kinds != GW_FABRIC_TCP) return;
    if (!b->o.no_gloo) {
        b->has_gloo = gw_gloo_start(&b->gloo, b->o.python, b->o.peers, b->has_wire ? &b->wire : NULL, &err);
        if (!b->has_gloo) fprintf(stderr, "there is no comparison with gloo: %s\n", err.text);
    }
    if (b->o.no_mpi) return;
    if (b->has_wire) {
        fputs("there is no comparison with OpenMPI: its processes start on one network alone\n", stderr);
        return;
    }
    b->has_mpi = gw_mpi_compile(&b->mpi, &err);
    if (!b->has_mpi) fprintf(stderr, "there is no comparison with OpenMPI: %s\n", err.text);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 'x':
        o->no_mpi = true;
        return 0;
    case 'g':
        o->no_gloo = true;
        return 0;
    case 'f':
        o->full = true;
        return 0;
    case 'm':
        o->gradients = gw_gradient_of_option(state, argument);
        return 0;
    case 'y':
        o->python = argument;
        return 0;
    case 't':
        o->transport = argument;
        if (gw_fabric_kinds(argument, &o->kinds)) return 0;
        gw_argp_error(state, "--transport: '%s' is none of tcp, shm, rdma and auto", argument);
        return EINVAL;
    case 'w':
        o->rate = argument;
        if (gw_slow_wire_rate(argument, &o->bits_per_s)) return 0;
        gw_argp_error(state, "--rate: '%s' is no rate such as 100m or 10g, in bits a second", argument);
        return EINVAL;
    case 'p':
        o->peers = (uint32_t)gw_number_of_option(state, "--peers", argument, 2, GW_MESH_PEERS);
        return 0;
    case 'l':
        o->rails = (uint32_t)gw_number_of_option(state, "--lanes", argument, 1, GW_FABRIC_RAILS);
        return 0;
    case 'r':
        o->repeats = (uint32_t)gw_number_of_option(state, "--repeats", argument, 1, MOST_REPEATS);
        return 0;
    case 'b':
        o->bytes = gw_number_of_option(state, "--bytes", argument, 8, 1L << 32) / 8 * 8;
        return 0;
    case ARGP_KEY_END:
        if (o->rate != NULL && (o->peers != 2 || o->kinds != GW_FABRIC_TCP))
            gw_argp_error(state, "--rate: the wire is between two processes, and for --transport tcp");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int gw_bench_allreduce(int argc, char **argv) {
    static const struct argp_option table[] = {
        {"peers", 'p', "N", 0, "Processes (2)", 0},
        {"lanes", 'l', "N", 0, "Streams and threads for collectives (1)", 0},
        {"bytes", 'b', "BYTES", 0, "Measure only this size, of 8 bytes an element", 0},
        {"repeats", 'r', "N", 0, "All-reduces in each of 3 rounds", 0},
        {"full", 'f', NULL, 0, "Add elements whose 64 bits are random, instead of gradients", 0},
        {"gradients", 'm', "MODEL", 0, GW_GRADIENT_HELP, 0},
        {"transport", 't', "KIND", 0, "The path, compared with tcp: tcp, shm, rdma or auto (tcp)", 0},
        {"rate", 'w', "RATE", 0,
         "Between two network namespaces, which are made for it, by a wire of this rate, such as 1g: bits a "
         "second",
         0},
        {"python", 'y', "FILE", 0, "The Python with torch, for gloo (one that is found)", 0},
        {"no-gloo", 'g', NULL, 0, "Do not compare with gloo", 0},
        {"no-mpi", 'x', NULL, 0, "Do not compare with OpenMPI", 0},
        {0},
    };
    const struct argp argp = {
        .options = table,
        .parser = parse,
        .doc =
            "Measures the all-reduce of exact sums between processes on this machine: over TCP, unencrypted "
            "and "
            "encrypted, and beside it gloo's and OpenMPI's of as many floats, if they are installed; or over "
            "another path, compared with TCP."};
    static bench b = {.o = {.peers = 2,
                            .rails = 1,
                            .kinds = GW_FABRIC_TCP,
                            .transport = "tcp",
                            .gradients = &gw_gradients[0]}};
    gw_err err;
    if (gw_argp_parse(&argp, argc, argv, &b.o) != 0) return 2;
    if (sodium_init() < 0) return 1;
    (void)signal(SIGPIPE, SIG_IGN); /* a program that is compared with may end */
    if (b.o.rate != NULL) {
        b.has_wire = gw_slow_wire_make(&b.wire, b.o.bits_per_s, &err);
        if (!b.has_wire) {
            fprintf(stderr, "%s: --rate: %s\n", argv[0], err.text);
            return 1;
        }
    }
    start_others(&b);
    bool good = print_table(&b);
    if (b.has_gloo) gw_gloo_stop(&b.gloo);
    if (b.has_mpi) gw_mpi_remove(&b.mpi);
    if (b.has_wire) gw_slow_wire_close(&b.wire);
    return good ? 0 : 1;
}
