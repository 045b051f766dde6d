#include "kernels/cuda/device/sums.h"

#include "core/base/assert.h"
#include "core/gpu.h"
#include "kernels/cuda/device/exact.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device/sums.h"

#include <stdlib.h>
#include <string.h>

#define NOT_SMALL UINT64_MAX

typedef struct sum {
    int64_t *words; /* on the GPU; NULL until needed; those of `alone` are the accumulator's */
    uint64_t step;
    bool finished;
} sum;

/* The parts of every finished sum that are copied to the host, pinned. */
typedef struct small_part {
    int64_t *headers;             /* by bucket */
    int64_t *boundary;            /* data of the boundary bucket */
    unsigned long long *computed; /* fingerprints of the data, by bucket */
    gw_cuda_found *unpacked;      /* for GW_REDUCE_FAST: fingerprints after the conversion, by tensor */
    int64_t *values;              /* the small tensors, padded as in their buckets */
    void *memory;
} small_part;

/* Small tensors that lie one behind the other in the sum, so that one copy brings them to the host. */
typedef struct small_run {
    uint64_t word, count; /* in the sum */
    uint64_t at;          /* in small_part.values */
} small_run;

struct gw_cuda_sums {
    int gpu;
    const gw_layout *layout;
    gw_cuda_accumulator *accumulator;
    gw_ledger *ledger;
    cudaStream_t stream;
    sum received;
    sum alone;           /* its words lie in the accumulator */
    float *floats[2];    /* for GW_REDUCE_FAST: sent, received; indexed like the words */
    void *mirror[2];     /* for segments in host memory: sent, received; one segment behind the other */
    size_t mirror_bytes; /* size of each mirror */
    /* segments on the GPU, and their mirrors on the host; two for each bucket */
    gw_segment *segments[2], *mirrored[2];
    uint32_t segment_count;
    uint64_t *small_at; /* by tensor: its place in host.values; NOT_SMALL: it has none */
    small_run *runs;
    uint32_t run_count;
    small_part host;
    unsigned long long *computed; /* on the GPU */
    gw_cuda_found *unpacked;
    unsigned long long *least; /* for GW_REDUCE_FAST; the place of a bad element is not used */

    gw_reduce mode; /* of the reduction that was begun; 0: none */
    gw_place place;
    uint64_t step;
    uint32_t shards;
    const int64_t *own; /* the accumulator's finished words */
};

static const gw_layout_bucket *boundary_of(const gw_layout *layout) {
    return &layout->buckets[layout->bucket_count - 1];
}

static bool take(gw_cuda_sums *s, size_t bytes, void *pointer, gw_err *err) {
    void *memory;
    if (!gw_cuda_allocate(s->gpu, bytes, &memory, err)) return false;
    memcpy(pointer, &memory, sizeof memory);
    return true;
}

/* Gives the small tensors their places on the host. Returns how many words they take. */
static uint64_t place_small(gw_cuda_sums *s) {
    const gw_layout *layout = s->layout;
    uint64_t words = 0;
    small_run *run = NULL;
    for (uint32_t t = 0; t < layout->tensor_count; t++) {
        s->small_at[t] = NOT_SMALL;
        if (!gw_is_summed(layout, t) || layout->of[t].elements > GW_GPU_SMALL) continue;
        uint64_t word = gw_sum_word(layout, t),
                 padded = (layout->of[t].elements + GW_LAYOUT_ALIGN - 1) / GW_LAYOUT_ALIGN * GW_LAYOUT_ALIGN;
        if (run == NULL || run->word + run->count != word) {
            run = &s->runs[s->run_count++];
            *run = (small_run){.word = word, .at = words};
        }
        s->small_at[t] = words;
        run->count += padded;
        words += padded;
    }
    return words;
}

/* Allocates one pinned block for everything that is copied to the host. */
static bool open_small(gw_cuda_sums *s, gw_err *err) {
    const gw_layout *layout = s->layout;
    size_t headers = (size_t)layout->bucket_count * GW_EXACT_HEADER * sizeof(int64_t);
    size_t boundary = boundary_of(layout)->count * sizeof(int64_t);
    size_t computed = layout->bucket_count * sizeof(unsigned long long);
    size_t unpacked = layout->tensor_count * sizeof(gw_cuda_found);
    size_t values = place_small(s) * sizeof(int64_t);
    if (!gw_cuda_pin(s->gpu, headers + boundary + computed + unpacked + values, &s->host.memory, err))
        return false;
    char *next = s->host.memory;
    s->host.headers = (void *)next;
    s->host.boundary = (void *)(next += headers);
    s->host.computed = (void *)(next += boundary);
    s->host.unpacked = (void *)(next += computed);
    s->host.values = (void *)(next + unpacked);
    return true;
}

static bool allocate(gw_cuda_sums *s, gw_err *err) {
    size_t segments = 2 * (size_t)s->layout->bucket_count;
    bool room = true;
    for (int i = 0; i < 2; i++) {
        s->segments[i] = calloc(segments, sizeof *s->segments[i]);
        s->mirrored[i] = calloc(segments, sizeof *s->mirrored[i]);
        room = room && s->segments[i] != NULL && s->mirrored[i] != NULL;
    }
    s->small_at = calloc(s->layout->tensor_count, sizeof *s->small_at);
    s->runs = calloc(s->layout->tensor_count, sizeof *s->runs);
    if (!room || s->small_at == NULL || s->runs == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for segments");
    return take(s, s->layout->bucket_count * sizeof *s->computed, &s->computed, err) &&
           take(s, s->layout->tensor_count * sizeof *s->unpacked, &s->unpacked, err) &&
           take(s, sizeof *s->least, &s->least, err) && open_small(s, err);
}

/* Allocates memory for sums with other peers. */
static bool need_buffers(gw_cuda_sums *s, gw_reduce mode, gw_err *err) {
    if (s->received.words == NULL && !take(s, s->layout->words * sizeof(int64_t), &s->received.words, err))
        return false;
    for (int i = 0; mode == GW_REDUCE_FAST && i < 2; i++)
        if (s->floats[i] == NULL && !take(s, s->layout->words * sizeof(float), &s->floats[i], err))
            return false;
    return true;
}

uint64_t gw_cuda_sums_need(const gw_layout *layout, gw_reduce with_others) {
    if (with_others != GW_REDUCE_EXACT && with_others != GW_REDUCE_FAST) return 0;
    return layout->words * (sizeof(int64_t) + (with_others == GW_REDUCE_FAST ? 2 * sizeof(float) : 0));
}

bool gw_cuda_sums_open(int gpu, const gw_layout *layout, gw_cuda_accumulator *accumulator,
                       cudaStream_t stream, gw_reduce with_others, gw_cuda_sums **sums, gw_err *err) {
    gw_cuda_sums *s = calloc(1, sizeof *s);
    *sums = NULL;
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for sums");
    s->gpu = gpu;
    s->layout = layout;
    s->accumulator = accumulator;
    s->ledger = gw_cuda_accumulator_ledger(accumulator);
    s->stream = stream;
    if (!allocate(s, err) || (with_others != 0 && !need_buffers(s, with_others, err))) {
        gw_cuda_sums_close(s);
        return gw_fail_in(err, "sums");
    }
    *sums = s;
    return true;
}

void gw_cuda_sums_close(gw_cuda_sums *s) {
    if (s == NULL) return;
    gw_cuda_free(s->gpu, s->received.words);
    gw_cuda_free(s->gpu, s->computed);
    gw_cuda_free(s->gpu, s->unpacked);
    gw_cuda_free(s->gpu, s->least);
    gw_cuda_unpin(s->gpu, s->host.memory);
    for (int i = 0; i < 2; i++) {
        gw_cuda_free(s->gpu, s->floats[i]);
        gw_cuda_unpin(s->gpu, s->mirror[i]);
        free(s->segments[i]);
        free(s->mirrored[i]);
    }
    free(s->small_at);
    free(s->runs);
    free(s);
}

uint64_t gw_cuda_sums_bytes(const gw_cuda_sums *s) {
    uint64_t bytes = 0;
    if (s->received.words != NULL) bytes += s->layout->words * sizeof(int64_t);
    for (int i = 0; i < 2; i++)
        if (s->floats[i] != NULL) bytes += s->layout->words * sizeof(float);
    return bytes;
}

static size_t segment_bytes(const gw_segment *segment) {
    return segment->count * (segment->is_float ? sizeof(float) : sizeof(int64_t));
}

/* Places the segments in host memory, each at a multiple of 64 bytes. */
static bool mirror(gw_cuda_sums *s, gw_err *err) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < s->segment_count; i++)
        bytes += (segment_bytes(&s->segments[0][i]) + 63) / 64 * 64;
    for (int way = 0; way < 2; way++) {
        if (s->mirror_bytes < bytes) {
            gw_cuda_unpin(s->gpu, s->mirror[way]);
            s->mirror[way] = NULL;
        }
        if (s->mirror[way] == NULL && !gw_cuda_pin(s->gpu, bytes, &s->mirror[way], err)) return false;
        char *next = s->mirror[way];
        for (uint32_t i = 0; i < s->segment_count; i++) {
            s->mirrored[way][i] = s->segments[way][i];
            s->mirrored[way][i].data = next;
            next += (segment_bytes(&s->segments[way][i]) + 63) / 64 * 64;
        }
    }
    if (s->mirror_bytes < bytes) s->mirror_bytes = bytes;
    return true;
}

static bool copy_segments(gw_cuda_sums *s, const gw_segment *from, const gw_segment *to,
                          enum cudaMemcpyKind kind, gw_err *err) {
    for (uint32_t i = 0; i < s->segment_count; i++)
        if (!gw_cuda_try(s->gpu,
                         cudaMemcpyAsync(to[i].data, from[i].data, segment_bytes(&from[i]), kind, s->stream),
                         err, "copying segment %u of the sum", i))
            return false;
    return true;
}

static bool wait_for(gw_cuda_sums *s, const char *what, gw_err *err) {
    return gw_cuda_try(s->gpu, cudaStreamSynchronize(s->stream), err, "%s", what);
}

static bool pack_floats(gw_cuda_sums *s, const int64_t *words, gw_err *err) {
    for (uint32_t t = 0; t < s->layout->tensor_count; t++) {
        if (!gw_is_summed(s->layout, t)) continue;
        uint64_t at = gw_sum_word(s->layout, t);
        if (!gw_cuda_try(s->gpu,
                         gw_cuda_to_floats(s->layout->tensors[t].frac_bits, s->layout->of[t].elements,
                                           words + at, s->floats[0] + at, s->stream),
                         err, "making floats of tensor '%s'", s->layout->tensors[t].name))
            return false;
    }
    return true;
}

/* Converts the received floats back to integers. Their fingerprints go to `unpacked` and from there to the
 * headers, so that one check serves both modes. A float sum out of range is bad, on all peers alike. */
static bool unpack_floats(gw_cuda_sums *s, int64_t *words, gw_err *err) {
    if (!gw_cuda_try(
            s->gpu, cudaMemsetAsync(s->unpacked, 0, s->layout->tensor_count * sizeof *s->unpacked, s->stream),
            err, "cudaMemset"))
        return false;
    for (uint32_t t = 0; t < s->layout->tensor_count; t++) {
        if (!gw_is_summed(s->layout, t)) continue;
        uint64_t at = gw_sum_word(s->layout, t);
        gw_cuda_piece piece = {.format = gw_exact_format_of(s->layout->tensors[t].frac_bits, 1),
                               .first = s->layout->of[t].first,
                               .count = s->layout->of[t].elements,
                               .found = &s->unpacked[t],
                               .least = s->least};
        if (!gw_cuda_try(s->gpu,
                         gw_cuda_add_floats(&piece, GW_CUDA_STORE, s->floats[1] + at, words + at, s->stream),
                         err, "rounding tensor '%s'", s->layout->tensors[t].name))
            return false;
    }
    return true;
}

/* Starts the computation of the data's fingerprints, and the copies of all that the host reads: fingerprints,
 * headers, boundary words and small tensors. */
static bool start_check(gw_cuda_sums *s, const int64_t *words, gw_err *err) {
    const gw_layout *layout = s->layout;
    size_t bytes = layout->bucket_count * sizeof *s->computed;
    bool good = gw_cuda_try(s->gpu, cudaMemsetAsync(s->computed, 0, bytes, s->stream), err, "cudaMemset");
    for (uint32_t b = 0; good && b < layout->bucket_count; b++) {
        const gw_layout_bucket *bucket = &layout->buckets[b];
        good =
            gw_cuda_try(
                s->gpu,
                gw_cuda_fingerprint(0, bucket->count, words + bucket->data, &s->computed[b], s->stream), err,
                "fingerprint of bucket %u", b) &&
            gw_cuda_try(s->gpu,
                        cudaMemcpyAsync(s->host.headers + (size_t)b * GW_EXACT_HEADER, words + bucket->header,
                                        GW_EXACT_HEADER * sizeof(int64_t), cudaMemcpyDeviceToHost, s->stream),
                        err, "copying the header of bucket %u", b);
    }
    for (uint32_t i = 0; good && i < s->run_count; i++)
        good = gw_cuda_try(s->gpu,
                           cudaMemcpyAsync(s->host.values + s->runs[i].at, words + s->runs[i].word,
                                           s->runs[i].count * sizeof(int64_t), cudaMemcpyDeviceToHost,
                                           s->stream),
                           err, "copying small sums");
    return good &&
           gw_cuda_try(s->gpu,
                       cudaMemcpyAsync(s->host.boundary, words + boundary_of(layout)->data,
                                       boundary_of(layout)->count * sizeof(int64_t), cudaMemcpyDeviceToHost,
                                       s->stream),
                       err, "copying the boundary words") &&
           gw_cuda_try(
               s->gpu,
               cudaMemcpyAsync(s->host.computed, s->computed, bytes, cudaMemcpyDeviceToHost, s->stream), err,
               "copying fingerprints") &&
           gw_cuda_try(s->gpu,
                       cudaMemcpyAsync(s->host.unpacked, s->unpacked,
                                       layout->tensor_count * sizeof *s->unpacked, cudaMemcpyDeviceToHost,
                                       s->stream),
                       err, "copying the tensors' fingerprints");
}

/* Sets *wrong if the accumulator's words no longer have the fingerprints of what was added. */
static bool find_own_wrong(gw_cuda_sums *s, bool *wrong, gw_err *err) {
    if (!start_check(s, s->own, err) || !wait_for(s, "checking the own sum", err)) return false;
    for (uint32_t b = 0; b < s->layout->bucket_count; b++) {
        int64_t stated = s->host.headers[(size_t)b * GW_EXACT_HEADER + GW_EXACT_FINGERPRINT];
        *wrong = *wrong || s->host.computed[b] != (uint64_t)stated;
    }
    return true;
}

static bool prepare(gw_cuda_sums *s, gw_reduce mode, gw_place place, int64_t *own, gw_err *err) {
    if (mode == GW_REDUCE_FAST) {
        bool wrong = false;
        if (!pack_floats(s, own, err) || !find_own_wrong(s, &wrong, err)) return false;
        if (wrong) return gw_fail_own_sum(err);
        gw_list_fast(s->layout, own, s->floats[0], s->segments[0]);
        s->segment_count = gw_list_fast(s->layout, s->received.words, s->floats[1], s->segments[1]).count;
    } else {
        gw_list_exact(s->layout, own, s->segments[0]);
        s->segment_count = gw_list_exact(s->layout, s->received.words, s->segments[1]).count;
    }
    if (place == GW_PLACE_HOST &&
        (!mirror(s, err) || !copy_segments(s, s->segments[0], s->mirrored[0], cudaMemcpyDeviceToHost, err)))
        return false;
    return wait_for(s, "preparing the sum", err);
}

bool gw_cuda_sums_begin(gw_cuda_sums *s, gw_reduce mode, gw_place place, gw_segments *send,
                        gw_segments *receive, gw_err *err) {
    GW_ASSERT(mode == GW_REDUCE_ALONE || mode == GW_REDUCE_EXACT || mode == GW_REDUCE_FAST);
    gw_held held;
    gw_ledger_held(s->ledger, &held, NULL);
    *send = (gw_segments){NULL, 0};
    *receive = (gw_segments){NULL, 0};
    if (held.in_flight > 0 || held.poisoned)
        return gw_fail(err, GW_E_INVALID, "step %llu cannot be reduced: %u shards in flight%s",
                       (unsigned long long)held.step, held.in_flight, held.poisoned ? ", poisoned" : "");
    s->mode = 0;
    s->alone.finished = s->received.finished = false;
    int64_t *own;
    if (mode != GW_REDUCE_ALONE && !need_buffers(s, mode, err)) return gw_fail_in(err, "sums");
    if (!gw_cuda_accumulator_finish(s->accumulator, s->stream, &own, err)) return false;
    s->own = own;
    if (mode == GW_REDUCE_ALONE) {
        s->alone.words = own;
    } else {
        if (!prepare(s, mode, place, own, err)) return false;
        gw_segment **lists = place == GW_PLACE_HOST ? s->mirrored : s->segments;
        *send = (gw_segments){lists[0], s->segment_count};
        *receive = (gw_segments){lists[1], s->segment_count};
    }
    s->mode = mode;
    s->place = place;
    s->step = held.step;
    s->shards = held.shards;
    return true;
}

/* Puts the fingerprints and bad counts of the converted float sums into the headers on the host. */
static void correct_headers(gw_cuda_sums *s) {
    for (uint32_t b = 0; b + 1 < s->layout->bucket_count; b++)
        s->host.headers[(size_t)b * GW_EXACT_HEADER + GW_EXACT_FINGERPRINT] = 0;
    for (uint32_t t = 0; t < s->layout->tensor_count; t++) {
        if (!gw_is_summed(s->layout, t)) continue;
        int64_t *header = s->host.headers + (size_t)s->layout->of[t].bucket * GW_EXACT_HEADER;
        header[GW_EXACT_FINGERPRINT] =
            (int64_t)((uint64_t)header[GW_EXACT_FINGERPRINT] + s->host.unpacked[t].fingerprint);
        header[GW_EXACT_BAD] += (int64_t)s->host.unpacked[t].bad;
    }
}

bool gw_cuda_sums_end(gw_cuda_sums *s, gw_verdict *verdict, gw_err *err) {
    *verdict = gw_verdict_start();
    if (s->mode == 0) return gw_fail(err, GW_E_INVALID, "no reduction was begun");
    sum *done = s->mode == GW_REDUCE_ALONE ? &s->alone : &s->received;
    if (s->mode != GW_REDUCE_ALONE && s->place == GW_PLACE_HOST &&
        !copy_segments(s, s->mirrored[1], s->segments[1], cudaMemcpyHostToDevice, err))
        return false;
    if (s->mode == GW_REDUCE_FAST && !unpack_floats(s, done->words, err)) return false;
    if (!start_check(s, done->words, err) || !wait_for(s, "checking the sum", err)) return false;
    if (s->mode == GW_REDUCE_FAST) correct_headers(s);
    uint64_t coverage = gw_exact_coverage_of_all(gw_ledger_key(s->ledger), s->step, s->shards);
    for (uint32_t b = 0; b < s->layout->bucket_count; b++) {
        gw_exact_check(b, s->host.headers + (size_t)b * GW_EXACT_HEADER, s->host.computed[b], s->shards,
                       coverage, verdict);
        if (b + 1 < s->layout->bucket_count) gw_exact_note(b, s->host.computed[b], verdict);
    }
    if (verdict->coverage_ok && verdict->fingerprint_ok) {
        done->step = s->step;
        done->finished = true;
    }
    bool mirrored = s->mode == GW_REDUCE_EXACT && s->place == GW_PLACE_HOST;
    s->mode = 0;
    if (verdict->fingerprint_ok) return true;
    verdict->own_wrong = mirrored && !gw_segments_fit((gw_segments){s->mirrored[0], s->segment_count});
    return verdict->own_wrong || find_own_wrong(s, &verdict->own_wrong, err);
}

void gw_cuda_sums_release(gw_cuda_sums *s) {
    s->alone.finished = false;
    s->mode = 0;
}

const int64_t *gw_cuda_sums_words(const gw_cuda_sums *s, uint64_t step) {
    if (s->alone.finished && s->alone.step == step) return s->alone.words;
    return s->received.finished && s->received.step == step ? s->received.words : NULL;
}

const int64_t *gw_cuda_sums_small(const gw_cuda_sums *s, uint32_t tensor) {
    return s->small_at[tensor] == NOT_SMALL ? NULL : s->host.values + s->small_at[tensor];
}

const int64_t *gw_cuda_sums_boundary(const gw_cuda_sums *s) {
    return s->host.boundary;
}
