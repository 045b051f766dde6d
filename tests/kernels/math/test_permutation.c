#include "kernels/math/permutation.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static bool is_bijection(uint64_t seed, uint64_t epoch, uint64_t count) {
    gw_permutation permutation = gw_permutation_of(seed, epoch, count);
    bool *seen = calloc(count, sizeof *seen), all = true;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t to = gw_permutation_at(&permutation, i);
        all &= to < count && !seen[to];
        if (to < count) seen[to] = true;
    }
    free(seen);
    return all;
}

Test(permutation, is_a_bijection_of_every_size) {
    for (uint64_t count = 1; count <= 300; count++) cr_assert(is_bijection(7, 3, count), "%d", (int)count);
    cr_assert(is_bijection(1, 0, 60000));
    cr_assert(is_bijection(1, 1, 65536));
    cr_assert(is_bijection(1, 1, 65537));
}

Test(permutation, differs_by_epoch_and_seed) {
    enum { COUNT = 10000 };
    gw_permutation one = gw_permutation_of(1, 0, COUNT), epoch = gw_permutation_of(1, 1, COUNT),
                   seed = gw_permutation_of(2, 0, COUNT);
    int same_epoch = 0, same_seed = 0, fixed = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t to = gw_permutation_at(&one, i);
        same_epoch += to == gw_permutation_at(&epoch, i);
        same_seed += to == gw_permutation_at(&seed, i);
        fixed += to == i;
    }
    /* two random orders agree in about one element */
    cr_assert_lt(same_epoch, 10);
    cr_assert_lt(same_seed, 10);
    cr_assert_lt(fixed, 10);
}

/* The images of neighbouring positions are spread over the whole set: their mean lies near the middle. */
Test(permutation, spreads_neighbours) {
    enum { COUNT = 60000, BATCH = 480 };
    gw_permutation permutation = gw_permutation_of(1, 0, COUNT);
    for (uint64_t batch = 0; batch < COUNT / BATCH; batch++) {
        double mean = 0.0;
        for (uint64_t i = 0; i < BATCH; i++)
            mean += (double)gw_permutation_at(&permutation, batch * BATCH + i) / COUNT / BATCH;
        cr_assert_float_eq(mean, 0.5, 0.08, "batch %d: %g", (int)batch, mean); /* 6 standard deviations */
    }
}

Test(permutation, values_are_pinned) {
    gw_permutation permutation = gw_permutation_of(1, 2, 1000);
    const uint64_t expected[] = {337, 128, 473, 775};
    for (uint64_t i = 0; i < 4; i++) cr_assert_eq(gw_permutation_at(&permutation, i), expected[i]);
    gw_permutation huge = gw_permutation_of(1, 2, UINT64_C(1) << 62);
    cr_assert_lt(gw_permutation_at(&huge, 5), UINT64_C(1) << 62);
}
