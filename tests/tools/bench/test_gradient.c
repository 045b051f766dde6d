/* What benchmarks add: elements as training has them. */
#include "core/vector/pack.h"
#include "tools/bench/gradient.h"
#include "tools/bench/slow_wire.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 400000 };
static int64_t elements[COUNT], again[COUNT];

static double packed_bytes(void) {
    uint8_t *packed = malloc(gw_pack_most(COUNT));
    cr_assert_not_null(packed);
    uint64_t bytes = gw_pack(gw_vector_path_best(), elements, COUNT, packed, NULL);
    free(packed);
    return (double)bytes / COUNT;
}

Test(gradient, drawn_ones_take_the_bytes_of_those_that_were_recorded) {
    for (size_t m = 0; m < GW_GRADIENT_MODELS; m++) {
        const gw_gradient *model = &gw_gradients[m];
        gw_gradient_draw(model, elements, COUNT, 1);
        double share = packed_bytes() / model->bytes;
        cr_expect(share > 0.975 && share < 1.025, "%s: %.3f", model->name, share);
        int64_t signs = 0;
        for (int i = 0; i < COUNT; i++) signs += (elements[i] > 0) - (elements[i] < 0);
        cr_expect(signs > -COUNT / 100 && signs < COUNT / 100, "%s", model->name);
    }
    gw_gradient_draw_full(elements, COUNT, 1);
    cr_assert_gt(packed_bytes(), 8);
}

static void draw(const gw_gradient *model, int64_t *out, uint64_t seed) {
    if (model != NULL)
        gw_gradient_draw(model, out, COUNT, seed);
    else
        gw_gradient_draw_full(out, COUNT, seed);
}

Test(gradient, a_seed_gives_the_same_ones) {
    for (size_t m = 0; m <= GW_GRADIENT_MODELS; m++) {
        const gw_gradient *model = m < GW_GRADIENT_MODELS ? &gw_gradients[m] : NULL;
        draw(model, elements, 7);
        draw(model, again, 7);
        cr_assert_eq(memcmp(elements, again, sizeof again), 0);
        draw(model, again, 8);
        cr_assert_neq(memcmp(elements, again, sizeof again), 0);
    }
}

Test(slow_wire, rates_are_bits_a_second) {
    const struct {
        const char *text;
        uint64_t rate;
    } good[] = {{"1g", 1000000000}, {"100m", 100000000}, {"1m", 1000000}, {"1000g", 1000000000000}};
    const char *const bad[] = {"",    "g",     "1",        "1k",        "1G",  "0m",
                               "-1g", "1001g", "1000001m", "99999999g", "1gg", "1 g"};
    uint64_t rate = 5;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect(!gw_slow_wire_rate(bad[i], &rate), "'%s'", bad[i]);
    cr_expect_eq(rate, 5);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_expect(gw_slow_wire_rate(good[i].text, &rate), "%s", good[i].text);
        cr_expect_eq(rate, good[i].rate, "%s", good[i].text);
    }
}
