#include "kernels/math/schedule.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static gw_schedule make(const char *name) {
    gw_schedule s = {.most = 2.0, .least = 0.5, .updates = 1000, .warmup = 100, .decay = 200};
    cr_assert(gw_schedule_named(name, &s.kind));
    return s;
}

static void expect(const gw_schedule *s, uint64_t update, double rate) {
    cr_assert_float_eq(gw_schedule_rate(s, update), rate, 1e-12, "update %d: %g, not %g", (int)update,
                       gw_schedule_rate(s, update), rate);
}

Test(schedule, all_warm_up_alike) {
    const char *const names[] = {"cosine", "linear", "wsd", "constant"};
    for (int i = 0; i < 4; i++) {
        gw_schedule s = make(names[i]);
        expect(&s, 0, 0.02);
        expect(&s, 49, 1.0);
        expect(&s, 99, 2.0);
        expect(&s, 100, 2.0);
    }
}

Test(schedule, each_comes_down_its_own_way) {
    gw_schedule cosine = make("cosine"), linear = make("linear"), wsd = make("wsd"),
                constant = make("constant");
    for (uint64_t u = 100; u < 1000; u += 7) {
        double part = (double)(u - 100) / 900.0;
        expect(&cosine, u, 0.5 + 1.5 * 0.5 * (1.0 + cos(M_PI * part)));
        expect(&linear, u, 2.0 - 1.5 * part);
        expect(&wsd, u, u < 800 ? 2.0 : 2.0 - 1.5 * (double)(u - 800) / 200.0);
        expect(&constant, u, 2.0);
    }
    expect(&cosine, 999, 0.5 + 1.5 * 0.5 * (1.0 + cos(M_PI * 899.0 / 900.0))); /* the last update */
    expect(&linear, 999, 0.5 + 1.5 / 900.0);
    expect(&wsd, 999, 0.5 + 1.5 / 200.0);
    expect(&cosine, 1000, 0.5); /* beyond the end */
    expect(&linear, 5000, 0.5);
    expect(&wsd, 1000, 0.5);
}

static void describes(const char *name, uint64_t update, const char *text) {
    gw_schedule s = make(name);
    char described[100], cut[12];
    gw_schedule_describe(&s, update, described, sizeof described);
    cr_expect_str_eq(described, text);
    gw_schedule_describe(&s, update, cut, sizeof cut);
    cr_expect_eq(strncmp(cut, text, sizeof cut - 1), 0, "%s", cut);
}

Test(schedule, is_described_for_people) {
    describes("wsd", 49, "learning rate 1, rising until update 100");
    describes("wsd", 500, "learning rate 2, falling from update 800 on");
    describes("wsd", 900, "learning rate 1.25, falling since update 800");
    describes("linear", 550, "learning rate 1.25, falling since update 100");
    describes("constant", 550, "learning rate 2, constant");
}

Test(schedule, extremes) {
    gw_schedule s = {.kind = GW_SCHEDULE_COSINE, .most = 1.0, .least = 0.0, .updates = 1};
    expect(&s, 0, 1.0);
    s.warmup = 10; /* longer than the training */
    expect(&s, 0, 0.1);
    s = (gw_schedule){.kind = GW_SCHEDULE_WSD, .most = 1.0, .least = 0.0, .updates = 10, .decay = 20};
    expect(&s, 5, 0.5);
    cr_assert_not(gw_schedule_named("cosin", &s.kind));
}
