/* The cost of a checkpoint on this machine: hashing, writing in the background, and restoring. It is that
 * of a lone peer, which stores every chunk itself. */
#include "core/os/clock.h"
#include "tools/bench/bench.h"

#include "checkpoint/catalog.h"
#include "checkpoint/multi_hash.h"
#include "checkpoint/restore.h"
#include "checkpoint/writer.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MIB = 1 << 20, MOST_STATE_MIB = 64 << 10, RESTORE_THREADS = 2 };

typedef struct arguments {
    const char *dir; /* a folder is made below it, and removed */
    uint32_t state_mib, rounds;
} arguments;

static const struct argp_option bench_options[] = {
    {"dir", 'd', "DIR", 0, "Write below DIR, on the disk to measure (/tmp)", 0},
    {"state", 's', "MIB", 0, "Size of the state in MiB (64)", 0},
    {"rounds", 'r', "N", 0, "Make N checkpoints (5)", 0},
    {0},
};

static error_t parse_bench(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'd':
        a->dir = arg;
        return 0;
    case 's':
        a->state_mib = (uint32_t)gw_number_of_option(state, "--state", arg, 1, MOST_STATE_MIB);
        return 0;
    case 'r':
        a->rounds = (uint32_t)gw_number_of_option(state, "--rounds", arg, 1, 1000);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static double wall_s(void) {
    return (double)gw_now_ns() * 1e-9;
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

typedef struct bench {
    uint8_t *state;
    uint64_t state_bytes;
    gw_store *store;
    gw_ckpt_writer *writer;
    uint32_t *indices;
    gw_hash *chunks; /* chunks of the last checkpoint */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    uint32_t ends; /* number of callbacks so far */
    bool failed;
    gw_err err;
} bench;

static void checkpoint_done(void *context, const gw_ckpt_done *done) {
    bench *b = context;
    pthread_mutex_lock(&b->lock);
    if (done->err != NULL) {
        b->failed = true;
        b->err = *done->err;
    }
    for (uint32_t i = 0; i < done->chunk_count; i++) b->chunks[done->chunks[i].index] = done->chunks[i].name;
    b->ends++;
    pthread_cond_signal(&b->ended);
    pthread_mutex_unlock(&b->lock);
}

/* Waits for the callback number `ends`; fails when a callback brought an error. */
static bool wait_for(bench *b, uint32_t ends, gw_err *err) {
    pthread_mutex_lock(&b->lock);
    while (b->ends < ends) pthread_cond_wait(&b->ended, &b->lock);
    bool done = !b->failed;
    if (!done) *err = b->err;
    pthread_mutex_unlock(&b->lock);
    return done;
}

static bool read_state(void *context, uint64_t offset, void *bytes, size_t length, gw_err *err) {
    (void)err;
    memcpy(bytes, ((bench *)context)->state + offset, length);
    return true;
}

static bool write_state(void *context, uint64_t offset, const void *bytes, uint32_t length, gw_err *err) {
    (void)err;
    memcpy(((bench *)context)->state + offset, bytes, length);
    return true;
}

/* Makes one checkpoint of a state that has changed in every chunk, and deletes the previous one. */
static bool one_round(bench *b, uint32_t round, gw_err *err) {
    uint32_t count = gw_chunk_count(b->state_bytes);
    for (uint32_t i = 0; i < count; i++) b->state[gw_chunk_offset(i)]++;
    gw_ckpt_stats before, after;
    gw_ckpt_stats_read(b->writer, &before);
    gw_ckpt_request request = {.tag = round + 1,
                               .state_bytes = b->state_bytes,
                               .indices = b->indices,
                               .count = count,
                               .read = read_state,
                               .read_context = b};
    double cpu = cpu_s(), began = wall_s();
    if (!gw_ckpt_snapshot(b->writer, &request, err)) return false;
    gw_ckpt_finish_staging(b->writer);
    double staged = wall_s() - began;
    if (!wait_for(b, 2 * round + 1, err)) return false;
    double all = wall_s() - began;
    cpu = cpu_s() - cpu;
    gw_ckpt_stats_read(b->writer, &after);
    printf("%10u %12.1f %12.1f %12.1f %12.2f %12.0f\n", round + 1, staged * 1e3, all * 1e3, cpu * 1e3,
           (double)(after.hashed_bytes - before.hashed_bytes) / (double)(after.hash_us - before.hash_us) /
               1e3,
           (double)(after.written_bytes - before.written_bytes) / (double)(after.write_us - before.write_us));
    gw_store_release(b->store, round); /* the older one may be deleted */
    return gw_ckpt_retain(b->writer, 0, &(gw_hash){{0}}, NULL, 0, err) && wait_for(b, 2 * round + 2, err);
}

static bool restore(bench *b, gw_err *err) {
    gw_tensor tensor = {
        .name = "state", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {b->state_bytes}};
    gw_manifest manifest = {.job_name = "bench", .tensors = &tensor, .tensor_count = 1, .chunks = b->chunks};
    if (!gw_manifest_seal(&manifest, err)) return false;
    gw_restore restore = {.manifest = &manifest,
                          .store = b->store,
                          .write = write_state,
                          .context = b,
                          .threads = RESTORE_THREADS};
    gw_restore_stats stats;
    double began = wall_s();
    if (!gw_restore_run(&restore, &stats, err)) return false;
    printf("\nrestore on %d threads: %.0f MB/s\n", RESTORE_THREADS,
           (double)b->state_bytes / (wall_s() - began) * 1e-6);
    return true;
}

/* Measures the hash on one core: four full chunks, or fewer for a small state, hashed again and again. */
static void measure_hash(const bench *b) {
    uint32_t count = gw_chunk_count(b->state_bytes) < 4 ? gw_chunk_count(b->state_bytes) : 4;
    gw_hash_input inputs[4];
    gw_hash hashes[4];
    double bytes = 0, best_multi = 0, best_single = 0;
    for (uint32_t i = 0; i < count; i++) {
        inputs[i] =
            (gw_hash_input){b->state + gw_chunk_offset(i), gw_chunk_length(b->state_bytes, i), &hashes[i]};
        bytes += (double)inputs[i].length;
    }
    for (int round = 0; round < 7; round++) {
        double began = wall_s();
        gw_multi_hash(inputs, count);
        double middle = wall_s();
        for (uint32_t i = 0; i < count; i++)
            gw_blake2b(inputs[i].bytes, inputs[i].length, hashes[i].bytes, sizeof hashes[i].bytes);
        double end = wall_s();
        if (bytes / (middle - began) > best_multi) best_multi = bytes / (middle - began);
        if (bytes / (end - middle) > best_single) best_single = bytes / (end - middle);
    }
    printf("BLAKE2b on one core: %.2f GB/s four chunks at once, %.2f GB/s one by one\n\n", best_multi * 1e-9,
           best_single * 1e-9);
}

static bool measure(bench *b, const char *dir, const arguments *a, gw_err *err) {
    if (!gw_store_open(dir, GW_STORE_WRITE, NULL, &b->store, err) ||
        !gw_ckpt_open(b->store, b->state_bytes, checkpoint_done, b, &b->writer, err))
        return false;
    measure_hash(b);
    printf("%10s %12s %12s %12s %12s %12s\n", "checkpoint", "staged ms", "durable ms", "CPU ms", "hash GB/s",
           "write MB/s");
    for (uint32_t round = 0; round < a->rounds; round++)
        if (!one_round(b, round, err)) return false;
    return restore(b, err);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)status, (void)type, (void)where;
    return remove(path);
}

int gw_bench_checkpoint(int argc, char **argv) {
    arguments a = {.dir = "/tmp", .state_mib = 64, .rounds = 5};
    struct argp argp = {
        .options = bench_options,
        .parser = parse_bench,
        .doc = "Measures the cost of a checkpoint: copying, hashing and writing in the background."};
    if (gw_argp_parse(&argp, argc, argv, &a) != 0) return 2;
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/godwit-bench-XXXXXX", a.dir);
    if (mkdtemp(dir) == NULL) {
        fprintf(stderr, "%s: --dir: cannot make a folder in %s: %s\n", argv[0], a.dir, strerror(errno));
        return 1;
    }
    bench b = {.state_bytes = (uint64_t)a.state_mib * MIB,
               .lock = PTHREAD_MUTEX_INITIALIZER,
               .ended = PTHREAD_COND_INITIALIZER};
    uint32_t count = gw_chunk_count(b.state_bytes);
    gw_err err = {.code = GW_E_NOMEM, .text = "out of memory"};
    b.state = malloc(b.state_bytes);
    b.indices = malloc(count * sizeof *b.indices);
    b.chunks = malloc(count * sizeof *b.chunks);
    bool done = b.state != NULL && b.indices != NULL && b.chunks != NULL;
    if (done) {
        for (uint64_t i = 0; i < b.state_bytes; i++) b.state[i] = (uint8_t)(i * 167 >> 3);
        for (uint32_t i = 0; i < count; i++) b.indices[i] = i;
        done = measure(&b, dir, &a, &err);
    }
    if (!done) fprintf(stderr, "%s: %s\n", argv[0], err.text);
    gw_ckpt_close(b.writer, true);
    gw_store_close(b.store);
    free(b.state);
    free(b.indices);
    free(b.chunks);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return done ? 0 : 1;
}
