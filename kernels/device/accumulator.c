#include "kernels/device/accumulator.h"

#include "core/base/assert.h"
#include "kernels/host/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { STRIPE_ELEMENTS = 1 << 16 };

/* A stripe's fields and its data are guarded by `lock`. Data of an older generation than the ledger's count
 * as zero. */
typedef struct stripe {
    pthread_mutex_t lock;
    uint64_t generation;
    gw_exact_part part;
} stripe;

struct gw_accumulator {
    const gw_layout *layout;
    const gw_exact_path *path;
    gw_ledger *ledger;
    bool own; /* the ledger belongs to this accumulator */
    int64_t *words;
    stripe *stripes;
    /* [bucket_count]: each bucket's first stripe; the boundary bucket's entry is the number of stripes */
    uint64_t *first_stripe;
    uint64_t stripe_count;
};

static uint64_t stripes_of(const gw_layout_bucket *bucket) {
    return (bucket->count + STRIPE_ELEMENTS - 1) / STRIPE_ELEMENTS;
}

static bool allocate(gw_accumulator *acc, gw_err *err) {
    const gw_layout *layout = acc->layout;
    if (acc->own && (acc->ledger = gw_ledger_open(layout, err)) == NULL) return false;
    acc->first_stripe = calloc(layout->bucket_count, sizeof *acc->first_stripe);
    if (acc->first_stripe == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for %u buckets", layout->bucket_count);
    uint64_t stripes = 0;
    for (uint32_t b = 0; b + 1 < layout->bucket_count; b++) {
        acc->first_stripe[b] = stripes;
        stripes += stripes_of(&layout->buckets[b]);
    }
    acc->first_stripe[layout->bucket_count - 1] = stripes;
    acc->stripes = calloc(stripes + 1, sizeof *acc->stripes);
    if (acc->stripes == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the accumulator's stripes");
    for (; acc->stripe_count < stripes; acc->stripe_count++)
        pthread_mutex_init(&acc->stripes[acc->stripe_count].lock, NULL);
    void *words;
    if (!gw_memory_map(layout->words * sizeof *acc->words, &words, err))
        return gw_fail_in(err, "accumulator");
    acc->words = words;
    return true;
}

bool gw_accumulator_open(const gw_layout *layout, const gw_exact_path *path, gw_ledger *shared,
                         gw_accumulator **accumulator, gw_err *err) {
    gw_accumulator *acc = calloc(1, sizeof *acc);
    *accumulator = NULL;
    if (acc == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for an accumulator");
    acc->layout = layout;
    acc->path = path;
    acc->ledger = shared;
    acc->own = shared == NULL;
    if (!allocate(acc, err)) {
        gw_accumulator_close(acc);
        return false;
    }
    *accumulator = acc;
    return true;
}

void gw_accumulator_close(gw_accumulator *acc) {
    if (acc == NULL) return;
    if (acc->own) gw_ledger_close(acc->ledger);
    for (uint64_t s = 0; s < acc->stripe_count; s++) pthread_mutex_destroy(&acc->stripes[s].lock);
    gw_memory_unmap(acc->words, acc->layout->words * sizeof *acc->words);
    free(acc->stripes);
    free(acc->first_stripe);
    free(acc);
}

uint64_t gw_accumulator_bytes(const gw_accumulator *acc) {
    return acc->layout->words * sizeof *acc->words + acc->stripe_count * sizeof *acc->stripes + sizeof *acc;
}

gw_ledger *gw_accumulator_ledger(const gw_accumulator *acc) {
    return acc->ledger;
}

bool gw_accumulator_enter(gw_accumulator *acc, uint64_t step, uint32_t shard, gw_contribution *contribution,
                          gw_err *err) {
    contribution->accumulator = acc;
    return gw_ledger_enter(acc->ledger, step, shard, &contribution->entry, err);
}

/* Locks stripe `number` of a bucket and clears it if it is stale. Returns NULL, and locks nothing, if the
 * accumulator has been emptied since the contribution began. The ledger may be emptied right after this check
 * without harm: what is then added is of the old generation and counts as zero. */
static stripe *lock_stripe(gw_contribution *contribution, uint32_t bucket, uint64_t number) {
    gw_accumulator *acc = contribution->accumulator;
    stripe *s = &acc->stripes[acc->first_stripe[bucket] + number];
    pthread_mutex_lock(&s->lock);
    if (!gw_ledger_fresh(acc->ledger, &contribution->entry)) {
        pthread_mutex_unlock(&s->lock);
        return NULL;
    }
    GW_ASSERT(s->generation <= contribution->entry.generation);
    if (s->generation != contribution->entry.generation) {
        const gw_layout_bucket *of = &acc->layout->buckets[bucket];
        uint64_t from = number * STRIPE_ELEMENTS;
        uint64_t count = of->count - from < STRIPE_ELEMENTS ? of->count - from : STRIPE_ELEMENTS;
        memset(acc->words + of->data + from, 0, count * sizeof *acc->words);
        s->part = (gw_exact_part){0, 0};
        s->generation = contribution->entry.generation;
    }
    contribution->entry.emitted = true;
    return s;
}

/* The values of a piece: one of the three. */
typedef struct piece {
    const float *floats;
    const int64_t *integers;
    const double *doubles;
} piece;

static void add_values(const gw_accumulator *acc, const gw_exact_format *format, const piece *from,
                       uint64_t done, uint64_t at, uint64_t count, int64_t *sum, gw_exact_part *part) {
    if (from->floats != NULL)
        acc->path->add(format, at, count, from->floats + done, sum, part);
    else if (from->integers != NULL)
        gw_exact_add_integers(format, at, count, from->integers + done, sum, part);
    else
        gw_exact_add_doubles(format, at, count, from->doubles + done, sum, part);
}

static bool is_good(const gw_exact_format *format, const piece *from, uint64_t i) {
    int64_t q;
    if (from->floats != NULL) return gw_exact_round(format, from->floats[i], &q);
    if (from->integers != NULL) return gw_exact_round_integer(format, from->integers[i], &q);
    return gw_exact_round_double(format, from->doubles[i], &q);
}

/* Adds one piece, stripe by stripe. */
static void add_piece(gw_contribution *contribution, uint32_t tensor, uint64_t first, uint64_t count,
                      piece from) {
    gw_accumulator *acc = contribution->accumulator;
    if (!gw_ledger_check(acc->ledger, &contribution->entry, tensor, first, count)) return;
    const gw_layout_tensor *of = &acc->layout->of[tensor];
    gw_exact_format format =
        gw_exact_format_of(acc->layout->tensors[tensor].frac_bits, contribution->entry.shards);
    for (uint64_t done = 0; done < count;) {
        uint64_t at = of->first + first + done; /* position in the bucket */
        uint64_t room = STRIPE_ELEMENTS - at % STRIPE_ELEMENTS;
        uint64_t n = count - done < room ? count - done : room;
        stripe *s = lock_stripe(contribution, of->bucket, at / STRIPE_ELEMENTS);
        if (s == NULL) return;
        int64_t *sum = acc->words + acc->layout->buckets[of->bucket].data + at;
        gw_exact_part part = {0, 0};
        add_values(acc, &format, &from, done, at, n, sum, &part);
        s->part.fingerprint += part.fingerprint;
        contribution->entry.fingerprint += gw_exact_contribution(tensor, &part);
        s->part.bad += part.bad;
        pthread_mutex_unlock(&s->lock);
        for (uint64_t i = 0; part.bad > 0 && i < n; i++) {
            if (is_good(&format, &from, done + i)) continue;
            gw_ledger_note_bad(acc->ledger, &contribution->entry, tensor, first + done + i);
            break;
        }
        done += n;
    }
}

void gw_accumulator_add(gw_contribution *contribution, uint32_t tensor, uint64_t first, uint64_t count,
                        const float *values) {
    add_piece(contribution, tensor, first, count, (piece){.floats = values});
}

void gw_accumulator_add_integers(gw_contribution *contribution, uint32_t tensor, uint64_t first,
                                 uint64_t count, const int64_t *values) {
    add_piece(contribution, tensor, first, count, (piece){.integers = values});
}

void gw_accumulator_add_doubles(gw_contribution *contribution, uint32_t tensor, uint64_t first,
                                uint64_t count, const double *values) {
    add_piece(contribution, tensor, first, count, (piece){.doubles = values});
}

gw_contributed gw_accumulator_leave(gw_contribution *contribution, bool whole, gw_err *err) {
    return gw_ledger_leave(contribution->accumulator->ledger, &contribution->entry, whole, err);
}

/* Returns the fingerprint and bad count of a bucket's stripes, after clearing stale ones. */
static gw_exact_part finish_bucket(gw_accumulator *acc, uint32_t b, uint64_t generation) {
    const gw_layout_bucket *bucket = &acc->layout->buckets[b];
    gw_exact_part part = {0, 0};
    for (uint64_t number = 0; number < stripes_of(bucket); number++) {
        gw_contribution any = {.accumulator = acc, .entry = {.generation = generation}};
        stripe *s = lock_stripe(&any, b, number);
        GW_ASSERT(s != NULL); /* the accumulator is not emptied meanwhile */
        part.fingerprint += s->part.fingerprint;
        part.bad += s->part.bad;
        pthread_mutex_unlock(&s->lock);
    }
    return part;
}

int64_t *gw_accumulator_finish(gw_accumulator *acc) {
    for (uint32_t b = 0; b < acc->layout->bucket_count; b++) {
        const gw_layout_bucket *bucket = &acc->layout->buckets[b];
        gw_exact_part part = {0, 0};
        if (b + 1 < acc->layout->bucket_count) {
            part = finish_bucket(acc, b, gw_ledger_generation(acc->ledger));
        } else {
            gw_ledger_boundary(acc->ledger, acc->own, acc->words + bucket->data);
            part.fingerprint = acc->path->fingerprint(0, bucket->count, acc->words + bucket->data);
        }
        gw_ledger_header(acc->ledger, acc->own, &part, acc->words + bucket->header);
    }
    return acc->words;
}
