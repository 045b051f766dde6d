/* Times, halts and slots as the command line has them; medians and the line of progress. */
#include "tools/godwit/map/median.h"
#include "tools/godwit/map/options.h"
#include "tools/godwit/map/progress.h"

#include <criterion/criterion.h>
#include <string.h>

Test(options, times) {
    uint64_t ns = 0;
    cr_assert(gw_map_parse_time("10", &ns) && ns == UINT64_C(10000000000));
    cr_assert(gw_map_parse_time("0.5s", &ns) && ns == 500000000);
    cr_assert(gw_map_parse_time("20ms", &ns) && ns == 20000000);
    cr_assert(gw_map_parse_time("2m", &ns) && ns == UINT64_C(120000000000));
    cr_assert(gw_map_parse_time("1d", &ns) && ns == UINT64_C(86400000000000));
    static const char *const none[] = {"", "x", "-1", "1x", "nan", "inf", "1e30", "5%"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        cr_assert_not(gw_map_parse_time(none[i], &ns), "%s", none[i]);
}

Test(options, halts) {
    gw_map_halt halt;
    cr_assert(gw_map_parse_halt("never", &halt) && halt.when == GW_MAP_HALT_NEVER);
    cr_assert(gw_map_parse_halt("now,fail=1", &halt) && halt.when == GW_MAP_HALT_NOW &&
              halt.what == GW_MAP_HALT_FAIL && halt.count == 1 && halt.percent == 0);
    cr_assert(gw_map_parse_halt("soon,success=30%", &halt) && halt.when == GW_MAP_HALT_SOON &&
              halt.what == GW_MAP_HALT_SUCCESS && halt.percent == 30);
    cr_assert(gw_map_parse_halt("soon,done=7", &halt) && halt.what == GW_MAP_HALT_DONE && halt.count == 7);
    cr_assert(gw_map_parse_halt("2", &halt) && halt.when == GW_MAP_HALT_NOW && halt.count == 1);
    static const char *const none[] = {"",
                                       "now",
                                       "now,",
                                       "now,fail",
                                       "now,fail=0",
                                       "now,fail=0%",
                                       "soon,fail=101%",
                                       "later,fail=1",
                                       "now,fall=1",
                                       "3"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        cr_assert_not(gw_map_parse_halt(none[i], &halt), "%s", none[i]);
}

Test(options, slots) {
    static const struct {
        const char *text;
        uint32_t slots;
    } good[] = {{"8", 8},  {"0", 0},  {"100%", 4}, {"50%", 2},  {"1%", 1},
                {"+2", 6}, {"-1", 3}, {"-9", 1},   {"250%", 10}};
    static const char *const none[] = {"", "x", "1.5", "0%", "-", "+", "99999999", "10%%"};
    uint32_t slots;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        cr_assert(gw_map_parse_slots(good[i].text, 4, &slots) && slots == good[i].slots, "%s", good[i].text);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        cr_assert_not(gw_map_parse_slots(none[i], 4, &slots), "%s", none[i]);
}

Test(median, it_is_within_a_percent) {
    static gw_map_median median;
    cr_assert_eq(gw_map_median_of(&median), 0);
    for (uint64_t i = 1; i <= 10001; i++) gw_map_median_note(&median, i * 12345);
    double expected = 5001.0 * 12345, found = (double)gw_map_median_of(&median);
    cr_assert(found > expected * 0.99 && found < expected * 1.01, "%g", found);
    static gw_map_median ends;
    gw_map_median_note(&ends, 0);
    gw_map_median_note(&ends, UINT64_MAX);
    gw_map_median_note(&ends, 3);
    cr_assert_eq(gw_map_median_of(&ends), 3);
}

Test(progress, it_fits_its_line) {
    char text[GW_MAP_PROGRESS_TEXT];
    gw_map_counts counts = {.done = 25, .total = 100, .running = 4};
    gw_map_progress_text(&counts, UINT64_C(10000000000), 80, text);
    cr_assert_not_null(strstr(text, "25 of 100, 30 s left"), "%s", text);
    cr_assert_not_null(strstr(text, "[####"), "%s", text);
    counts.failed = 3;
    for (uint32_t columns = 1; columns < 300; columns++) {
        gw_map_progress_text(&counts, UINT64_C(10000000000), columns, text);
        cr_assert_lt(strlen(text), columns);
    }
    counts.total = 0;
    gw_map_progress_text(&counts, UINT64_C(7300000000000), 80, text);
    cr_assert_str_eq(text, "25 done, 3 failed, 4 running, 2 h 1 m");
    counts = (gw_map_counts){.total = 9};
    gw_map_progress_text(&counts, 0, 80, text);
    cr_assert_not_null(strstr(text, "0 of 9, ? left"), "%s", text);
}
