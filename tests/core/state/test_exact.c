#include "core/godwit.h"
#include "core/rng.h"
#include "core/state/exact.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A long double holds the product and its rounding exactly: a second opinion that shares no code. */
static bool reference(uint32_t frac_bits, uint32_t shards, float x, int64_t *q) {
    *q = 0;
    if (!isfinite(x)) return false;
    long double y = rintl(ldexpl((long double)x, (int)frac_bits));
    if (fabsl(y) >= 0x1p62L || fabsl(y) * (shards < 2 ? 2 : shards) > 0x1p63L) return false;
    *q = (int64_t)y;
    return true;
}

Test(exact, rounds_like_long_double) {
    gw_rng rng = gw_rng_seeded(1);
    static const uint32_t fracs[] = {0, 1, 20, 40, 52};
    uint64_t bad = 0;
    for (int i = 0; i < 400000; i++) {
        /* Exponents around where rounding happens half of the time, any bit pattern the other half. */
        float x = float_of((uint32_t)gw_rng_next(&rng));
        uint32_t frac = fracs[i % 5];
        if (i % 2 == 0) x = ldexpf((float)gw_rng_unit(&rng) - 0.5F, (int)gw_rng_below(&rng, 40) - (int)frac);
        gw_exact_format format = gw_exact_format_of(frac, 1u << (i % 19));
        int64_t q, expected;
        bool good = gw_exact_round(&format, x, &q);
        bool may = reference(frac, 1u << (i % 19), x, &expected);
        cr_assert_eq(good, may, "x=%a frac=%u shards=%u", (double)x, frac, 1u << (i % 19));
        cr_assert_eq(q, expected, "x=%a frac=%u", (double)x, frac);
        bad += !good;
    }
    cr_assert_gt(bad, 1000);
}

Test(exact, rounds_ties_to_even) {
    gw_exact_format format = gw_exact_format_of(0, 100);
    static const struct {
        float x;
        int64_t q;
    } cases[] = {{0.5F, 0},
                 {1.5F, 2},
                 {2.5F, 2},
                 {-0.5F, 0},
                 {-1.5F, -2},
                 {-2.5F, -2},
                 {0.50000006F, 1},
                 {0.49999997F, 0},
                 {-0.0F, 0},
                 {FLT_TRUE_MIN, 0},
                 {8388607.5F, 8388608},
                 {8388606.5F, 8388606},
                 {16777216.0F, 16777216}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t q;
        cr_assert(gw_exact_round(&format, cases[i].x, &q));
        cr_assert_eq(q, cases[i].q, "%a", (double)cases[i].x);
    }
}

Test(exact, values_that_could_overflow_are_bad) {
    static const uint32_t shard_counts[] = {1, 2, 3, 120, 1 << 19, GW_MAX_SHARDS};
    for (size_t i = 0; i < sizeof shard_counts / sizeof shard_counts[0]; i++) {
        gw_exact_format format = gw_exact_format_of(40, shard_counts[i]);
        int64_t q;
        float largest = nextafterf(format.limit, 0);
        cr_assert(gw_exact_round(&format, largest, &q));
        cr_assert_lt(q, format.most);
        cr_assert(gw_exact_round(&format, -largest, &q));
        __int128 total = (__int128)(format.most - 1) * shard_counts[i];
        cr_assert(total <= INT64_MAX, "%u shards", shard_counts[i]);
        const float bad[] = {format.limit, -format.limit, NAN, INFINITY, -INFINITY, FLT_MAX};
        for (int k = 0; k < 6; k++) {
            q = 77;
            cr_assert_not(gw_exact_round(&format, bad[k], &q));
            cr_assert_eq(q, 0);
        }
    }
}

Test(exact, whole_numbers_are_shifted) {
    gw_exact_format format = gw_exact_format_of(20, 1000);
    int64_t q;
    cr_assert(gw_exact_round_integer(&format, -3, &q));
    cr_assert_eq(q, -3 * (1 << 20));
    cr_assert(gw_exact_round_integer(&format, (format.most - 1) >> 20, &q));
    cr_assert_not(gw_exact_round_integer(&format, format.most >> 20, &q));
    cr_assert_not(gw_exact_round_integer(&format, -(format.most >> 20), &q));
    cr_assert_not(gw_exact_round_integer(&format, INT64_MIN, &q));
    cr_assert_not(gw_exact_round_integer(&format, INT64_MAX, &q));
    cr_assert_eq(q, 0);
}

Test(exact, doubles_are_rounded_once) {
    gw_exact_format format = gw_exact_format_of(40, 4); /* |q| < 2^61 */
    int64_t q;
    cr_assert(gw_exact_round_double(&format, 3 + 0x1p-41, &q));
    cr_assert_eq(q, INT64_C(3) << 40); /* a tie, to the even one */
    cr_assert(gw_exact_round_double(&format, 3 + 0x3p-41, &q));
    cr_assert_eq(q, (INT64_C(3) << 40) + 2);
    cr_assert(gw_exact_round_double(&format, -1.0 / 3, &q));
    cr_assert_eq(q, -366503875925); /* 2^40 / 3 = 366503875925.33 */
    cr_assert_not(gw_exact_round_double(&format, (double)NAN, &q));
    cr_assert_not(gw_exact_round_double(&format, 0x1p21, &q));
    cr_assert_not(gw_exact_round_double(&format, (double)-INFINITY, &q));
    cr_assert_eq(q, 0);
    gw_exact_format coarse = gw_exact_format_of(0, 1 << 19); /* rounding reaches the limit, 2^44 */
    cr_assert_not(gw_exact_round_double(&coarse, 0x1p44 - 0.25, &q));
    cr_assert(gw_exact_round_double(&coarse, 0x1p44 - 1.5, &q));
    const double values[] = {0.5, (double)NAN, -2};
    int64_t sum[3] = {1, 1, 1};
    gw_exact_part part = {0, 0};
    gw_exact_add_doubles(&format, 7, 3, values, sum, &part);
    cr_assert_eq(sum[0], (INT64_C(1) << 39) + 1);
    cr_assert_eq(sum[1], 1);
    cr_assert_eq(part.bad, 1);
    for (int i = 0; i < 3; i++) sum[i]--;
    cr_assert_eq(part.fingerprint, gw_exact_fingerprint(7, 3, sum));
}

Test(exact, sum_has_one_value_whatever_the_order) {
    enum { N = 300, SHARDS = 12 };
    static float values[SHARDS][N];
    static int64_t forward[N], backward[N];
    gw_rng rng = gw_rng_seeded(2);
    for (int s = 0; s < SHARDS; s++)
        for (int i = 0; i < N; i++) values[s][i] = (float)((gw_rng_unit(&rng) - 0.5) * 1e3);
    gw_exact_format format = gw_exact_format_of(40, SHARDS);
    gw_exact_part one = {0, 0}, other = {0, 0};
    for (int s = 0; s < SHARDS; s++) gw_exact_add(&format, 0, N, values[s], forward, &one);
    for (int s = SHARDS; s-- > 0;) {
        gw_exact_add(&format, 100, N - 100, values[s] + 100, backward + 100, &other);
        gw_exact_add(&format, 0, 100, values[s], backward, &other);
    }
    cr_assert_arr_eq(forward, backward, sizeof forward);
    cr_assert_eq(one.fingerprint, other.fingerprint);
    cr_assert_eq(one.fingerprint, gw_exact_fingerprint(0, N, forward));
    cr_assert_eq(one.bad + other.bad, 0);
}

Test(exact, fingerprint_shows_any_single_change_and_swaps) {
    enum { N = 257 };
    int64_t data[N];
    gw_rng rng = gw_rng_seeded(3);
    for (int i = 0; i < N; i++) data[i] = (int64_t)gw_rng_next(&rng) >> 20;
    uint64_t right = gw_exact_fingerprint(5, N, data);
    for (int i = 0; i < N; i++)
        for (int bit = 0; bit < 64; bit++) {
            data[i] ^= (int64_t)(UINT64_C(1) << bit);
            cr_assert_neq(gw_exact_fingerprint(5, N, data), right);
            data[i] ^= (int64_t)(UINT64_C(1) << bit);
        }
    for (int i = 1; i < N; i++) {
        int64_t kept = data[i];
        data[i] = data[i - 1], data[i - 1] = kept;
        cr_assert_neq(gw_exact_fingerprint(5, N, data), right);
        data[i - 1] = data[i], data[i] = kept;
    }
    /* An error that cancels under linear keys: +1, -2, +1 on neighbours. */
    for (int i = 1; i + 1 < N; i++) {
        data[i - 1]++, data[i] -= 2, data[i + 1]++;
        cr_expect_neq(gw_exact_fingerprint(5, N, data), right, "at %d", i);
        data[i - 1]--, data[i] += 2, data[i + 1]--;
    }
}

Test(exact, keys_are_pinned) {
    /* Every peer must have the same keys: these values are part of the format. */
    cr_assert_eq(gw_exact_key(0), 1u);
    cr_assert_eq(gw_exact_key(1), 0x9E3645D7u | 1u);
    for (uint64_t i = 0; i < 1000; i++) cr_assert(gw_exact_key(i) & 1);
    cr_assert_eq(gw_exact_coverage(1, 2, 3), gw_mix64(gw_mix64(gw_mix64(1) ^ 2) ^ 3));
}

Test(exact, state_fingerprint_adds_up_over_partitions) {
    uint8_t bytes[1003];
    gw_rng rng = gw_rng_seeded(4);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)gw_rng_next(&rng);
    uint64_t whole = gw_exact_state_fingerprint(17, sizeof bytes, bytes);
    for (size_t cut = 0; cut < sizeof bytes; cut += 8) {
        uint64_t parts = gw_exact_state_fingerprint(17, cut, bytes) +
                         gw_exact_state_fingerprint(17 + cut / 8, sizeof bytes - cut, bytes + cut);
        cr_assert_eq(parts, whole, "cut at %zu", cut);
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 0x40;
        cr_assert_neq(gw_exact_state_fingerprint(17, sizeof bytes, bytes), whole);
        bytes[i] ^= 0x40;
    }
}

/* They show even where they would cancel: the topmost bits of two words, and the signs of several floats in
 * them. */
Test(exact, two_bits_of_a_state_that_are_other_ones_show) {
    uint64_t words[64];
    gw_rng rng = gw_rng_seeded(5);
    for (size_t i = 0; i < 64; i++) words[i] = gw_rng_next(&rng);
    const uint64_t whole = gw_exact_state_fingerprint(0, sizeof words, words);
    static const uint64_t flips[] = {UINT64_C(1) << 63,
                                     UINT64_C(1) << 62,
                                     UINT64_C(1) << 31,
                                     UINT64_C(0x8000000080000000),
                                     UINT64_C(0x8000800080008000),
                                     UINT64_C(0xc000000000000000)};
    for (size_t f = 0; f < sizeof flips / sizeof *flips; f++)
        for (size_t i = 0; i < 64; i++)
            for (size_t k = i + 1; k < 64; k++) {
                words[i] ^= flips[f], words[k] ^= flips[f];
                cr_assert_neq(gw_exact_state_fingerprint(0, sizeof words, words), whole, "%zx: %zu and %zu",
                              (size_t)flips[f], i, k);
                words[i] ^= flips[f], words[k] ^= flips[f];
            }
    for (size_t i = 0; i < 64; i++) words[i] ^= flips[3];
    cr_assert_neq(gw_exact_state_fingerprint(0, sizeof words, words), whole, "all floats negated");
}

static gw_verdict check(const int64_t *header, const int64_t *data, uint64_t count) {
    gw_verdict verdict = gw_verdict_start();
    gw_exact_check(9, header, gw_exact_fingerprint(0, count, data), 3, gw_exact_coverage_of_all(7, 1, 3),
                   &verdict);
    return verdict;
}

Test(exact, check_catches_what_it_is_for) {
    int64_t data[16] = {1, -2, 3};
    uint64_t coverage = gw_exact_coverage(7, 1, 0) + gw_exact_coverage(7, 1, 1) + gw_exact_coverage(7, 1, 2);
    int64_t right[GW_EXACT_HEADER] = {3, (int64_t)coverage, (int64_t)gw_exact_fingerprint(0, 16, data), 0};
    gw_verdict verdict = check(right, data, 16);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0);

    int64_t header[GW_EXACT_HEADER];
    memcpy(header, right, sizeof header);
    header[GW_EXACT_COUNT] = 2; /* a shard lost */
    verdict = check(header, data, 16);
    cr_assert(!verdict.coverage_ok && verdict.fingerprint_ok && verdict.bucket == 9);

    memcpy(header, right, sizeof header); /* shard 2 lost, shard 1 twice: the count is right */
    header[GW_EXACT_COVERAGE] = (int64_t)(coverage + gw_exact_coverage(7, 1, 1) - gw_exact_coverage(7, 1, 2));
    cr_assert_not(check(header, data, 16).coverage_ok);

    data[3] = 1; /* a value doubled or flipped */
    verdict = check(right, data, 16);
    cr_assert(verdict.coverage_ok && !verdict.fingerprint_ok);
    data[3] = 0;

    memcpy(header, right, sizeof header);
    header[7] = 1; /* nobody writes there */
    cr_assert_not(check(header, data, 16).fingerprint_ok);

    memcpy(header, right, sizeof header);
    header[GW_EXACT_BAD] = 5;
    verdict = check(header, data, 16);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok);
    cr_assert_eq(verdict.bad, 5);
}

Test(exact, check_names_the_first_wrong_bucket_and_what_all_of_them_lack) {
    enum { BUCKETS = 4 };
    int64_t data[8] = {4, 5}, header[BUCKETS][GW_EXACT_HEADER];
    uint64_t found = gw_exact_fingerprint(0, 8, data), coverage = gw_exact_coverage_of_all(7, 1, 3);
    for (int b = 0; b < BUCKETS; b++) {
        memset(header[b], 0, sizeof header[b]);
        header[b][GW_EXACT_COUNT] = 3;
        header[b][GW_EXACT_COVERAGE] = (int64_t)coverage;
        header[b][GW_EXACT_FINGERPRINT] = (int64_t)found;
        header[b][GW_EXACT_BAD] = 1;
    }
    header[1][GW_EXACT_BAD] = -1; /* no count, and no bucket to count from */
    header[2][GW_EXACT_COUNT] = 2;
    gw_verdict verdict = gw_verdict_start();
    for (uint32_t b = 0; b < BUCKETS; b++) {
        gw_exact_check(b, header[b], found, 3, coverage, &verdict);
        cr_assert_eq(verdict.fingerprint_ok, b < 1, "bucket %u", b);
        cr_assert_eq(verdict.coverage_ok, b < 2, "bucket %u", b);
    }
    cr_assert_eq(verdict.bucket, 1);
    cr_assert_eq(verdict.bad, BUCKETS - 1);
}

Test(exact, adding_rounds_each_and_counts_the_bad) {
    gw_exact_format format = gw_exact_format_of(20, 4);
    const float values[] = {1.5F, -0.25F, INFINITY, 0x1p-21F, NAN};
    int64_t sum[5] = {10, 10, 10, 10, 10}, alone[5] = {0};
    gw_exact_part part = {0};
    gw_exact_add(&format, 3, 5, values, sum, &part);
    const int64_t expected[] = {10 + 3 * (1 << 19), 10 - (1 << 18), 10, 10, 10}; /* a half goes to even: 0 */
    cr_assert_arr_eq(sum, expected, sizeof expected);
    cr_assert_eq(part.bad, 2);
    const int64_t integers[] = {3, -4, INT64_MAX, 0};
    int64_t whole[4] = {1, 1, 1, 1};
    gw_exact_part of_whole = {0};
    gw_exact_add_integers(&format, 0, 4, integers, whole, &of_whole);
    const int64_t shifted[] = {1 + (3 << 20), 1 - (4 << 20), 1, 1};
    cr_assert_arr_eq(whole, shifted, sizeof shifted);
    cr_assert_eq(of_whole.bad, 1);
    for (int i = 0; i < 5; i++) alone[i] = sum[i] - 10;
    cr_assert_eq(part.fingerprint, gw_exact_fingerprint(3, 5, alone));
}

Test(exact, coverage_depends_on_job_step_and_shard) {
    uint64_t one = gw_exact_coverage_of_all(1, 1, 120);
    cr_assert_neq(one, gw_exact_coverage_of_all(2, 1, 120));
    cr_assert_neq(one, gw_exact_coverage_of_all(1, 2, 120));
    cr_assert_neq(one, gw_exact_coverage_of_all(1, 1, 119));
}

Test(exact, bad_elements_are_ordered) {
    const gw_exact_bad rising[] = {{0, 0, 0, true}, {0, 0, 9, true}, {0, 1, 2, true},
                                   {3, 0, 0, true}, {3, 2, 1, true}, {0, 0, 0, false}};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            int order = gw_exact_bad_compare(&rising[i], &rising[k]);
            cr_assert_eq((order > 0) - (order < 0), (i > k) - (i < k));
        }
}

Test(exact, floats_and_back) {
    int64_t sum[4] = {INT64_C(3) << 40, -(INT64_C(1) << 39), 0, INT64_MAX};
    float values[4];
    gw_exact_to_float(40, 4, sum, values);
    cr_assert_eq(values[0], 3.0F);
    cr_assert_eq(values[1], -0.5F);
    cr_assert_eq(values[2], 0.0F);
    cr_assert_eq(values[3], 0x1p23F);
    int64_t back[3] = {0};
    gw_exact_part part = {0, 0};
    gw_exact_format format = gw_exact_format_of(40, 1);
    gw_exact_add(&format, 0, 3, values, back, &part);
    cr_assert_arr_eq(back, sum, sizeof back);
}

/* What --reduce fast may make of a count, and no more. */
Test(exact, counts_are_known_again_after_floats) {
    const gw_tensor tensor = {.name = "count", .role = GW_SUMMED, .rank = 1, .dim = {1}};
    int64_t count;
    const int64_t *data[] = {&count};
    const gw_sums sums = {.data = data, .tensors = &tensor};
    for (uint64_t expected = 1; expected < UINT64_C(1) << 40; expected = expected * 2 + 1) {
        float value = (float)expected;
        count = (int64_t)value;
        cr_assert(gw_sum_counted(&sums, 0, expected), "%llu", (unsigned long long)expected);
        count += (int64_t)(expected < 1 << 24 ? 1 : expected >> 14);
        cr_assert_not(gw_sum_counted(&sums, 0, expected), "%llu", (unsigned long long)expected);
    }
}
