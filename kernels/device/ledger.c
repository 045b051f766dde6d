#include "kernels/device/ledger.h"

#include "core/base/assert.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct gw_ledger {
    const gw_layout *layout;
    uint64_t job_key;

    pthread_mutex_t mark; /* guards all fields below; `generation` is also read without it */
    _Atomic uint64_t generation;
    uint64_t step, coverage;
    uint64_t print, located; /* of the held shards: gw_held */
    uint32_t shards, held, in_flight, running;
    bool poisoned;
    gw_exact_bad bad;
    int64_t *boundary; /* [layout->boundary_words] */
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

gw_ledger *gw_ledger_open(const gw_layout *layout, gw_err *err) {
    gw_ledger *ledger = calloc(1, sizeof *ledger);
    int64_t *boundary = calloc(layout->boundary_words + 1, sizeof *boundary);
    if (ledger == NULL || boundary == NULL) {
        free(ledger);
        free(boundary);
        gw_fail(err, GW_E_NOMEM, "no memory for the ledger of an accumulator");
        return NULL;
    }
    ledger->layout = layout;
    ledger->boundary = boundary;
    ledger->shards = 1;
    atomic_init(&ledger->generation, 1); /* stripes start at generation 0, and so are stale */
    pthread_mutex_init(&ledger->mark, NULL);
    return ledger;
}

void gw_ledger_close(gw_ledger *ledger) {
    if (ledger == NULL) return;
    GW_ASSERT(ledger->running == 0);
    pthread_mutex_destroy(&ledger->mark);
    free(ledger->boundary);
    free(ledger);
}

void gw_ledger_set_key(gw_ledger *ledger, uint64_t job_key) {
    GW_ASSERT(ledger->held == 0 && ledger->running == 0);
    ledger->job_key = job_key;
}

uint64_t gw_ledger_key(const gw_ledger *ledger) {
    return ledger->job_key;
}

/* The caller holds `mark`. */
static void empty(gw_ledger *ledger) {
    atomic_store(&ledger->generation, atomic_load(&ledger->generation) + 1);
    ledger->coverage = 0;
    ledger->print = ledger->located = 0;
    ledger->held = 0;
    ledger->in_flight = 0;
    ledger->poisoned = false;
    ledger->bad = (gw_exact_bad){.any = false};
    memset(ledger->boundary, 0, ledger->layout->boundary_words * sizeof *ledger->boundary);
    memset(ledger->held_bits, 0, gw_held_words(ledger->shards) * sizeof ledger->held_bits[0]);
    memset(ledger->flight_bits, 0, gw_held_words(ledger->shards) * sizeof ledger->flight_bits[0]);
}

void gw_ledger_begin(gw_ledger *ledger, uint64_t step, uint32_t shards) {
    GW_ASSERT(shards <= GW_MAX_SHARDS);
    pthread_mutex_lock(&ledger->mark);
    empty(ledger); /* clears the bits of the old step's shards; higher bits are always 0 */
    ledger->step = step;
    ledger->shards = shards;
    pthread_mutex_unlock(&ledger->mark);
}

void gw_ledger_zero(gw_ledger *ledger) {
    pthread_mutex_lock(&ledger->mark);
    empty(ledger);
    pthread_mutex_unlock(&ledger->mark);
}

bool gw_ledger_enter(gw_ledger *ledger, uint64_t step, uint32_t shard, gw_entry *entry, gw_err *err) {
    bool entered = false;
    pthread_mutex_lock(&ledger->mark);
    if (step != ledger->step)
        gw_fail(err, GW_E_FENCED, "shard %u of step %llu: the accumulator is at step %llu", shard,
                (unsigned long long)step, (unsigned long long)ledger->step);
    else if (shard >= ledger->shards)
        gw_fail(err, GW_E_INVALID, "step %llu has no shard %u: it has %u", (unsigned long long)step, shard,
                ledger->shards);
    else if (bit(ledger->held_bits, shard) || bit(ledger->flight_bits, shard))
        gw_fail(err, GW_E_INVALID, "shard %u of step %llu is %s already", shard, (unsigned long long)step,
                bit(ledger->held_bits, shard) ? "held" : "in flight");
    else
        entered = true;
    if (entered) {
        set_bit(ledger->flight_bits, shard);
        ledger->in_flight++;
        ledger->running++;
        *entry = (gw_entry){.step = step,
                            .generation = atomic_load(&ledger->generation),
                            .shard = shard,
                            .shards = ledger->shards};
    }
    pthread_mutex_unlock(&ledger->mark);
    return entered;
}

bool gw_ledger_check(const gw_ledger *ledger, gw_entry *entry, uint32_t tensor, uint64_t first,
                     uint64_t count) {
    const gw_layout *layout = ledger->layout;
    bool right = tensor < layout->tensor_count && layout->tensors[tensor].role != GW_STATE &&
                 first <= layout->of[tensor].elements && count <= layout->of[tensor].elements - first;
    if (right || entry->invalid) return right;
    uint64_t last = first + count; /* may wrap for a piece that is far out of range */
    entry->invalid = true;
    gw_fail(&entry->err, GW_E_INVALID, "the job emitted elements %llu to %llu of tensor %u (%s)",
            (unsigned long long)first, (unsigned long long)last, tensor,
            tensor < layout->tensor_count ? layout->tensors[tensor].name : "no such tensor");
    return false;
}

bool gw_ledger_fresh(const gw_ledger *ledger, const gw_entry *entry) {
    return atomic_load(&ledger->generation) == entry->generation;
}

void gw_ledger_note_bad(gw_ledger *ledger, const gw_entry *entry, uint32_t tensor, uint64_t index) {
    gw_exact_bad bad = {.shard = entry->shard, .tensor = tensor, .index = index, .any = true};
    pthread_mutex_lock(&ledger->mark);
    if (gw_ledger_fresh(ledger, entry) && gw_exact_bad_compare(&bad, &ledger->bad) < 0) ledger->bad = bad;
    pthread_mutex_unlock(&ledger->mark);
}

gw_contributed gw_ledger_leave(gw_ledger *ledger, const gw_entry *entry, bool whole, gw_err *err) {
    gw_contributed result = GW_SHARD_DROPPED;
    pthread_mutex_lock(&ledger->mark);
    GW_ASSERT(ledger->running > 0);
    ledger->running--;
    if (gw_ledger_fresh(ledger, entry)) {
        GW_ASSERT(ledger->in_flight > 0 && bit(ledger->flight_bits, entry->shard));
        ledger->in_flight--;
        clear_bit(ledger->flight_bits, entry->shard);
        if (whole && !entry->invalid) {
            set_bit(ledger->held_bits, entry->shard);
            ledger->held++;
            ledger->coverage += gw_exact_coverage(ledger->job_key, entry->step, entry->shard);
            ledger->print += entry->fingerprint;
            ledger->located += gw_exact_locator(entry->shard, entry->fingerprint);
            result = GW_SHARD_HELD;
        } else {
            ledger->poisoned = ledger->poisoned || entry->emitted;
            result = GW_SHARD_FAILED;
        }
    }
    pthread_mutex_unlock(&ledger->mark);
    if (result == GW_SHARD_FAILED && entry->invalid) {
        *err = entry->err;
        gw_fail_in(err, "step %llu, shard %u", (unsigned long long)entry->step, entry->shard);
    }
    return result;
}

void gw_ledger_held(gw_ledger *ledger, gw_held *held, uint64_t *bits) {
    pthread_mutex_lock(&ledger->mark);
    *held = (gw_held){.step = ledger->step,
                      .generation = atomic_load(&ledger->generation),
                      .shards = ledger->shards,
                      .held = ledger->held,
                      .in_flight = ledger->in_flight,
                      .running = ledger->running,
                      .poisoned = ledger->poisoned,
                      .print = ledger->print,
                      .located = ledger->located};
    if (bits != NULL) memcpy(bits, ledger->held_bits, gw_held_words(ledger->shards) * sizeof *bits);
    pthread_mutex_unlock(&ledger->mark);
}

void gw_ledger_bad(gw_ledger *ledger, gw_exact_bad *bad) {
    pthread_mutex_lock(&ledger->mark);
    *bad = ledger->bad;
    pthread_mutex_unlock(&ledger->mark);
}

void gw_ledger_set_boundary(gw_ledger *ledger, const int64_t *words) {
    pthread_mutex_lock(&ledger->mark);
    memcpy(ledger->boundary, words, ledger->layout->boundary_words * sizeof *ledger->boundary);
    pthread_mutex_unlock(&ledger->mark);
}

uint64_t gw_ledger_generation(const gw_ledger *ledger) {
    return atomic_load(&ledger->generation);
}

void gw_ledger_boundary(gw_ledger *ledger, bool states, int64_t *words) {
    size_t bytes = ledger->layout->boundary_words * sizeof *words;
    pthread_mutex_lock(&ledger->mark);
    if (states)
        memcpy(words, ledger->boundary, bytes);
    else
        memset(words, 0, bytes);
    pthread_mutex_unlock(&ledger->mark);
}

void gw_ledger_header(gw_ledger *ledger, bool states, const gw_exact_part *part,
                      int64_t header[GW_EXACT_HEADER]) {
    pthread_mutex_lock(&ledger->mark);
    GW_ASSERT(ledger->in_flight == 0);
    GW_ASSERT(!ledger->poisoned);
    memset(header, 0, GW_EXACT_HEADER * sizeof *header);
    if (states) {
        header[GW_EXACT_COUNT] = (int64_t)ledger->held;
        header[GW_EXACT_COVERAGE] = (int64_t)ledger->coverage;
    }
    header[GW_EXACT_FINGERPRINT] = (int64_t)part->fingerprint;
    header[GW_EXACT_BAD] = (int64_t)part->bad;
    pthread_mutex_unlock(&ledger->mark);
}
