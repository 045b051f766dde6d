/* int64 all-reduce between processes on loopback, unencrypted and encrypted, beside OpenMPI's TCP path in
 * the same run if that is installed (tools/bench/mpi/, compiled here with mpicc). */
#include "core/os/clock.h"
#include "tools/bench/bench.h"
#include "tools/bench/mesh.h"
#include "tools/bench/records.h"

#include "net/collective/collective.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3, WARM_UP = 3, MOST_REPEATS = 1000, SIZES = 6 };

typedef struct options {
    uint32_t peers, rails, repeats;
    uint64_t bytes; /* 0 = a table of sizes */
    uint32_t kinds;
    const char *transport;
    bool no_mpi;
} options;

/* One measurement, shared with the member processes. */
typedef struct job {
    uint32_t repeats;
    uint64_t bytes;
    double *ns; /* rank 0 fills these in */
    gw_record_speed speed;
} job;

typedef struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, failed;
} waiter;

static void on_done(void *context, const gw_collective_result *result) {
    waiter *w = context;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    w->failed = result->status != GW_COLLECTIVE_OK;
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

static bool check(const int64_t *out, uint64_t count, uint32_t peers, gw_err *err) {
    for (uint64_t i = 0; i < count; i++)
        if (out[i] != (int64_t)i * peers * (peers + 1) / 2)
            return gw_fail(err, GW_E_CORRUPT, "element %llu of the sum is wrong", (unsigned long long)i);
    return true;
}

static bool measure(gw_mesh *mesh, uint32_t rank, const job *j, int64_t *in, int64_t *out, gw_err *err) {
    waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    gw_transport_events events = {.context = NULL, .completed = ignore_completion};
    gw_transport *transport;
    gw_collective *collective;
    gw_peer_id members[GW_MESH_PEERS];
    uint32_t peers = mesh->count;
    for (uint32_t i = 0; i < peers; i++) members[i] = gw_mesh_id(i);
    for (uint64_t i = 0; i < j->bytes / 8; i++) in[i] = (int64_t)(i * (rank + 1));
    memset(out, 0, j->bytes);
    if (!gw_mesh_join(mesh, rank, &events, &transport, err) ||
        !gw_collective_open(transport, on_done, &w, &collective, err))
        return false;
    gw_collective_piece piece = {in, out, j->bytes / 8};
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
        if (rank == 0 && step >= WARM_UP) j->ns[step - WARM_UP] = (double)(gw_now_ns() - start);
    }
    done = done && check(out, j->bytes / 8, peers, err);
    gw_mesh_finish(mesh, rank);
    gw_collective_close(collective);
    gw_transport_close(transport);
    return done;
}

static bool member(gw_mesh *mesh, uint32_t rank, void *argument) {
    const job *j = argument;
    int64_t *in = malloc(j->bytes), *out = malloc(j->bytes);
    gw_err err;
    bool done = (in != NULL && out != NULL) || gw_fail(&err, GW_E_NOMEM, "no memory");
    done = done && measure(mesh, rank, j, in, out, &err);
    if (!done) fprintf(stderr, "godwit bench allreduce: %s\n", err.text);
    free(in);
    free(out);
    return done;
}

/* Comparison with OpenMPI. */

/* Compiles tools/bench/mpi/allreduce.c of the tree that this binary was built in; returns false where that
 * is impossible. */
static bool compile_mpi(char *program, size_t size) {
    char self[3072], command[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return false;
    self[length] = '\0';
    for (int up = 0; up < 2; up++) { /* <tree>/build/godwit */
        char *slash = strrchr(self, '/');
        if (slash == NULL) return false;
        *slash = '\0';
    }
    snprintf(program, size, "/tmp/godwit-mpi-XXXXXX");
    int fd = mkstemp(program);
    if (fd < 0) return false;
    close(fd);
    snprintf(command, sizeof command, "mpicc -O2 -o %s '%s/tools/bench/mpi/allreduce.c' >/dev/null 2>&1",
             program, self);
    if (system(command) == 0) return true;
    unlink(program);
    return false;
}

static bool run_mpi(const char *program, const options *o, uint64_t bytes, uint32_t repeats, double *ns) {
    char command[4096];
    snprintf(command, sizeof command,
             "mpirun --allow-run-as-root --oversubscribe -np %u --mca pml ob1 --mca btl self,tcp --mca "
             "btl_tcp_if_include lo %s %llu %u 2>/dev/null",
             o->peers, program, (unsigned long long)bytes, repeats);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return false;
    uint32_t got = 0;
    while (got < repeats && fscanf(pipe, "%lf", &ns[got]) == 1) got++;
    return pclose(pipe) == 0 && got == repeats;
}

/* The table. */

typedef struct column {
    double ns[ROUNDS * MOST_REPEATS];
    uint32_t count;
    bool present;
} column;

static bool run_godwit(const options *o, uint32_t kinds, uint64_t bytes, uint32_t repeats,
                       gw_algorithm algorithm, column *c) {
    gw_mesh mesh;
    gw_err err;
    job j = {.repeats = repeats, .bytes = bytes, .ns = c->ns + c->count};
    if (!gw_mesh_make(&mesh, kinds, o->peers, o->rails, algorithm, &err)) {
        fprintf(stderr, "godwit bench allreduce: %s\n", err.text);
        return false;
    }
    c->present = true;
    c->count += repeats;
    return gw_mesh_run(&mesh, member, &j);
}

static void print_cell(column *c) {
    if (c->present)
        printf(" %10.3f", gw_mesh_percentile(c->ns, c->count, 50) * 1e-6);
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
static bool bare_aead(const options *o, uint64_t bytes, double *ns) {
    gw_mesh mesh;
    gw_err err;
    job j = {.bytes = bytes};
    double moved = 2.0 * (o->peers - 1) / o->peers * (double)bytes;
    if (!gw_mesh_make(&mesh, GW_FABRIC_TCP, o->peers, 1, GW_ALGORITHM_PLAIN, &err)) {
        fprintf(stderr, "godwit bench allreduce: %s\n", err.text);
        return false;
    }
    if (!gw_mesh_run(&mesh, seal_and_open, &j)) return false;
    *ns = moved / j.speed.seal + moved / j.speed.open;
    return true;
}

static uint32_t repeats_of(const options *o, uint64_t bytes) {
    if (o->repeats != 0) return o->repeats;
    return bytes >= 4 << 20 ? 20 : bytes >= 1 << 18 ? 100 : 500;
}

/* Measures a path and TCP in turns. */
static bool print_path_row(const options *o, uint64_t bytes) {
    static column path, tcp;
    uint32_t repeats = repeats_of(o, bytes);
    path.count = tcp.count = 0;
    for (int round = 0; round < ROUNDS; round++)
        if (!run_godwit(o, o->kinds, bytes, repeats, GW_ALGORITHM_PLAIN, &path) ||
            !run_godwit(o, GW_FABRIC_TCP, bytes, repeats, GW_ALGORITHM_PLAIN, &tcp))
            return false;
    double best = gw_mesh_percentile(path.ns, path.count, 0) * 1e-6;
    printf("%10llu", (unsigned long long)bytes);
    print_cell(&path);
    printf(" %10.3f", best);
    print_cell(&tcp);
    printf(" %10.2f\n",
           gw_mesh_percentile(path.ns, path.count, 50) / gw_mesh_percentile(tcp.ns, tcp.count, 50));
    fflush(stdout);
    return true;
}

/* Measures all variants in turns, so that other load on the machine affects them alike. */
static bool print_row(const options *o, uint64_t bytes, const char *mpi) {
    static column columns[4];
    column *plain = &columns[0], *sealed = &columns[1], *aead = &columns[2], *open_mpi = &columns[3];
    uint32_t repeats = repeats_of(o, bytes);
    memset(columns, 0, sizeof columns);
    for (int round = 0; round < ROUNDS; round++) {
        if (!run_godwit(o, GW_FABRIC_TCP, bytes, repeats, GW_ALGORITHM_PLAIN, plain) ||
            !run_godwit(o, GW_FABRIC_TCP, bytes, repeats, gw_mesh_sealed(), sealed) ||
            !bare_aead(o, bytes, &aead->ns[aead->count++]))
            return false;
        if (mpi == NULL || !run_mpi(mpi, o, bytes, repeats, open_mpi->ns + open_mpi->count)) continue;
        open_mpi->present = true;
        open_mpi->count += repeats;
    }
    printf("%10llu", (unsigned long long)bytes);
    print_cell(plain);
    print_cell(open_mpi);
    if (open_mpi->present)
        printf(" %10.2f", gw_mesh_percentile(plain->ns, plain->count, 50) /
                              gw_mesh_percentile(open_mpi->ns, open_mpi->count, 50));
    else
        printf(" %10s", "-");
    print_cell(sealed);
    printf(" %9.0f%%\n", 100 * gw_mesh_percentile(aead->ns, aead->count, 50) /
                             gw_mesh_percentile(sealed->ns, sealed->count, 50));
    fflush(stdout);
    return true;
}

static bool print_paths(const options *o, const uint64_t sizes[SIZES]) {
    printf("all-reduce of int64, %u processes, %u rails: milliseconds\n", o->peers, o->rails);
    printf("%10s %10s %10s %10s %10s\n%10s %10s %10s %10s\n", "bytes", o->transport, o->transport, "tcp",
           "ratio", "", "median", "best", "median");
    bool good = true;
    for (int i = 0; i < SIZES && good; i++)
        if (o->bytes == 0 || i == 0) good = print_path_row(o, o->bytes != 0 ? o->bytes : sizes[i]);
    return good;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *o = state->input;
    if (key == 'x') {
        o->no_mpi = true;
        return 0;
    }
    if (key == 't') {
        o->transport = argument;
        if (gw_fabric_kinds(argument, &o->kinds)) return 0;
        gw_argp_error(state, "--transport: '%s' is none of tcp, shm, rdma and auto", argument);
        return EINVAL;
    }
    switch (key) {
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
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int gw_bench_allreduce(int argc, char **argv) {
    static const struct argp_option table[] = {
        {"peers", 'p', "N", 0, "Processes (2)", 0},
        {"lanes", 'l', "N", 0, "Streams and threads for collectives (1)", 0},
        {"bytes", 'b', "BYTES", 0, "Measure only this size", 0},
        {"repeats", 'r', "N", 0, "All-reduces in each of 3 rounds", 0},
        {"transport", 't', "KIND", 0, "The path, compared with tcp: tcp, shm, rdma or auto (tcp)", 0},
        {"no-mpi", 'x', NULL, 0, "Do not compare with OpenMPI", 0},
        {0},
    };
    const struct argp argp = {.options = table,
                              .parser = parse,
                              .doc = "Measures int64 all-reduce between processes on this machine: over TCP, "
                                     "unencrypted and encrypted, and with OpenMPI's TCP path if it is "
                                     "installed; or over another path, compared with TCP."};
    options o = {.peers = 2, .rails = 1, .kinds = GW_FABRIC_TCP, .transport = "tcp"};
    if (gw_argp_parse(&argp, argc, argv, &o) != 0) return 2;
    if (sodium_init() < 0) return 1;
    static const uint64_t sizes[SIZES] = {8, 4096, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
    if (o.kinds != GW_FABRIC_TCP) return print_paths(&o, sizes) ? 0 : 1;
    char mpi[64];
    bool has_mpi = !o.no_mpi && compile_mpi(mpi, sizeof mpi);
    if (!has_mpi && !o.no_mpi)
        fputs("OpenMPI (mpicc, mpirun) is not installed: there is no comparison\n", stderr);
    printf("all-reduce of int64, %u processes, %u rails: median milliseconds. of AEAD: the time that a core "
           "needs to seal and open the same bytes, as a share of 'encrypted'\n",
           o.peers, o.rails);
    printf("%10s %10s %10s %10s %10s %10s\n", "bytes", "plain", "OpenMPI", "plain/MPI", "encrypted",
           "of AEAD");
    bool good = true;
    for (int i = 0; i < SIZES && good; i++)
        if (o.bytes == 0 || i == 0)
            good = print_row(&o, o.bytes != 0 ? o.bytes : sizes[i], has_mpi ? mpi : NULL);
    if (has_mpi) unlink(mpi);
    return good ? 0 : 1;
}
