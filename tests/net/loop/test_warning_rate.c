/* How often the same warning is written. */
#include "net/loop/warning_rate.h"

#include <criterion/criterion.h>

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)
#define HOUR   (3600 * SECOND)

/* The number of warnings about something that happens every `every_ns` for `lasts_ns`; *told becomes the
 * number of occurrences that they report. */
static unsigned lines(gw_rate_limit *limit, uint64_t from_ns, uint64_t lasts_ns, uint64_t every_ns,
                      uint64_t *told) {
    unsigned spoken = 0;
    uint64_t times;
    *told = 0;
    for (uint64_t at = 0; at <= lasts_ns; at += every_ns)
        if (gw_rate_limit_admits(limit, from_ns + at, &times)) {
            spoken++;
            *told += times;
        }
    return spoken;
}

Test(warning_rate, what_lasts_for_a_day_is_said_some_thirty_times) {
    const uint64_t every[] = {50 * MS, 4 * SECOND, 11 * SECOND, 300 * SECOND};
    for (unsigned i = 0; i < sizeof every / sizeof *every; i++) {
        gw_rate_limit limit = {0};
        uint64_t told;
        unsigned spoken = lines(&limit, 5 * SECOND, 24 * HOUR, every[i], &told);
        cr_expect_leq(spoken, 35, "%u lines of what comes every %lu ms", spoken, every[i] / MS);
        cr_expect_geq(spoken, 24, "%u lines of what comes every %lu ms", spoken, every[i] / MS);
        cr_expect_geq(told, 23 * HOUR / every[i], "each time counts");
    }
}

Test(warning_rate, the_first_lines_come_soon_and_count_what_was_left_out) {
    gw_rate_limit limit = {0};
    uint64_t times = 0;
    cr_expect(gw_rate_limit_admits(&limit, SECOND, &times));
    cr_expect_eq(times, 1);
    for (uint64_t i = 2; i <= 5; i++) cr_expect_not(gw_rate_limit_admits(&limit, i * SECOND, &times));
    cr_expect(gw_rate_limit_admits(&limit, 6 * SECOND, &times));
    cr_expect_eq(times, 5);
    cr_expect_not(gw_rate_limit_admits(&limit, 15 * SECOND, &times), "the pause has doubled");
    cr_expect(gw_rate_limit_admits(&limit, 16 * SECOND, &times));
    cr_expect_eq(times, 2);
}

Test(warning_rate, what_comes_back_after_a_pause_is_said_at_once) {
    gw_rate_limit limit = {0};
    uint64_t told, times;
    lines(&limit, SECOND, 24 * HOUR, SECOND, &told);
    uint64_t at = 24 * HOUR + SECOND, back = at + HOUR + SECOND;
    cr_expect(gw_rate_limit_admits(&limit, back, &times));
    cr_expect_not(gw_rate_limit_admits(&limit, back + SECOND, &times));
    cr_expect(gw_rate_limit_admits(&limit, back + 6 * SECOND, &times), "and then as in the beginning");
}
