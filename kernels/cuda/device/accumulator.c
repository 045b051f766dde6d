#include "kernels/cuda/device/accumulator.h"

#include "core/base/assert.h"
#include "kernels/cuda/device/exact.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device/sums.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct gw_cuda_accumulator {
    int gpu;
    const gw_layout *layout;
    gw_ledger *ledger;
    bool own;                  /* the ledger belongs to this accumulator */
    int64_t *words;            /* on the GPU; padding stays 0 */
    gw_cuda_found *found;      /* on the GPU, by tensor */
    gw_cuda_found *found_host; /* pinned, as are the two below */
    int64_t *headers;          /* by bucket */
    int64_t *boundary;         /* data of the boundary bucket, padded */

    pthread_mutex_t lock; /* guards all fields below, and the order in which work is started */
    cudaEvent_t added;    /* the latest addition */
    uint64_t found_generation;
    uint64_t *generation; /* by tensor */
    gw_exact_part *parts; /* by bucket: scratch of a reduction */
};

static uint64_t boundary_count(const gw_layout *layout) {
    return layout->buckets[layout->bucket_count - 1].count;
}

static bool allocate(gw_cuda_accumulator *acc, gw_err *err) {
    const gw_layout *layout = acc->layout;
    void *words, *found, *found_host, *headers, *boundary;
    if (acc->own && (acc->ledger = gw_ledger_open(layout, err)) == NULL) return false;
    acc->generation = calloc(layout->tensor_count, sizeof *acc->generation);
    acc->parts = calloc(layout->bucket_count, sizeof *acc->parts);
    if (acc->generation == NULL || acc->parts == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for %u tensors", layout->tensor_count);
    if (!gw_cuda_allocate(acc->gpu, layout->words * sizeof(int64_t), &words, err)) return false;
    acc->words = words;
    if (!gw_cuda_allocate(acc->gpu, layout->tensor_count * sizeof *acc->found, &found, err)) return false;
    acc->found = found;
    if (!gw_cuda_pin(acc->gpu, layout->tensor_count * sizeof *acc->found, &found_host, err)) return false;
    acc->found_host = found_host;
    if (!gw_cuda_pin(acc->gpu, layout->bucket_count * GW_EXACT_HEADER * sizeof(int64_t), &headers, err))
        return false;
    acc->headers = headers;
    if (!gw_cuda_pin(acc->gpu, boundary_count(layout) * sizeof(int64_t), &boundary, err)) return false;
    acc->boundary = boundary;
    memset(boundary, 0, boundary_count(layout) * sizeof(int64_t));
    return gw_cuda_try(acc->gpu, cudaEventCreateWithFlags(&acc->added, cudaEventDisableTiming), err,
                       "cudaEventCreate");
}

bool gw_cuda_accumulator_open(int gpu, const gw_layout *layout, gw_ledger *shared,
                              gw_cuda_accumulator **accumulator, gw_err *err) {
    gw_cuda_accumulator *acc = calloc(1, sizeof *acc);
    *accumulator = NULL;
    if (acc == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for an accumulator");
    acc->gpu = gpu;
    acc->layout = layout;
    acc->ledger = shared;
    acc->own = shared == NULL;
    pthread_mutex_init(&acc->lock, NULL);
    if (!allocate(acc, err)) {
        gw_cuda_accumulator_close(acc);
        return gw_fail_in(err, "accumulator");
    }
    *accumulator = acc;
    return true;
}

void gw_cuda_accumulator_close(gw_cuda_accumulator *acc) {
    if (acc == NULL) return;
    if (acc->own) gw_ledger_close(acc->ledger);
    pthread_mutex_destroy(&acc->lock);
    if (acc->added != NULL) (void)cudaEventDestroy(acc->added);
    gw_cuda_free(acc->gpu, acc->words);
    gw_cuda_free(acc->gpu, acc->found);
    gw_cuda_unpin(acc->gpu, acc->found_host);
    gw_cuda_unpin(acc->gpu, acc->headers);
    gw_cuda_unpin(acc->gpu, acc->boundary);
    free(acc->generation);
    free(acc->parts);
    free(acc);
}

uint64_t gw_cuda_accumulator_bytes(const gw_cuda_accumulator *acc) {
    return acc->layout->words * sizeof *acc->words + acc->layout->tensor_count * sizeof *acc->found;
}

gw_ledger *gw_cuda_accumulator_ledger(const gw_cuda_accumulator *acc) {
    return acc->ledger;
}

static int64_t *sum_of(const gw_cuda_accumulator *acc, uint32_t tensor) {
    return acc->words + gw_sum_word(acc->layout, tensor);
}

/* Makes later work on `stream` wait for all earlier additions, and clears `found` if it is of an older
 * generation. The caller holds the lock. */
static bool begin(gw_cuda_accumulator *acc, uint64_t generation, cudaStream_t stream, gw_err *err) {
    if (!gw_cuda_try(acc->gpu, cudaStreamWaitEvent(stream, acc->added, 0), err, "cudaStreamWaitEvent"))
        return false;
    GW_ASSERT(acc->found_generation <= generation);
    if (acc->found_generation == generation) return true;
    if (!gw_cuda_try(acc->gpu,
                     cudaMemsetAsync(acc->found, 0, acc->layout->tensor_count * sizeof *acc->found, stream),
                     err, "cudaMemset of the tensors' fingerprints"))
        return false;
    acc->found_generation = generation;
    return true;
}

/* Makes later additions wait for the work that was started since `begin`; `begun` is the result of that call.
 * It is also called after a failure (`good` is false, and *err has the reason), since a clearing that was
 * started must not come after later additions. Returns whether all was good. */
static bool end(gw_cuda_accumulator *acc, bool begun, bool good, cudaStream_t stream, gw_err *err) {
    gw_err other;
    bool ended = begun && gw_cuda_try(acc->gpu, cudaEventRecord(acc->added, stream), good ? err : &other,
                                      "cudaEventRecord");
    return good && ended;
}

/* The caller holds the lock. */
static bool clear_tensor(gw_cuda_accumulator *acc, uint32_t tensor, cudaStream_t stream, gw_err *err) {
    return gw_cuda_try(
        acc->gpu,
        cudaMemsetAsync(sum_of(acc, tensor), 0, acc->layout->of[tensor].elements * sizeof(int64_t), stream),
        err, "cudaMemset of tensor '%s'", acc->layout->tensors[tensor].name);
}

/* The caller holds the lock, between begin and end. */
static bool clear_stale(gw_cuda_accumulator *acc, uint32_t tensor, uint64_t generation, cudaStream_t stream,
                        gw_err *err) {
    if (acc->generation[tensor] == generation) return true;
    if (!clear_tensor(acc, tensor, stream, err)) return false;
    acc->generation[tensor] = generation;
    return true;
}

static bool start_piece(gw_cuda_accumulator *acc, const gw_cuda_piece *piece, uint32_t tensor, uint64_t first,
                        const float *floats, const int64_t *integers, gw_cuda_adding adding,
                        cudaStream_t stream, gw_err *err) {
    int64_t *sum = sum_of(acc, tensor) + first;
    cudaError_t status = floats != NULL ? gw_cuda_add_floats(piece, adding, floats, sum, stream)
                                        : gw_cuda_add_integers(piece, adding, integers, sum, stream);
    return gw_cuda_try(acc->gpu, status, err, "adding %llu elements to tensor '%s'",
                       (unsigned long long)piece->count, acc->layout->tensors[tensor].name);
}

/* The caller holds the lock, between begin and end. */
static bool add_piece(gw_cuda_accumulator *acc, const gw_cuda_piece *piece, uint32_t tensor, uint64_t first,
                      const float *floats, const int64_t *integers, bool stale, cudaStream_t stream,
                      gw_err *err) {
    bool whole = first == 0 && piece->count == acc->layout->of[tensor].elements;
    gw_cuda_adding adding = stale && whole ? GW_CUDA_STORE : GW_CUDA_ADD;
    if (stale && !whole && !clear_tensor(acc, tensor, stream, err)) return false;
    return start_piece(acc, piece, tensor, first, floats, integers, adding, stream, err);
}

static gw_cuda_piece piece_of(const gw_cuda_accumulator *acc, uint32_t shards, uint32_t tensor,
                              uint64_t first, uint64_t count, gw_cuda_found *of_shard,
                              unsigned long long *least) {
    return (gw_cuda_piece){
        .format = gw_exact_format_of(acc->layout->tensors[tensor].frac_bits, shards),
        .first = acc->layout->of[tensor].first + first,
        .count = count,
        .place = GW_CUDA_PLACE(tensor, first),
        .found = &acc->found[tensor],
        .of_shard = of_shard,
        .least = least,
    };
}

bool gw_cuda_accumulator_add(gw_cuda_accumulator *acc, gw_entry *entry, uint32_t tensor, uint64_t first,
                             uint64_t count, const float *floats, const int64_t *integers,
                             gw_cuda_found *of_shard, unsigned long long *least, cudaStream_t stream,
                             gw_err *err) {
    GW_ASSERT((floats != NULL) != (integers != NULL));
    if (!gw_ledger_check(acc->ledger, entry, tensor, first, count) || count == 0) return true;
    gw_cuda_piece piece = piece_of(acc, entry->shards, tensor, first, count, of_shard, least);
    bool good = true;
    pthread_mutex_lock(&acc->lock);
    /* The ledger may be emptied right after this check without harm: what is then added is of the old
     * generation and counts as zero. */
    if (gw_ledger_fresh(acc->ledger, entry)) {
        entry->emitted = true;
        bool begun = begin(acc, entry->generation, stream, err);
        good = begun && add_piece(acc, &piece, tensor, first, floats, integers,
                                  acc->generation[tensor] != entry->generation, stream, err);
        if (good) acc->generation[tensor] = entry->generation;
        good = end(acc, begun, good, stream, err);
    }
    pthread_mutex_unlock(&acc->lock);
    return good;
}

bool gw_cuda_accumulator_record(gw_cuda_accumulator *acc, uint32_t shards, uint32_t tensor,
                                const float *floats, const int64_t *integers, gw_cuda_adding adding,
                                gw_cuda_found *of_shard, unsigned long long *least, cudaStream_t stream,
                                gw_err *err) {
    GW_ASSERT((floats != NULL) != (integers != NULL));
    GW_ASSERT(adding == GW_CUDA_ADD || adding == GW_CUDA_STORE);
    gw_cuda_piece piece = piece_of(acc, shards, tensor, 0, acc->layout->of[tensor].elements, of_shard, least);
    return start_piece(acc, &piece, tensor, 0, floats, integers, adding, stream, err);
}

/* The caller holds the lock, between begin and end. */
static bool launch(gw_cuda_accumulator *acc, uint64_t generation, const gw_cuda_graph *graph,
                   cudaStream_t stream, gw_err *err) {
    uint32_t stale = 0;
    for (uint32_t i = 0; i < graph->tensor_count; i++)
        stale += acc->generation[graph->tensors[i]] != generation;
    bool store = stale == graph->tensor_count;
    for (uint32_t i = 0; i < graph->tensor_count && !store; i++)
        if (!clear_stale(acc, graph->tensors[i], generation, stream, err)) return false;
    if (!gw_cuda_try(acc->gpu, cudaGraphLaunch(store ? graph->store : graph->add, stream), err,
                     "cudaGraphLaunch"))
        return false;
    for (uint32_t i = 0; i < graph->tensor_count; i++) acc->generation[graph->tensors[i]] = generation;
    return true;
}

bool gw_cuda_accumulator_launch(gw_cuda_accumulator *acc, gw_entry *entry, const gw_cuda_graph *graph,
                                cudaStream_t stream, bool *started, gw_err *err) {
    GW_ASSERT(graph->store != NULL && graph->add != NULL);
    bool good = true;
    *started = true;
    pthread_mutex_lock(&acc->lock);
    if (gw_ledger_fresh(acc->ledger, entry)) {
        entry->emitted = true;
        bool begun = begin(acc, entry->generation, stream, err);
        *started = begun && launch(acc, entry->generation, graph, stream, err);
        good = end(acc, begun, *started, stream, err);
    }
    pthread_mutex_unlock(&acc->lock);
    return good;
}

/* Fills headers and boundary words on the host from `found_host`. The caller holds the lock. */
static void fill_headers(gw_cuda_accumulator *acc) {
    const gw_layout *layout = acc->layout;
    gw_ledger_boundary(acc->ledger, acc->own, acc->boundary);
    memset(acc->parts, 0, layout->bucket_count * sizeof *acc->parts);
    for (uint32_t t = 0; t < layout->tensor_count; t++) {
        if (layout->tensors[t].role == GW_STATE) continue;
        gw_exact_part *part = &acc->parts[layout->of[t].bucket];
        part->fingerprint += acc->found_host[t].fingerprint;
        part->bad += acc->found_host[t].bad;
    }
    acc->parts[layout->bucket_count - 1].fingerprint =
        gw_exact_fingerprint(0, boundary_count(layout), acc->boundary);
    for (uint32_t b = 0; b < layout->bucket_count; b++)
        gw_ledger_header(acc->ledger, acc->own, &acc->parts[b], acc->headers + (size_t)b * GW_EXACT_HEADER);
}

static bool copy_headers(gw_cuda_accumulator *acc, cudaStream_t stream, gw_err *err) {
    const gw_layout *layout = acc->layout;
    for (uint32_t b = 0; b < layout->bucket_count; b++)
        if (!gw_cuda_try(acc->gpu,
                         cudaMemcpyAsync(acc->words + layout->buckets[b].header,
                                         acc->headers + (size_t)b * GW_EXACT_HEADER,
                                         GW_EXACT_HEADER * sizeof(int64_t), cudaMemcpyHostToDevice, stream),
                         err, "copying the header of bucket %u", b))
            return false;
    return gw_cuda_try(acc->gpu,
                       cudaMemcpyAsync(acc->words + layout->buckets[layout->bucket_count - 1].data,
                                       acc->boundary, boundary_count(layout) * sizeof(int64_t),
                                       cudaMemcpyHostToDevice, stream),
                       err, "copying the boundary words");
}

/* The caller holds the lock, between begin and end. */
static bool finish(gw_cuda_accumulator *acc, uint64_t generation, cudaStream_t stream, gw_err *err) {
    for (uint32_t t = 0; t < acc->layout->tensor_count; t++) {
        if (acc->layout->tensors[t].role == GW_STATE) continue;
        if (!clear_stale(acc, t, generation, stream, err)) return false;
    }
    if (!gw_cuda_try(acc->gpu,
                     cudaMemcpyAsync(acc->found_host, acc->found,
                                     acc->layout->tensor_count * sizeof *acc->found, cudaMemcpyDeviceToHost,
                                     stream),
                     err, "copying the tensors' fingerprints") ||
        !gw_cuda_try(acc->gpu, cudaStreamSynchronize(stream), err, "adding the shards"))
        return false;
    fill_headers(acc);
    return copy_headers(acc, stream, err) &&
           gw_cuda_try(acc->gpu, cudaStreamSynchronize(stream), err, "copying headers");
}

bool gw_cuda_accumulator_finish(gw_cuda_accumulator *acc, cudaStream_t stream, int64_t **words, gw_err *err) {
    pthread_mutex_lock(&acc->lock);
    uint64_t generation = gw_ledger_generation(acc->ledger);
    bool begun = begin(acc, generation, stream, err), good = begun && finish(acc, generation, stream, err);
    good = end(acc, begun, good, stream, err);
    pthread_mutex_unlock(&acc->lock);
    *words = acc->words;
    return good;
}
