#include "kernels/math/dropout.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { COUNT = 5000 };

Test(dropout, drops_by_the_words_of_the_generator) {
    gw_dropout dropout = {.rate = 0.25f, .key = 0x123456789abcdefu, .stream = 0xfedcba987u};
    float values[COUNT];
    const uint64_t first = UINT64_C(0x3ffffffff) - 1000; /* counters cross a 32-bit boundary */
    for (int i = 0; i < COUNT; i++) values[i] = 3.0f;
    gw_dropout_apply(&dropout, first, COUNT, values);
    int dropped = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t at = first + i;
        bool drop = gw_philox_at(dropout.key, dropout.stream, at / 4).words[at % 4] < 0x40000000u;
        cr_assert_eq(values[i], drop ? 0.0f : 3.0f * (1.0f / 0.75f), "element %d", (int)i);
        dropped += drop;
    }
    cr_assert(dropped > COUNT / 4 - 150 && dropped < COUNT / 4 + 150, "%d", dropped);
}

Test(dropout, pieces_are_masked_as_the_whole) {
    gw_dropout dropout = {.rate = 0.4f, .key = 5, .stream = 6};
    float whole[COUNT], pieces[COUNT];
    for (int i = 0; i < COUNT; i++) whole[i] = pieces[i] = (float)i;
    gw_dropout_apply(&dropout, 3, COUNT, whole);
    for (size_t i = 0, n; i < COUNT; i += n) {
        n = COUNT - i < 1 + i % 71 ? COUNT - i : 1 + i % 71;
        gw_dropout_apply(&dropout, 3 + i, n, pieces + i);
    }
    cr_assert_arr_eq(whole, pieces, sizeof whole);
}

Test(dropout, rate_0_changes_nothing) {
    gw_dropout dropout = {.rate = 0.0f};
    float values[] = {1.0f, 2.0f, 3.0f};
    gw_dropout_apply(&dropout, 0, 3, values);
    cr_assert(values[0] == 1.0f && values[1] == 2.0f && values[2] == 3.0f);
}
