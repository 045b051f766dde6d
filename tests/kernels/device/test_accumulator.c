#include "core/rng.h"
#include "kernels/device/accumulator.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { W, G, C, TENSORS };
enum { ELEMENTS = 150000, SHARDS = 24, KEY = 5 };

static const gw_tensor tensors[TENSORS] = {
    [W] = {.name = "w", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {ELEMENTS}},
    [G] = {.name = "g", .role = GW_SUMMED, .rank = 1, .dim = {ELEMENTS}, .frac_bits = 40},
    [C] = {.name = "c", .role = GW_SUMMED, .rank = 1, .dim = {3}, .group = 1, .bucket = 1}};

typedef struct bench {
    gw_layout layout;
    gw_accumulator *acc;
} bench;

static bench open_bench(void) {
    static const gw_plan plan = {.tensors = tensors, .tensor_count = TENSORS};
    bench b;
    gw_err err;
    cr_assert(gw_layout_make(&plan, 2, &b.layout, &err), "%s", err.text);
    return b;
}

static void open_acc(bench *b) {
    gw_err err;
    cr_assert(gw_accumulator_open(&b->layout, gw_exact_path_best(), NULL, &b->acc, &err), "%s", err.text);
    gw_ledger_set_key(gw_accumulator_ledger(b->acc), KEY);
    gw_ledger_begin(gw_accumulator_ledger(b->acc), 3, SHARDS);
}

static void close_bench(bench *b) {
    gw_accumulator_close(b->acc);
    gw_layout_free(&b->layout);
}

static float *shard_values(uint32_t shard) {
    float *values = malloc(ELEMENTS * sizeof *values);
    for (uint64_t i = 0; i < ELEMENTS; i++)
        values[i] = (float)(int32_t)gw_mix64(shard * UINT64_C(1000003) + i) * 1e-7F;
    return values;
}

/* Emits a shard in pieces of random sizes, in random order of the halves. */
static void emit(gw_contribution *contribution, const float *values, uint64_t seed) {
    gw_rng rng = gw_rng_seeded(seed);
    for (uint64_t at = 0; at < ELEMENTS;) {
        uint64_t n = gw_rng_below(&rng, 40000) + 1;
        if (n > ELEMENTS - at) n = ELEMENTS - at;
        gw_accumulator_add(contribution, G, at, n, values + at);
        at += n;
    }
    int64_t counts[3] = {1, contribution->entry.shard, -1};
    gw_accumulator_add_integers(contribution, C, 0, 3, counts);
}

static gw_contributed give(gw_accumulator *acc, uint32_t shard, uint64_t seed) {
    float *values = shard_values(shard);
    gw_contribution contribution;
    gw_err err;
    cr_assert(gw_accumulator_enter(acc, 3, shard, &contribution, &err), "%s", err.text);
    emit(&contribution, values, seed);
    free(values);
    return gw_accumulator_leave(&contribution, true, &err);
}

static gw_verdict judge(const bench *b, const int64_t *words) {
    gw_verdict verdict = gw_verdict_start();
    for (uint32_t k = 0; k < b->layout.bucket_count; k++) {
        const gw_layout_bucket *bucket = &b->layout.buckets[k];
        gw_exact_check(k, words + bucket->header,
                       gw_exact_fingerprint(0, bucket->count, words + bucket->data), SHARDS,
                       gw_exact_coverage_of_all(KEY, 3, SHARDS), &verdict);
    }
    return verdict;
}

static int64_t *sum_of_all(bench *b, bool backward) {
    for (uint32_t s = 0; s < SHARDS; s++) {
        uint32_t shard = backward ? SHARDS - 1 - s : s;
        cr_assert_eq(give(b->acc, shard, backward ? shard + 100 : 1), GW_SHARD_HELD);
    }
    return gw_accumulator_finish(b->acc);
}

typedef struct giver {
    gw_accumulator *acc;
    uint32_t first;
    uint64_t seed;
} giver;

static void *give_some(void *argument) {
    const giver *g = argument;
    for (uint32_t shard = g->first; shard < SHARDS; shard += 4)
        cr_assert_eq(give(g->acc, shard, g->seed + shard), GW_SHARD_HELD);
    return NULL;
}

Test(accumulator, any_order_and_interleaving_gives_the_same_sum) {
    bench b = open_bench();
    open_acc(&b);
    int64_t *words = sum_of_all(&b, false);
    gw_verdict verdict = judge(&b, words);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0);
    int64_t *expected = malloc(b.layout.words * sizeof *expected);
    memcpy(expected, words, b.layout.words * sizeof *expected);
    cr_assert_eq(words[b.layout.buckets[1].data], SHARDS);
    cr_assert_eq(words[b.layout.buckets[1].data + 2], -SHARDS);

    gw_ledger_zero(gw_accumulator_ledger(b.acc));
    cr_assert_arr_eq(sum_of_all(&b, true), expected, b.layout.words * sizeof *expected);

    for (uint64_t round = 0; round < 5; round++) {
        gw_ledger_begin(gw_accumulator_ledger(b.acc), 3, SHARDS);
        pthread_t threads[4];
        giver givers[4];
        for (uint32_t t = 0; t < 4; t++) {
            givers[t] = (giver){b.acc, t, round * 1000};
            pthread_create(&threads[t], NULL, give_some, &givers[t]);
        }
        for (uint32_t t = 0; t < 4; t++) pthread_join(threads[t], NULL);
        cr_assert_arr_eq(gw_accumulator_finish(b.acc), expected, b.layout.words * sizeof *expected);
    }
    free(expected);
    close_bench(&b);
}

Test(accumulator, pieces_of_shards_in_flight_are_dropped) {
    bench b = open_bench();
    open_acc(&b);
    float *values = shard_values(0);
    gw_contribution contribution;
    gw_err err;
    cr_assert(gw_accumulator_enter(b.acc, 3, 0, &contribution, &err));
    gw_accumulator_add(&contribution, G, 0, 1000, values);
    gw_ledger_zero(gw_accumulator_ledger(b.acc));
    gw_accumulator_add(&contribution, G, 1000, ELEMENTS - 1000, values);
    gw_held held;
    gw_ledger_held(gw_accumulator_ledger(b.acc), &held, NULL);
    cr_assert_eq(held.in_flight, 0);
    cr_assert_eq(held.running, 1);
    /* The same shard may be computed again while the dropped one still runs. */
    cr_assert_eq(give(b.acc, 0, 9), GW_SHARD_HELD);
    gw_accumulator_add(&contribution, G, 0, 1000, values);
    cr_assert_eq(gw_accumulator_leave(&contribution, true, &err), GW_SHARD_DROPPED);
    for (uint32_t s = 1; s < SHARDS; s++) give(b.acc, s, s);
    gw_verdict verdict = judge(&b, gw_accumulator_finish(b.acc));
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok);
    free(values);
    close_bench(&b);
}

typedef struct disturber {
    gw_accumulator *acc;
    pthread_barrier_t *start;
} disturber;

static void *zero_often(void *argument) {
    disturber *d = argument;
    pthread_barrier_wait(d->start);
    for (int i = 0; i < 50; i++) gw_ledger_zero(gw_accumulator_ledger(d->acc));
    return NULL;
}

static void *give_through(void *argument) {
    disturber *d = argument;
    pthread_barrier_wait(d->start);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t s = 0; s < SHARDS; s++) {
            float *values = shard_values(s);
            gw_contribution contribution;
            gw_err err;
            if (gw_accumulator_enter(d->acc, 3, s, &contribution, &err)) {
                emit(&contribution, values, s);
                gw_accumulator_leave(&contribution, true, &err);
            }
            free(values);
        }
    return NULL;
}

Test(accumulator, zeroing_amid_adding_leaves_nothing_behind) {
    bench b = open_bench();
    open_acc(&b);
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 3);
    disturber d = {b.acc, &start};
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, zero_often, &d);
    pthread_create(&threads[1], NULL, give_through, &d);
    pthread_create(&threads[2], NULL, give_through, &d);
    for (int t = 0; t < 3; t++) pthread_join(threads[t], NULL);
    uint64_t bits[1] = {0};
    gw_held held;
    gw_ledger_held(gw_accumulator_ledger(b.acc), &held, bits);
    for (uint32_t s = 0; s < SHARDS; s++)
        if ((bits[0] >> s & 1) == 0) cr_assert_eq(give(b.acc, s, s), GW_SHARD_HELD);
    gw_verdict verdict = judge(&b, gw_accumulator_finish(b.acc));
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0);
    pthread_barrier_destroy(&start);
    close_bench(&b);
}

Test(accumulator, held_bits_and_refusals) {
    bench b = open_bench();
    open_acc(&b);
    gw_contribution contribution, other;
    gw_err err;
    uint64_t bits[1];
    gw_held held;
    give(b.acc, 5, 1);
    cr_assert(gw_accumulator_enter(b.acc, 3, 7, &contribution, &err));
    gw_ledger_held(gw_accumulator_ledger(b.acc), &held, bits);
    cr_assert_eq(bits[0], 1u << 5);
    cr_assert(held.step == 3 && held.shards == SHARDS && held.held == 1 && held.in_flight == 1);
    cr_assert_not(gw_accumulator_enter(b.acc, 3, 5, &other, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert_not(gw_accumulator_enter(b.acc, 3, 7, &other, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert_not(gw_accumulator_enter(b.acc, 3, SHARDS, &other, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert_not(gw_accumulator_enter(b.acc, 4, 1, &other, &err));
    cr_assert_eq(err.code, GW_E_FENCED);
    cr_assert_eq(gw_accumulator_leave(&contribution, true, &err), GW_SHARD_HELD);
    gw_ledger_begin(gw_accumulator_ledger(b.acc), 4, SHARDS);
    gw_ledger_held(gw_accumulator_ledger(b.acc), &held, bits);
    cr_assert(held.held == 0 && bits[0] == 0);
    close_bench(&b);
}

Test(accumulator, a_shard_added_in_part_poisons) {
    bench b = open_bench();
    open_acc(&b);
    gw_contribution contribution;
    gw_err err = {0};
    gw_held held;
    float one = 1;
    /* fails before it emits, which does not poison the accumulator */
    cr_assert(gw_accumulator_enter(b.acc, 3, 0, &contribution, &err));
    cr_assert_eq(gw_accumulator_leave(&contribution, false, &err), GW_SHARD_FAILED);
    gw_ledger_held(gw_accumulator_ledger(b.acc), &held, NULL);
    cr_assert_not(held.poisoned);
    cr_assert(gw_accumulator_enter(b.acc, 3, 0, &contribution, &err));
    gw_accumulator_add(&contribution, G, 0, 1, &one);
    cr_assert_eq(gw_accumulator_leave(&contribution, false, &err), GW_SHARD_FAILED);
    gw_ledger_held(gw_accumulator_ledger(b.acc), &held, NULL);
    cr_assert(held.poisoned);
    cr_assert_eq(held.held, 0);
    gw_ledger_zero(gw_accumulator_ledger(b.acc));
    gw_ledger_held(gw_accumulator_ledger(b.acc), &held, NULL);
    cr_assert_not(held.poisoned);
    gw_verdict verdict = judge(&b, sum_of_all(&b, false));
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok);
    close_bench(&b);
}

Test(accumulator, pieces_outside_their_tensor_fail_the_shard) {
    static const struct {
        uint32_t tensor;
        uint64_t first, count;
    } wrong[] = {{G, ELEMENTS, 1}, {G, ELEMENTS - 1, 2}, {G, UINT64_MAX, 2}, {W, 0, 1}, {TENSORS, 0, 1}};
    bench b = open_bench();
    open_acc(&b);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        gw_contribution contribution;
        gw_err err = {0};
        float values[2] = {1, 2};
        cr_assert(gw_accumulator_enter(b.acc, 3, 0, &contribution, &err));
        gw_accumulator_add(&contribution, wrong[i].tensor, wrong[i].first, wrong[i].count, values);
        cr_assert_eq(gw_accumulator_leave(&contribution, true, &err), GW_SHARD_FAILED);
        cr_assert_eq(err.code, GW_E_INVALID);
        cr_assert_not_null(strstr(err.text, "step 3, shard 0: the job emitted elements"), "%s", err.text);
    }
    close_bench(&b);
}

Test(accumulator, bad_elements_are_counted_and_the_least_is_named) {
    bench b = open_bench();
    open_acc(&b);
    for (uint32_t s = SHARDS; s-- > 0;) {
        float *values = shard_values(s);
        gw_contribution contribution;
        gw_err err;
        if (s == 4 || s == 9) values[70000 + s] = NAN, values[140000] = INFINITY;
        cr_assert(gw_accumulator_enter(b.acc, 3, s, &contribution, &err));
        emit(&contribution, values, s);
        cr_assert_eq(gw_accumulator_leave(&contribution, true, &err), GW_SHARD_HELD);
        free(values);
    }
    gw_exact_bad bad;
    gw_ledger_bad(gw_accumulator_ledger(b.acc), &bad);
    cr_assert(bad.any);
    cr_assert_eq(bad.shard, 4);
    cr_assert_eq(bad.tensor, G);
    cr_assert_eq(bad.index, 70004);
    gw_verdict verdict = judge(&b, gw_accumulator_finish(b.acc));
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok);
    cr_assert_eq(verdict.bad, 4);
    gw_ledger_zero(gw_accumulator_ledger(b.acc));
    gw_ledger_bad(gw_accumulator_ledger(b.acc), &bad);
    cr_assert_not(bad.any);
    close_bench(&b);
}

Test(accumulator, boundary_words_are_replaced_and_fingerprinted) {
    bench b = open_bench();
    open_acc(&b);
    gw_ledger_set_boundary(gw_accumulator_ledger(b.acc), (const int64_t[]){9, 9});
    gw_ledger_set_boundary(gw_accumulator_ledger(b.acc), (const int64_t[]){-4, 11});
    int64_t *words = sum_of_all(&b, false);
    const gw_layout_bucket *bucket = &b.layout.buckets[b.layout.bucket_count - 1];
    cr_assert_eq(words[bucket->data], -4);
    cr_assert_eq(words[bucket->data + 1], 11);
    cr_assert(judge(&b, words).fingerprint_ok);
    words[bucket->data]++;
    cr_assert_not(judge(&b, words).fingerprint_ok);
    gw_ledger_zero(gw_accumulator_ledger(b.acc));
    words = sum_of_all(&b, false);
    cr_assert_eq(words[bucket->data], 0);
    close_bench(&b);
}
