#include "core/rng.h"
#include "kernels/exact/exact.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3000 };

/* A value of a kind that is an edge case for some path. */
static float awkward(gw_rng *rng, const gw_exact_format *format) {
    static const float special[] = {0.0F,     -0.0F, 0.5F,   -0.5F,   1.5F,       0x1p-149F, -0x1p-127F,
                                    INFINITY, NAN,   -NAN,   0x1p11F, 0x1p10F,    -0x1p11F,  0x1.fffffep10F,
                                    0x1p51F,  1e30F, -1e30F, 0x1p22F, 0x1.8p-41F, 0x1p-41F};
    uint64_t kind = gw_rng_below(rng, 8);
    float sign = gw_rng_below(rng, 2) != 0 ? 1.0F : -1.0F;
    if (kind == 0) return special[gw_rng_below(rng, sizeof special / sizeof special[0])];
    if (kind == 1) return sign * nextafterf(format->limit, 0);
    if (kind == 2) return sign * (float)((double)gw_rng_below(rng, 100000) / 2 / format->scale); /* ties */
    if (kind == 3) return sign * ldexpf((float)gw_rng_unit(rng), (int)gw_rng_below(rng, 60) - 30);
    return sign * (float)gw_rng_unit(rng);
}

/* Checks a random case: every path gives the sums, fingerprint and bad count of the reference. */
static void compare_paths(gw_rng *rng, bool tame) {
    static float values[MOST + 8];
    static int64_t start[MOST + 8], expected[MOST + 8], sum[MOST + 8];
    static const uint32_t fracs[] = {0, 20, 40, 52};
    uint64_t count = gw_rng_below(rng, gw_rng_below(rng, 4) == 0 ? MOST : 70);
    uint64_t shift = gw_rng_below(rng, 8), first = gw_rng_next(rng) >> gw_rng_below(rng, 64);
    gw_exact_format format =
        gw_exact_format_of(fracs[gw_rng_below(rng, 4)], (uint32_t)gw_rng_below(rng, 1 << 20) + 1);
    if (format.limit < 2) tame = false;
    for (uint64_t i = 0; i < count; i++) {
        values[shift + i] = tame ? (float)gw_rng_unit(rng) - 0.5F : awkward(rng, &format);
        start[i] = (int64_t)gw_rng_next(rng);
    }
    memcpy(expected + shift, start, count * sizeof start[0]);
    gw_exact_part right = {0, 0};
    gw_exact_add(&format, first, count, values + shift, expected + shift, &right);
    uint64_t print = gw_exact_fingerprint(first, count, expected + shift);
    uint32_t paths;
    const gw_exact_path *const *path = gw_exact_paths(&paths);
    for (uint32_t p = 0; p < paths; p++) {
        memcpy(sum + shift, start, count * sizeof start[0]);
        gw_exact_part part = {0, 0};
        path[p]->add(&format, first, count, values + shift, sum + shift, &part);
        cr_assert(memcmp(sum + shift, expected + shift, count * sizeof sum[0]) == 0, "%s", path[p]->name);
        cr_assert_eq(part.fingerprint, right.fingerprint, "%s: %lu elements", path[p]->name, count);
        cr_assert_eq(part.bad, right.bad, "%s", path[p]->name);
        cr_assert_eq(path[p]->fingerprint(first, count, sum + shift), print, "%s", path[p]->name);
    }
}

Test(exact_add, all_paths_give_the_same_bits) {
    gw_rng rng = gw_rng_seeded(10);
    for (int i = 0; i < 4000; i++) compare_paths(&rng, i % 2 == 0);
}

Test(exact_add, paths_touch_nothing_outside) {
    uint32_t paths;
    const gw_exact_path *const *path = gw_exact_paths(&paths);
    gw_exact_format format = gw_exact_format_of(40, 100);
    for (uint32_t p = 0; p < paths; p++)
        for (uint64_t count = 0; count < 50; count++) {
            /* of exact size, so that the address sanitizer detects accesses behind it */
            float *values = malloc((count + 1) * sizeof *values);
            int64_t *sum = malloc((count + 1) * sizeof *sum);
            for (uint64_t i = 0; i < count; i++) values[i] = 1, sum[i] = 0;
            sum[count] = 42;
            gw_exact_part part = {0, 0};
            path[p]->add(&format, 3, count, values, sum, &part);
            cr_assert_eq(sum[count], 42);
            cr_assert_eq(part.fingerprint, path[p]->fingerprint(3, count, sum));
            free(values);
            free(sum);
        }
}

Test(exact_add, state_hash_equals_the_definition) {
    _Alignas(8) uint8_t bytes[777];
    gw_rng rng = gw_rng_seeded(11);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)gw_rng_next(&rng);
    uint32_t paths;
    const gw_exact_path *const *path = gw_exact_paths(&paths);
    for (uint32_t p = 0; p < paths; p++)
        for (size_t length = 0; length <= sizeof bytes; length += 1 + length / 9)
            cr_assert_eq(gw_exact_hash_state(path[p], 99, length, bytes),
                         gw_exact_state_fingerprint(99, length, bytes), "%s, %zu bytes", path[p]->name,
                         length);
}

/* The tensors of a state image follow each other without padding, so that they may be unaligned. */
Test(exact_add, state_hash_is_of_bytes_at_any_address) {
    enum { LONGEST = 40000 };
    static _Alignas(8) uint8_t bytes[LONGEST + 8];
    gw_rng rng = gw_rng_seeded(12);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)gw_rng_next(&rng);
    uint32_t paths;
    const gw_exact_path *const *path = gw_exact_paths(&paths);
    for (uint32_t p = 0; p < paths; p++)
        for (size_t from = 0; from < 8; from++)
            for (size_t length = 0; length <= LONGEST; length += 1 + length / 9)
                cr_assert_eq(gw_exact_hash_state(path[p], 99, length, bytes + from),
                             gw_exact_state_fingerprint(99, length, bytes + from), "%s, %zu bytes from %zu",
                             path[p]->name, length, from);
}
