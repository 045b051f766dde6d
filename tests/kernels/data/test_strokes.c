#include "kernels/data/strokes.h"

#include "core/base/id.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = GW_STROKES_SIDE * GW_STROKES_SIDE, DIGITS = 2000 };

Test(strokes, bytes_are_pinned) {
    uint8_t *all = malloc(DIGITS * (PIXELS + 1));
    for (uint64_t i = 0; i < DIGITS; i++)
        all[i * (PIXELS + 1) + PIXELS] = gw_strokes_draw(1, i, all + i * (PIXELS + 1));
    gw_hash hash;
    char text[GW_HASH_TEXT];
    gw_blake2b(all, DIGITS * (PIXELS + 1), &hash, sizeof hash);
    gw_hex(&hash, sizeof hash, text);
    cr_assert_str_eq(text, "535f350b0d61f08c8e03b729340ae404732b75db858fad40b8b29d6c8ba3b787");
    free(all);
}

Test(strokes, digits_are_a_function_of_seed_and_index) {
    uint8_t a[PIXELS], b[PIXELS], other[PIXELS];
    gw_strokes_draw(1, 17, other);
    uint8_t label = gw_strokes_draw(1, 5, a);
    cr_assert_eq(gw_strokes_draw(1, 5, b), label);
    cr_assert_arr_eq(a, b, PIXELS);
    cr_assert(memcmp(a, other, PIXELS) != 0);
    gw_strokes_draw(2, 5, other);
    cr_assert(memcmp(a, other, PIXELS) != 0);
}

Test(strokes, classes_are_even_and_ink_is_moderate) {
    int count[10] = {0}, corners = 0;
    double ink[10] = {0};
    for (uint64_t i = 0; i < DIGITS; i++) {
        uint8_t pixels[PIXELS], label = gw_strokes_draw(9, i, pixels);
        cr_assert_lt(label, 10);
        count[label]++;
        double dark = 0.0;
        for (int k = 0; k < PIXELS; k++) dark += pixels[k] > 100;
        ink[label] += dark / PIXELS;
        corners += pixels[0] > 100;
    }
    for (int k = 0; k < 10; k++) {
        cr_assert(count[k] > 140 && count[k] < 260, "digit %d: %d of %d", k, count[k],
                  DIGITS); /* 200 +- 13 */
        double mean = ink[k] / count[k];
        cr_assert(mean > 0.03 && mean < 0.3, "digit %d covers %g", k, mean);
    }
    cr_assert_lt(corners, DIGITS / 20); /* digits lie inside the image */
    cr_assert_lt(ink[1] / count[1], ink[8] / count[8]);
}
