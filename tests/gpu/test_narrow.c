/* Whole numbers as int32 and back, and how wide they are. */
#include "kernels/cuda/device/narrow.h"
#include "tests/gpu/rig.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* Sizes around a block, the tile of a measurement and what is widened at once, and far beyond. */
static const uint64_t sizes[] = {1, 2, 3, 255, 256, 257, 511, 512, 513, 1025, 4095, 4096, 4097, 100003};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static uint32_t width_on_gpu(const int64_t *values, uint64_t count, uint32_t before) {
    uint32_t *width = gpu_copy_of(&before, sizeof before, 0);
    const int64_t *at = gpu_copy_of(values, count * sizeof *values, sizeof *values);
    GPU(gw_cuda_measure_width(at, count, width, NULL));
    gpu_fetch(&before, width, sizeof before);
    return before;
}

Test(gpu_narrow, the_width_is_that_of_the_widest_element_wherever_it_is) {
    gpu_need();
    for (uint32_t width = 1; width <= 64; width++) {
        int64_t most = width == 64 ? INT64_MAX : ((int64_t)1 << (width - 1)) - 1, least = -most - 1;
        uint64_t count = sizes[width % SIZES];
        int64_t *values = calloc(count, sizeof *values);
        values[width * 7919 % count] = width % 2 == 0 ? most : least;
        gpu_shuffle(width);
        cr_expect_eq(width_on_gpu(values, count, 0), width, "%u bits", width);
        values[0] = values[count - 1] = width % 2 == 0 ? least : most;
        cr_expect_eq(width_on_gpu(values, count, 0), width, "%u bits", width);
        free(values);
    }
}

Test(gpu_narrow, a_width_is_raised_and_never_lowered) {
    gpu_need();
    int64_t value = 1000;
    cr_expect_eq(width_on_gpu(&value, 1, 10), 11);
    cr_expect_eq(width_on_gpu(&value, 1, 12), 12);
    cr_expect_eq(width_on_gpu(&value, 0, 0), 0);
}

Test(gpu_narrow, what_was_narrowed_is_widened_in_its_place) {
    gpu_need();
    for (uint32_t s = 0; s < SIZES; s++) {
        uint64_t count = sizes[s];
        int64_t *values = malloc(count * sizeof *values);
        gw_rng rng = gw_rng_seeded(s);
        for (uint64_t i = 0; i < count; i++) values[i] = (int32_t)gw_rng_next(&rng);
        values[0] = INT32_MIN;
        values[count - 1] = INT32_MAX;
        int64_t *room = gpu_take(count * sizeof *room, s % 2 * sizeof *room);
        gpu_shuffle(s);
        GPU(gw_cuda_narrow(gpu_copy_of(values, count * sizeof *values, 0), count, room, NULL));
        int32_t *narrow = malloc(count * sizeof *narrow);
        for (uint64_t i = 0; i < count; i++) narrow[i] = (int32_t)values[i];
        gpu_expect_bits((const int32_t *)(const void *)room + count, narrow, count * sizeof *narrow,
                        "narrowed", count);
        GPU(gw_cuda_widen(room, count, NULL));
        gpu_expect_bits(room, values, count * sizeof *values, "widened", count);
        free(narrow);
        free(values);
    }
}
