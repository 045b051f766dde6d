/* Shards that are started as CUDA graphs have the same sum as those that are started piece by piece. Runs on
 * a GPU, and everywhere on the stand-in for one (tests/gpu_fake). */
#include "tests/gpu/rig.h"

#include "core/state/layout.h"
#include "kernels/cuda/device/accumulator.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 6, A = 0, B = 1, COUNTS = 2, STATE = 3, TENSORS = 4, LONGEST = 1000, GRAPHS = 2 };

static const gw_tensor tensors[TENSORS] = {
    {.name = "a", .dtype = GW_F32, .role = GW_SUMMED, .rank = 1, .dim = {LONGEST}, .frac_bits = 40},
    {.name = "b", .dtype = GW_F32, .role = GW_SUMMED, .rank = 1, .dim = {77}, .group = 1, .frac_bits = 40},
    {.name = "counts", .dtype = GW_I64, .role = GW_SUMMED, .rank = 1, .dim = {3}, .group = 2},
    {.name = "state", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {8}, .group = 3},
};

/* The first kind of shard adds to all sums, the second only to "b". */
static const uint32_t adds_to[GRAPHS][TENSORS] = {{A, B, COUNTS, TENSORS}, {B, TENSORS}};

typedef struct side {
    gw_cuda_accumulator *sum;
    gw_cuda_found *of_shard; /* arrays by tensor */
    unsigned long long *least;
} side;

typedef struct bench {
    gw_layout layout;
    cudaStream_t stream;
    side piece_by_piece, whole;
    void *values[TENSORS]; /* the memory of the contribution that is added */
    gw_cuda_graphs graphs;
} bench;

static void good(bool done, const gw_err *err) {
    cr_assert(done, "%s", err->text);
}

static side open_side(const bench *b) {
    side s;
    gw_err err;
    good(gw_cuda_accumulator_open(0, &b->layout, NULL, &s.sum, &err), &err);
    s.of_shard = gpu_take(TENSORS * sizeof *s.of_shard, 0);
    s.least = gpu_take(sizeof *s.least, 0);
    return s;
}

static void open_bench(bench *b) {
    gw_plan plan = {.tensors = tensors, .tensor_count = TENSORS};
    gw_err err;
    memset(b, 0, sizeof *b);
    good(gw_layout_make(&plan, 2, &b->layout, &err), &err);
    GPU(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    b->piece_by_piece = open_side(b);
    b->whole = open_side(b);
    for (uint32_t t = 0; t < STATE; t++) b->values[t] = gpu_take(LONGEST * sizeof(int64_t), 0);
}

static void close_bench(bench *b) {
    GPU(cudaStreamSynchronize(b->stream));
    gw_cuda_graphs_close(&b->graphs);
    gw_cuda_accumulator_close(b->piece_by_piece.sum);
    gw_cuda_accumulator_close(b->whole.sum);
    gw_layout_free(&b->layout);
    GPU(cudaStreamDestroy(b->stream));
}

/* Makes a shard's contribution to every tensor; one element of shard 3 is bad. */
static void write_values(bench *b, uint32_t shard) {
    float floats[LONGEST];
    int64_t counts[3] = {(int64_t)shard, -7, 1 << 20};
    for (uint32_t t = A; t <= B; t++) {
        gpu_random_floats(10 * shard + t, LONGEST, -20, 10, floats);
        if (shard == 3 && t == B) floats[5] = 1.0f / 0.0f;
        GPU(cudaMemcpyAsync(b->values[t], floats, sizeof floats, cudaMemcpyHostToDevice, b->stream));
        GPU(cudaStreamSynchronize(b->stream));
    }
    GPU(cudaMemcpyAsync(b->values[COUNTS], counts, sizeof counts, cudaMemcpyHostToDevice, b->stream));
    GPU(cudaStreamSynchronize(b->stream));
}

static const float *floats_of(const bench *b, uint32_t tensor) {
    return tensor == COUNTS ? NULL : b->values[tensor];
}
static const int64_t *integers_of(const bench *b, uint32_t tensor) {
    return tensor == COUNTS ? b->values[tensor] : NULL;
}

static void record(bench *b, gw_cuda_graph *graph, const uint32_t *adds, gw_cuda_adding adding,
                   cudaGraphExec_t *recorded) {
    gw_err err;
    gw_cuda_graph_forget(graph);
    good(gw_cuda_graph_begin(0, b->stream, &err), &err);
    for (uint32_t i = 0; adds[i] < TENSORS; i++) {
        cr_assert(gw_cuda_graph_note(graph, adds[i]));
        good(gw_cuda_accumulator_record(b->whole.sum, SHARDS, adds[i], floats_of(b, adds[i]),
                                        integers_of(b, adds[i]), adding, &b->whole.of_shard[adds[i]],
                                        b->whole.least, b->stream, &err),
             &err);
    }
    cr_assert_not(gw_cuda_graph_note(graph, adds[0]), "it adds to that one already");
    good(gw_cuda_graph_end(0, b->stream, true, recorded, &err), &err);
}

static const gw_cuda_graph *graph_of(bench *b, uint32_t kind) {
    const gw_cuda_work work = {.number = kind + 1, .input = b, .shards = SHARDS};
    gw_cuda_graph *graph = gw_cuda_graph_find(&b->graphs, &work, TENSORS);
    cr_assert_not_null(graph);
    if (graph->add != NULL) return graph;
    record(b, graph, adds_to[kind], GW_CUDA_STORE, &graph->store);
    record(b, graph, adds_to[kind], GW_CUDA_ADD, &graph->add);
    return graph;
}

static void begin_shard(const bench *b, side *s, uint32_t shard, gw_entry *entry) {
    gw_err err;
    good(gw_ledger_enter(gw_cuda_accumulator_ledger(s->sum), 0, shard, entry, &err), &err);
    GPU(cudaMemsetAsync(s->of_shard, 0, TENSORS * sizeof *s->of_shard, b->stream));
    GPU(cudaMemsetAsync(s->least, 0xff, sizeof *s->least, b->stream));
}

static void end_shard(const bench *b, side *s, const gw_entry *entry, gw_contributed expected) {
    gw_err err;
    GPU(cudaStreamSynchronize(b->stream));
    cr_assert_eq(gw_ledger_leave(gw_cuda_accumulator_ledger(s->sum), entry, true, &err), expected);
}

static void fetch_found(const side *s, gw_cuda_found found[TENSORS], unsigned long long *least) {
    gpu_fetch(found, s->of_shard, TENSORS * sizeof *found);
    gpu_fetch(least, s->least, sizeof *least);
}

/* Adds a shard in both ways, which must give the same fingerprints and bad element. */
static void add_shard(bench *b, uint32_t shard, uint32_t kind) {
    gw_entry entry;
    gw_err err;
    write_values(b, shard);
    begin_shard(b, &b->piece_by_piece, shard, &entry);
    for (uint32_t i = 0; adds_to[kind][i] < TENSORS; i++) {
        uint32_t t = adds_to[kind][i];
        good(gw_cuda_accumulator_add(b->piece_by_piece.sum, &entry, t, 0, b->layout.of[t].elements,
                                     floats_of(b, t), integers_of(b, t), &b->piece_by_piece.of_shard[t],
                                     b->piece_by_piece.least, b->stream, &err),
             &err);
    }
    end_shard(b, &b->piece_by_piece, &entry, GW_SHARD_HELD);
    const gw_cuda_graph *graph = graph_of(b, kind);
    begin_shard(b, &b->whole, shard, &entry);
    bool started;
    good(gw_cuda_accumulator_launch(b->whole.sum, &entry, graph, b->stream, &started, &err), &err);
    cr_assert(started);
    end_shard(b, &b->whole, &entry, GW_SHARD_HELD);
    gw_cuda_found found[2][TENSORS];
    unsigned long long least[2];
    fetch_found(&b->piece_by_piece, found[0], &least[0]);
    fetch_found(&b->whole, found[1], &least[1]);
    for (uint32_t i = 0; adds_to[kind][i] < TENSORS; i++) {
        uint32_t t = adds_to[kind][i];
        cr_expect_eq(found[0][t].fingerprint, found[1][t].fingerprint, "shard %u, tensor %u", shard, t);
        cr_expect_eq(found[0][t].bad, found[1][t].bad, "shard %u, tensor %u", shard, t);
    }
    cr_expect_eq(least[0], least[1], "shard %u", shard);
    cr_expect_eq(least[1] == GW_CUDA_NO_PLACE, shard != 3, "shard %u", shard);
}

static int64_t *words_of(const bench *b, const side *s) {
    int64_t *words, *host = malloc(b->layout.words * sizeof *host);
    gw_err err;
    good(gw_cuda_accumulator_finish(s->sum, b->stream, &words, &err), &err);
    gpu_fetch(host, words, b->layout.words * sizeof *host);
    return host;
}

static void expect_same_sums(const bench *b) {
    int64_t *expected = words_of(b, &b->piece_by_piece), *got = words_of(b, &b->whole);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < b->layout.words; i++) {
        cr_assert_eq(got[i], expected[i], "word %llu", (unsigned long long)i);
        sum |= (uint64_t)got[i];
    }
    cr_expect_neq(sum, 0);
    free(expected);
    free(got);
}

static void empty(const bench *b) {
    gw_ledger_begin(gw_cuda_accumulator_ledger(b->piece_by_piece.sum), 0, SHARDS);
    gw_ledger_begin(gw_cuda_accumulator_ledger(b->whole.sum), 0, SHARDS);
}

/* The kinds come in every order, so that all, none and some of a shard's sums are stale. */
Test(gpu_graph, sums_are_those_of_shards_that_are_started_piece_by_piece) {
    gpu_need();
    bench b;
    open_bench(&b);
    for (uint32_t order = 0; order < 8; order++) {
        empty(&b);
        for (uint32_t shard = 0; shard < 3; shard++) add_shard(&b, shard, order >> shard & 1);
        add_shard(&b, 3, 0);
        expect_same_sums(&b);
    }
    cr_expect_eq(b.graphs.count, GRAPHS);
    close_bench(&b);
}

Test(gpu_graph, a_shard_of_an_accumulator_that_was_emptied_meanwhile_is_not_started) {
    gpu_need();
    bench b;
    gw_entry entry;
    gw_err err;
    open_bench(&b);
    empty(&b);
    add_shard(&b, 0, 0);
    begin_shard(&b, &b.whole, 1, &entry);
    empty(&b);
    add_shard(&b, 2, 1);
    bool started;
    good(gw_cuda_accumulator_launch(b.whole.sum, &entry, graph_of(&b, 0), b.stream, &started, &err), &err);
    cr_assert(started, "nothing is left to be started");
    end_shard(&b, &b.whole, &entry, GW_SHARD_DROPPED);
    expect_same_sums(&b);
    close_bench(&b);
}

Test(gpu_graph, there_are_as_many_as_there_are_kinds_of_work) {
    gpu_need();
    gw_cuda_graphs graphs = {.count = 0};
    int inputs[2];
    for (uint64_t i = 0; i < GW_CUDA_GRAPHS; i++) {
        const gw_cuda_work work = {1 + i / 4, &inputs[i % 2], 7 + (uint32_t)(i / 2 % 2)};
        gw_cuda_graph *graph = gw_cuda_graph_find(&graphs, &work, TENSORS);
        cr_assert_not_null(graph);
        cr_assert_eq(gw_cuda_graph_find(&graphs, &work, TENSORS), graph);
        cr_assert_eq(graphs.count, i + 1);
    }
    const gw_cuda_work one_more = {1 + GW_CUDA_GRAPHS, &inputs[0], 7};
    cr_assert_null(gw_cuda_graph_find(&graphs, &one_more, TENSORS));
    gw_cuda_graphs_close(&graphs);
    cr_assert_eq(graphs.count, 0);
}
