
#include "kernels/device/sums.h"
#include "core/base/assert.h"
#include "kernels/host/fpmode.h"
#include "kernels/host/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct sum {
    int64_t *words; /* NULL until needed; the words of `alone` are the accumulator's */
    uint64_t step;
    bool finished;
} sum;

struct gw_sum_store {
    const gw_layout *layout;
    const gw_exact_path *path;
    gw_accumulator *accumulator;
    sum received;
    sum alone;               /* its words lie in the accumulator */
    float *floats[2];        /* for GW_REDUCE_FAST: sent, received; indexed like the words */
    gw_segment *segments[2]; /* sent, received; two per bucket */

    gw_reduce mode; /* of the reduction that was begun; 0: none */
    uint64_t step;
    uint32_t shards;
    int64_t *own; /* the accumulator's finished words */
};

bool gw_sum_store_open(const gw_layout *layout, const gw_exact_path *path, gw_accumulator *accumulator,
                       gw_sum_store **store, gw_err *err) {
    gw_sum_store *s = calloc(1, sizeof *s);
    *store = NULL;
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for sums");
    s->layout = layout;
    s->path = path;
    s->accumulator = accumulator;
    for (int i = 0; i < 2; i++) {
        s->segments[i] = calloc(2 * (size_t)layout->bucket_count, sizeof *s->segments[i]);
        if (s->segments[i] != NULL) continue;
        gw_sum_store_close(s);
        return gw_fail(err, GW_E_NOMEM, "no memory for %u segments", layout->bucket_count);
    }
    *store = s;
    return true;
}

static uint64_t bytes_of_words(const gw_layout *layout) {
    return layout->words * sizeof(int64_t);
}

static uint64_t bytes_of_floats(const gw_layout *layout) {
    return layout->words * sizeof(float);
}

void gw_sum_store_close(gw_sum_store *s) {
    if (s == NULL) return;
    gw_memory_unmap(s->received.words, bytes_of_words(s->layout));
    for (int i = 0; i < 2; i++) gw_memory_unmap(s->floats[i], bytes_of_floats(s->layout));
    for (int i = 0; i < 2; i++) free(s->segments[i]);
    free(s);
}

uint64_t gw_sum_store_bytes(const gw_sum_store *s) {
    uint64_t bytes = 0;
    if (s->received.words != NULL) bytes += bytes_of_words(s->layout);
    for (int i = 0; i < 2; i++)
        if (s->floats[i] != NULL) bytes += bytes_of_floats(s->layout);
    return bytes;
}

uint64_t gw_sum_store_need(const gw_layout *layout, gw_reduce mode) {
    if (mode == GW_REDUCE_ALONE) return 0;
    return bytes_of_words(layout) + (mode == GW_REDUCE_FAST ? 2 * bytes_of_floats(layout) : 0);
}

bool gw_segments_fit(gw_segments segments) {
    const gw_exact_path *path = gw_exact_path_best();
    for (uint32_t i = 0; i < segments.count; i++) {
        const gw_segment *bucket = &segments.list[i];
        const int64_t *words = bucket->data;
        GW_ASSERT(!bucket->is_float && bucket->count >= GW_EXACT_HEADER);
        uint64_t found = path->fingerprint(0, bucket->count - GW_EXACT_HEADER, words + GW_EXACT_HEADER);
        if (found != (uint64_t)words[GW_EXACT_FINGERPRINT]) return false;
    }
    return true;
}

bool gw_fail_own_sum(gw_err *err) {
    return gw_fail(err, GW_E_CORRUPT, "its own sum has other bits than were added");
}

gw_segments gw_list_exact(const gw_layout *layout, int64_t *words, gw_segment *list) {
    for (uint32_t b = 0; b < layout->bucket_count; b++) {
        const gw_layout_bucket *bucket = &layout->buckets[b];
        list[b] = (gw_segment){words + bucket->header, GW_EXACT_HEADER + bucket->count, false};
    }
    return (gw_segments){list, layout->bucket_count};
}

gw_segments gw_list_fast(const gw_layout *layout, int64_t *words, float *floats, gw_segment *list) {
    uint32_t count = 0, job_buckets = layout->bucket_count - 1;
    for (uint32_t b = 0; b < job_buckets; b++) {
        const gw_layout_bucket *bucket = &layout->buckets[b];
        list[count++] = (gw_segment){words + bucket->header, GW_EXACT_HEADER, false};
        list[count++] = (gw_segment){floats + bucket->data, bucket->count, true};
    }
    const gw_layout_bucket *boundary = &layout->buckets[job_buckets];
    list[count++] = (gw_segment){words + boundary->header, GW_EXACT_HEADER + boundary->count, false};
    return (gw_segments){list, count};
}

static void pack_floats(gw_sum_store *s, const int64_t *words) {
    gw_fpmode_set();
    for (uint32_t t = 0; t < s->layout->tensor_count; t++) {
        if (!gw_is_summed(s->layout, t)) continue;
        uint64_t at = gw_sum_word(s->layout, t);
        gw_exact_to_float(s->layout->tensors[t].frac_bits, s->layout->of[t].elements, words + at,
                          s->floats[0] + at);
    }
}

/* Whether the floats are what this peer's sum converts to, and the sum still has the fingerprint of what was
 * added. After a float reduction no fingerprint can tell. The sum is checked after it was converted, so that
 * a bit that changed before the conversion is found as well. */
static bool own_fits(gw_sum_store *s, int64_t *words) {
    float again[1024];
    for (uint32_t t = 0; t < s->layout->tensor_count; t++) {
        if (!gw_is_summed(s->layout, t)) continue;
        uint64_t at = gw_sum_word(s->layout, t), count = s->layout->of[t].elements;
        for (uint64_t i = 0, some; i < count; i += some) {
            some = count - i < 1024 ? count - i : 1024;
            gw_exact_to_float(s->layout->tensors[t].frac_bits, some, words + at + i, again);
            if (memcmp(again, s->floats[0] + at + i, some * sizeof *again) != 0) return false;
        }
    }
    return gw_segments_fit(gw_list_exact(s->layout, words, s->segments[0]));
}

/* Converts the received floats back to integers. The headers get the fingerprints of the result, so that one
 * check serves both modes. A float sum out of range is bad, on all peers alike. */
static void unpack_floats(gw_sum_store *s, int64_t *words) {
    gw_fpmode_set();
    for (uint32_t b = 0; b + 1 < s->layout->bucket_count; b++) {
        const gw_layout_bucket *bucket = &s->layout->buckets[b];
        memset(words + bucket->data, 0, bucket->count * sizeof *words);
        words[bucket->header + GW_EXACT_FINGERPRINT] = 0;
    }
    for (uint32_t t = 0; t < s->layout->tensor_count; t++) {
        if (!gw_is_summed(s->layout, t)) continue;
        uint64_t at = gw_sum_word(s->layout, t);
        gw_exact_format format = gw_exact_format_of(s->layout->tensors[t].frac_bits, 1);
        gw_exact_part part = {0, 0};
        s->path->add(&format, s->layout->of[t].first, s->layout->of[t].elements, s->floats[1] + at,
                     words + at, &part);
        int64_t *header = words + s->layout->buckets[s->layout->of[t].bucket].header;
        header[GW_EXACT_FINGERPRINT] = (int64_t)((uint64_t)header[GW_EXACT_FINGERPRINT] + part.fingerprint);
        header[GW_EXACT_BAD] += (int64_t)part.bad;
    }
}

static bool need_buffers(gw_sum_store *s, gw_reduce mode, sum *into, gw_err *err) {
    void *memory;
    if (into->words == NULL) {
        if (!gw_memory_map(bytes_of_words(s->layout), &memory, err)) return gw_fail_in(err, "sums");
        into->words = memory;
    }
    for (int i = 0; mode == GW_REDUCE_FAST && i < 2; i++) {
        if (s->floats[i] != NULL) continue;
        if (!gw_memory_map(bytes_of_floats(s->layout), &memory, err)) return gw_fail_in(err, "sums");
        s->floats[i] = memory;
    }
    return true;
}

bool gw_sum_store_begin(gw_sum_store *s, gw_reduce mode, gw_segments *send, gw_segments *receive,
                        gw_err *err) {
    gw_held held;
    gw_ledger_held(gw_accumulator_ledger(s->accumulator), &held, NULL);
    *send = (gw_segments){NULL, 0};
    *receive = (gw_segments){NULL, 0};
    if (held.in_flight > 0 || held.poisoned)
        return gw_fail(err, GW_E_INVALID, "step %llu cannot be reduced: %u shards in flight%s",
                       (unsigned long long)held.step, held.in_flight, held.poisoned ? ", poisoned" : "");
    s->mode = 0;
    s->alone.finished = false;
    sum *into = &s->received;
    into->finished = false;
    if (mode != GW_REDUCE_ALONE && !need_buffers(s, mode, into, err)) return false;
    int64_t *own = gw_accumulator_finish(s->accumulator);
    s->own = own;
    switch (mode) {
    case GW_REDUCE_ALONE:
        s->alone.words = own;
        break;
    case GW_REDUCE_EXACT:
        *send = gw_list_exact(s->layout, own, s->segments[0]);
        *receive = gw_list_exact(s->layout, into->words, s->segments[1]);
        break;
    case GW_REDUCE_FAST:
        pack_floats(s, own);
        if (!own_fits(s, own)) return gw_fail_own_sum(err);
        *send = gw_list_fast(s->layout, own, s->floats[0], s->segments[0]);
        *receive = gw_list_fast(s->layout, into->words, s->floats[1], s->segments[1]);
        break;
    default:
        GW_ASSERT(false && "a known way to reduce");
    }
    s->mode = mode;
    s->step = held.step;
    s->shards = held.shards;
    return true;
}

bool gw_sum_store_end(gw_sum_store *s, gw_verdict *verdict, gw_err *err) {
    *verdict = gw_verdict_start();
    if (s->mode == 0) return gw_fail(err, GW_E_INVALID, "no reduction was begun");
    sum *done = s->mode == GW_REDUCE_ALONE ? &s->alone : &s->received;
    if (s->mode == GW_REDUCE_FAST) unpack_floats(s, done->words);
    uint64_t coverage =
        gw_exact_coverage_of_all(gw_ledger_key(gw_accumulator_ledger(s->accumulator)), s->step, s->shards);
    for (uint32_t b = 0; b < s->layout->bucket_count; b++) {
        const gw_layout_bucket *bucket = &s->layout->buckets[b];
        uint64_t found = s->path->fingerprint(0, bucket->count, done->words + bucket->data);
        gw_exact_check(b, done->words + bucket->header, found, s->shards, coverage, verdict);
        if (b + 1 < s->layout->bucket_count) gw_exact_note(b, found, verdict);
    }
    if (verdict->coverage_ok && verdict->fingerprint_ok) {
        done->step = s->step;
        done->finished = true;
    }
    if (!verdict->fingerprint_ok)
        verdict->own_wrong = !gw_segments_fit(gw_list_exact(s->layout, s->own, s->segments[0]));
    s->mode = 0;
    return true;
}

void gw_sum_store_release(gw_sum_store *s) {
    s->alone.finished = false;
    s->mode = 0;
}

const int64_t *gw_sum_store_words(const gw_sum_store *s, uint64_t step) {
    if (s->alone.finished && s->alone.step == step) return s->alone.words;
    return s->received.finished && s->received.step == step ? s->received.words : NULL;
}
