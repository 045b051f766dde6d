#include "kernels/accumulator.h"

#include "core/check.h"
#include "kernels/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STRIPE_ELEMENTS = 1 << 16 };

/* `part` and the data are of generation `generation`; older ones count as zero. All under `lock`. */
typedef struct stripe {
    pthread_mutex_t lock;
    uint64_t generation;
    gw_exact_part part;
} stripe;

struct gw_accumulator {
    const gw_layout *layout;
    const gw_exact_path *path;
    uint64_t job_key;
    int64_t *words;
    stripe *stripes;
    uint64_t *first_stripe; /* by bucket; bucket_count entries: the boundary bucket's is the stripe count */
    uint64_t stripe_count;

    pthread_mutex_t mark; /* guards all below; generation is also read without it */
    _Atomic uint64_t generation;
    uint64_t step, coverage;
    uint32_t shards, held, in_flight, running;
    bool poisoned;
    gw_exact_bad bad;
    int64_t *boundary; /* layout->boundary_words */
    uint64_t held_bits[GW_MAX_SHARDS / 64 + 1], flight_bits[GW_MAX_SHARDS / 64 + 1];
};

static bool bit(const uint64_t *bits, uint32_t i) {
    return bits[i / 64] >> (i % 64) & 1;
}

static void set_bit(uint64_t *bits, uint32_t i) {
    bits[i / 64] |= (uint64_t)1 << (i % 64);
}

static void clear_bit(uint64_t *bits, uint32_t i) {
    bits[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static uint64_t stripes_of(const gw_layout_bucket *bucket) {
    return (bucket->count + STRIPE_ELEMENTS - 1) / STRIPE_ELEMENTS;
}

static bool allocate(gw_accumulator *acc, gw_err *err) {
    const gw_layout *layout = acc->layout;
    acc->first_stripe = calloc(layout->bucket_count, sizeof *acc->first_stripe);
    acc->boundary = calloc(layout->boundary_words + 1, sizeof *acc->boundary);
    if (acc->first_stripe == NULL || acc->boundary == NULL)
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
    if (!gw_memory_take(layout->words * sizeof *acc->words, &words, err))
        return gw_fail_in(err, "accumulator");
    acc->words = words;
    return true;
}

bool gw_accumulator_open(const gw_layout *layout, const gw_exact_path *path, uint64_t job_key,
                         gw_accumulator **accumulator, gw_err *err) {
    gw_accumulator *acc = calloc(1, sizeof *acc);
    *accumulator = NULL;
    if (acc == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for an accumulator");
    acc->layout = layout;
    acc->path = path;
    acc->job_key = job_key;
    acc->shards = 1;
    atomic_init(&acc->generation, 1); /* stripes start at 0: stale */
    pthread_mutex_init(&acc->mark, NULL);
    if (!allocate(acc, err)) {
        gw_accumulator_close(acc);
        return false;
    }
    *accumulator = acc;
    return true;
}

void gw_accumulator_close(gw_accumulator *acc) {
    if (acc == NULL) return;
    GW_CHECK(acc->running == 0);
    for (uint64_t s = 0; s < acc->stripe_count; s++) pthread_mutex_destroy(&acc->stripes[s].lock);
    pthread_mutex_destroy(&acc->mark);
    gw_memory_give(acc->words, acc->layout->words * sizeof *acc->words);
    free(acc->stripes);
    free(acc->first_stripe);
    free(acc->boundary);
    free(acc);
}

uint64_t gw_accumulator_bytes(const gw_accumulator *acc) {
    return acc->layout->words * sizeof *acc->words + acc->stripe_count * sizeof *acc->stripes + sizeof *acc;
}

/* Under `mark`. */
static void empty(gw_accumulator *acc) {
    atomic_store(&acc->generation, atomic_load(&acc->generation) + 1);
    acc->coverage = 0;
    acc->held = 0;
    acc->in_flight = 0;
    acc->poisoned = false;
    acc->bad = (gw_exact_bad){.any = false};
    memset(acc->boundary, 0, acc->layout->boundary_words * sizeof *acc->boundary);
    memset(acc->held_bits, 0, gw_held_words(acc->shards) * sizeof acc->held_bits[0]);
    memset(acc->flight_bits, 0, gw_held_words(acc->shards) * sizeof acc->flight_bits[0]);
}

void gw_accumulator_begin(gw_accumulator *acc, uint64_t step, uint32_t shards) {
    GW_CHECK(shards >= 1 && shards <= GW_MAX_SHARDS);
    pthread_mutex_lock(&acc->mark);
    empty(acc); /* the bits of the old step's shards: those above them are 0 */
    acc->step = step;
    acc->shards = shards;
    pthread_mutex_unlock(&acc->mark);
}

void gw_accumulator_zero(gw_accumulator *acc) {
    pthread_mutex_lock(&acc->mark);
    empty(acc);
    pthread_mutex_unlock(&acc->mark);
}

bool gw_accumulator_enter(gw_accumulator *acc, uint64_t step, uint32_t shard, gw_deposit *deposit,
                          gw_err *err) {
    bool entered = false;
    pthread_mutex_lock(&acc->mark);
    if (step != acc->step)
        gw_fail(err, GW_E_FENCED, "shard %u of step %llu: the accumulator is at step %llu", shard,
                (unsigned long long)step, (unsigned long long)acc->step);
    else if (shard >= acc->shards)
        gw_fail(err, GW_E_INVALID, "step %llu has no shard %u: it has %u", (unsigned long long)step, shard,
                acc->shards);
    else if (bit(acc->held_bits, shard) || bit(acc->flight_bits, shard))
        gw_fail(err, GW_E_INVALID, "shard %u of step %llu is %s already", shard, (unsigned long long)step,
                bit(acc->held_bits, shard) ? "held" : "in flight");
    else
        entered = true;
    if (entered) {
        set_bit(acc->flight_bits, shard);
        acc->in_flight++;
        acc->running++;
        *deposit = (gw_deposit){.accumulator = acc,
                                .step = step,
                                .generation = atomic_load(&acc->generation),
                                .shard = shard,
                                .shards = acc->shards};
    }
    pthread_mutex_unlock(&acc->mark);
    return entered;
}

static bool fresh(const gw_deposit *deposit) {
    return atomic_load(&deposit->accumulator->generation) == deposit->generation;
}

/* Whether the piece lies in a summed tensor; says in the deposit if not. */
static bool check_piece(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count) {
    const gw_layout *layout = deposit->accumulator->layout;
    bool right = tensor < layout->tensor_count && layout->tensors[tensor].role != GW_STATE &&
                 first <= layout->of[tensor].elements && count <= layout->of[tensor].elements - first;
    if (right || deposit->invalid) return right;
    uint64_t last = first + count; /* wraps when the piece is that wrong */
    deposit->invalid = true;
    gw_fail(&deposit->err, GW_E_INVALID, "the job emitted elements %llu to %llu of tensor %u (%s)",
            (unsigned long long)first, (unsigned long long)last, tensor,
            tensor < layout->tensor_count ? layout->tensors[tensor].name : "no such tensor");
    return false;
}

/* Locks stripe `number` of a bucket and clears it when it is stale. Returns NULL, nothing locked, when the
 * deposit's generation is over. An emptying that comes right after the check does no harm: what is then added
 * is of the old generation, and counts as zero. */
static stripe *lock_stripe(gw_deposit *deposit, uint32_t bucket, uint64_t number) {
    gw_accumulator *acc = deposit->accumulator;
    stripe *s = &acc->stripes[acc->first_stripe[bucket] + number];
    pthread_mutex_lock(&s->lock);
    if (!fresh(deposit)) {
        pthread_mutex_unlock(&s->lock);
        return NULL;
    }
    GW_CHECK(s->generation <= deposit->generation);
    if (s->generation != deposit->generation) {
        const gw_layout_bucket *of = &acc->layout->buckets[bucket];
        uint64_t from = number * STRIPE_ELEMENTS;
        uint64_t count = of->count - from < STRIPE_ELEMENTS ? of->count - from : STRIPE_ELEMENTS;
        memset(acc->words + of->data + from, 0, count * sizeof *acc->words);
        s->part = (gw_exact_part){0, 0};
        s->generation = deposit->generation;
    }
    deposit->emitted = true;
    return s;
}

static void note_bad(gw_deposit *deposit, const gw_exact_bad *bad) {
    gw_accumulator *acc = deposit->accumulator;
    pthread_mutex_lock(&acc->mark);
    if (fresh(deposit) && gw_exact_bad_compare(bad, &acc->bad) < 0) acc->bad = *bad;
    pthread_mutex_unlock(&acc->mark);
}

/* Adds one piece, stripe by stripe. Exactly one of `floats` and `integers` is given. */
static void add_piece(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count,
                      const float *floats, const int64_t *integers) {
    if (!check_piece(deposit, tensor, first, count)) return;
    gw_accumulator *acc = deposit->accumulator;
    const gw_layout_tensor *of = &acc->layout->of[tensor];
    gw_exact_format format = gw_exact_format_of(acc->layout->tensors[tensor].frac_bits, deposit->shards);
    for (uint64_t done = 0; done < count;) {
        uint64_t at = of->first + first + done; /* in the bucket */
        uint64_t room = STRIPE_ELEMENTS - at % STRIPE_ELEMENTS;
        uint64_t n = count - done < room ? count - done : room;
        stripe *s = lock_stripe(deposit, of->bucket, at / STRIPE_ELEMENTS);
        if (s == NULL) return;
        int64_t *sum = acc->words + acc->layout->buckets[of->bucket].data + at;
        gw_exact_part part = {0, 0};
        if (floats != NULL)
            acc->path->add(&format, at, n, floats + done, sum, &part);
        else
            gw_exact_add_integers(&format, at, n, integers + done, sum, &part);
        s->part.fingerprint += part.fingerprint;
        s->part.bad += part.bad;
        pthread_mutex_unlock(&s->lock);
        for (uint64_t i = 0; part.bad > 0 && i < n; i++) {
            int64_t q;
            bool good = floats != NULL ? gw_exact_round(&format, floats[done + i], &q)
                                       : gw_exact_round_integer(&format, integers[done + i], &q);
            if (good) continue;
            note_bad(deposit, &(gw_exact_bad){deposit->shard, tensor, first + done + i, true});
            break;
        }
        done += n;
    }
}

void gw_accumulator_add(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count,
                        const float *values) {
    add_piece(deposit, tensor, first, count, values, NULL);
}

void gw_accumulator_add_integers(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count,
                                 const int64_t *values) {
    add_piece(deposit, tensor, first, count, NULL, values);
}

gw_contributed gw_accumulator_leave(gw_deposit *deposit, bool whole, gw_err *err) {
    gw_accumulator *acc = deposit->accumulator;
    gw_contributed outcome = GW_SHARD_DROPPED;
    pthread_mutex_lock(&acc->mark);
    GW_CHECK(acc->running > 0);
    acc->running--;
    if (fresh(deposit)) {
        GW_CHECK(acc->in_flight > 0 && bit(acc->flight_bits, deposit->shard));
        acc->in_flight--;
        clear_bit(acc->flight_bits, deposit->shard);
        if (whole && !deposit->invalid) {
            set_bit(acc->held_bits, deposit->shard);
            acc->held++;
            acc->coverage += gw_exact_coverage(acc->job_key, deposit->step, deposit->shard);
            outcome = GW_SHARD_HELD;
        } else {
            acc->poisoned = acc->poisoned || deposit->emitted;
            outcome = GW_SHARD_FAILED;
        }
    }
    pthread_mutex_unlock(&acc->mark);
    if (outcome == GW_SHARD_FAILED && deposit->invalid) *err = deposit->err;
    return outcome;
}

void gw_accumulator_held(gw_accumulator *acc, gw_held *held, uint64_t *bits) {
    pthread_mutex_lock(&acc->mark);
    *held = (gw_held){.step = acc->step,
                      .generation = atomic_load(&acc->generation),
                      .shards = acc->shards,
                      .held = acc->held,
                      .in_flight = acc->in_flight,
                      .running = acc->running,
                      .poisoned = acc->poisoned};
    if (bits != NULL) memcpy(bits, acc->held_bits, gw_held_words(acc->shards) * sizeof *bits);
    pthread_mutex_unlock(&acc->mark);
}

void gw_accumulator_bad(gw_accumulator *acc, gw_exact_bad *bad) {
    pthread_mutex_lock(&acc->mark);
    *bad = acc->bad;
    pthread_mutex_unlock(&acc->mark);
}

void gw_accumulator_set_boundary(gw_accumulator *acc, const int64_t *words) {
    pthread_mutex_lock(&acc->mark);
    memcpy(acc->boundary, words, acc->layout->boundary_words * sizeof *acc->boundary);
    pthread_mutex_unlock(&acc->mark);
}

/* The sum of a bucket's stripes, stale ones cleared. */
static gw_exact_part settle_bucket(gw_accumulator *acc, uint32_t b, uint64_t generation) {
    const gw_layout_bucket *bucket = &acc->layout->buckets[b];
    gw_exact_part part = {0, 0};
    for (uint64_t number = 0; number < stripes_of(bucket); number++) {
        gw_deposit any = {.accumulator = acc, .generation = generation};
        stripe *s = lock_stripe(&any, b, number);
        GW_CHECK(s != NULL); /* nobody empties the accumulator while it settles */
        part.fingerprint += s->part.fingerprint;
        part.bad += s->part.bad;
        pthread_mutex_unlock(&s->lock);
    }
    return part;
}

int64_t *gw_accumulator_settle(gw_accumulator *acc) {
    pthread_mutex_lock(&acc->mark);
    GW_CHECK(acc->in_flight == 0);
    GW_CHECK(!acc->poisoned);
    for (uint32_t b = 0; b < acc->layout->bucket_count; b++) {
        const gw_layout_bucket *bucket = &acc->layout->buckets[b];
        gw_exact_part part = {0, 0};
        if (b + 1 < acc->layout->bucket_count) {
            part = settle_bucket(acc, b, atomic_load(&acc->generation));
        } else {
            memcpy(acc->words + bucket->data, acc->boundary, acc->layout->boundary_words * sizeof(int64_t));
            part.fingerprint = acc->path->fingerprint(0, bucket->count, acc->words + bucket->data);
        }
        int64_t *header = acc->words + bucket->header;
        memset(header, 0, GW_EXACT_HEADER * sizeof *header);
        header[GW_EXACT_COUNT] = (int64_t)acc->held;
        header[GW_EXACT_COVERAGE] = (int64_t)acc->coverage;
        header[GW_EXACT_FINGERPRINT] = (int64_t)part.fingerprint;
        header[GW_EXACT_BAD] = (int64_t)part.bad;
    }
    pthread_mutex_unlock(&acc->mark);
    return acc->words;
}
