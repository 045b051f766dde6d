/* When a shard counts as hanging, with a clock that the tests set. */
#include "tools/godwit/watch/watchdog.h"

#include <criterion/criterion.h>

#define S UINT64_C(1000000000)

static gw_watchdog dog_of_60s(void) {
    return (gw_watchdog){.patience_ns = 60 * S, .interval_ns = S};
}

/* Looks every second from one time to another. */
static void look_on(gw_watchdog *dog, uint64_t from_s, uint64_t to_s) {
    for (uint64_t s = from_s; s <= to_s; s++) gw_watchdog_look(dog, s * S);
}

Test(watchdog, nothing_hangs_before_the_patience_is_over) {
    gw_watchdog dog = dog_of_60s();
    look_on(&dog, 1000, 1069);
    cr_assert_not(gw_watchdog_hangs(&dog, 1010 * S, 0));
    look_on(&dog, 1070, 1070);
    cr_assert(gw_watchdog_hangs(&dog, 1010 * S, 0));
    cr_assert_not(gw_watchdog_hangs(&dog, 1011 * S, 0), "another began later");
}

Test(watchdog, long_shards_may_take_a_multiple_of_the_usual) {
    gw_watchdog dog = dog_of_60s();
    look_on(&dog, 1000, 1099);
    cr_assert(gw_watchdog_hangs(&dog, 1000 * S, 3 * S));
    cr_assert_not(gw_watchdog_hangs(&dog, 1000 * S, 5 * S));
    look_on(&dog, 1100, 1100);
    cr_assert(gw_watchdog_hangs(&dog, 1000 * S, 5 * S));
    cr_assert_not(gw_watchdog_hangs(&dog, 1000 * S, UINT64_MAX / 2), "no overflow");
}

/* The process is stopped for ten minutes and continued: the shard has not run in that time either. */
Test(watchdog, time_in_which_the_process_did_not_run_is_forgiven) {
    gw_watchdog dog = dog_of_60s();
    look_on(&dog, 1000, 1030);
    look_on(&dog, 1600, 1659);
    cr_assert_not(gw_watchdog_hangs(&dog, 1000 * S, 0));
    look_on(&dog, 1660, 1660);
    cr_assert(gw_watchdog_hangs(&dog, 1000 * S, 0), "but not for ever");
}

Test(watchdog, a_look_that_is_a_little_late_forgives_nothing) {
    gw_watchdog dog = dog_of_60s();
    for (uint64_t s = 1000; s <= 1060; s += 2) gw_watchdog_look(&dog, s * S);
    cr_assert(gw_watchdog_hangs(&dog, 1000 * S, 0));
}

Test(watchdog, without_a_look_nothing_hangs) {
    gw_watchdog dog = dog_of_60s();
    cr_assert_not(gw_watchdog_hangs(&dog, S, 0));
}

/* The shards of two workers were stopped for ten minutes with the process; even long afterwards a shard
 * that hangs is found as soon as before. */
Test(watchdog, what_is_usual_stays_so_after_a_stop) {
    gw_durations took = {.count = 0};
    cr_assert_eq(gw_durations_usual(&took), 0);
    gw_durations_note(&took, 4 * S);
    cr_assert_eq(gw_durations_usual(&took), 4 * S);
    for (int i = 0; i < 5; i++) gw_durations_note(&took, (uint64_t)(3 + i % 2) * S);
    gw_durations_note(&took, 600 * S);
    gw_durations_note(&took, 600 * S);
    cr_assert_leq(gw_durations_usual(&took), 4 * S);
    for (int i = 0; i < 3 * GW_DURATIONS; i++) gw_durations_note(&took, 5 * S);
    cr_assert_eq(gw_durations_usual(&took), 5 * S, "what is long ago does not count");
}

Test(watchdog, short_shards_do_not_make_long_ones_unusual) {
    gw_durations took = {.count = 0};
    for (int i = 0; i < 90; i++) gw_durations_note(&took, i % 3 == 0 ? 9 * S : S);
    cr_assert_eq(gw_durations_usual(&took), 9 * S);
}
