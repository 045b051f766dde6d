/* Messages that recur are written ever more rarely. */
#include "tools/godwit/show/repeats.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define HOUR   (3600 * SECOND)

Test(repeats, a_warning_in_the_same_words_comes_ever_more_seldom) {
    gw_repeats repeats = {0};
    uint64_t times, told = 0;
    unsigned lines = 0;
    for (uint64_t at = SECOND; at < 24 * HOUR; at += 10 * SECOND)
        if (gw_repeats_admit(&repeats, "peer 01234567 runs another job", at, &times)) {
            lines++;
            told += times;
        }
    cr_expect_leq(lines, 35, "%u lines a day", lines);
    cr_expect_geq(told, 23 * 360);
}

Test(repeats, another_text_has_pauses_of_its_own) {
    gw_repeats repeats = {0};
    uint64_t times;
    char text[32];
    for (unsigned i = 0; i < 2 * GW_REPEATS_TEXTS; i++) {
        snprintf(text, sizeof text, "text %u", i);
        cr_expect(gw_repeats_admit(&repeats, text, SECOND + i, &times), "%s is new", text);
        cr_expect_eq(times, 1);
    }
    cr_expect_not(gw_repeats_admit(&repeats, text, 2 * SECOND, &times), "the last one is remembered");
    cr_expect_not(gw_repeats_admit(&repeats, "text 32", 2 * SECOND, &times));
    cr_expect(gw_repeats_admit(&repeats, "text 0", 2 * SECOND, &times), "and the first one forgotten");
}

/* A peer that asks in vain, while the flock makes steps without it, reports so every two seconds. */
Test(repeats, a_phase_that_differs_by_its_step_is_told_now_and_then) {
    gw_phase_filter filter = {0};
    char text[GW_PHASE_TEXT];
    unsigned lines = 0;
    uint64_t at = SECOND;
    for (unsigned step = 0; at < 24 * HOUR; step += 7, at += 2 * SECOND) {
        snprintf(text, sizeof text, "asking leader 01234567 to be admitted at step %u", step);
        lines += gw_phase_filter_is_news(&filter, text, at);
    }
    cr_expect_leq(lines, 35, "%u lines a day", lines);
    cr_expect_geq(lines, 24, "%u lines a day", lines);
    cr_expect(gw_phase_filter_is_news(&filter, "asking leader 89abcdef to be admitted at step 9", at),
              "another leader");
    cr_expect(gw_phase_filter_is_news(&filter, "computing", at + 1));
    cr_expect_not(gw_phase_filter_is_news(&filter, "computing", at + HOUR), "nothing changed");
    cr_expect(gw_phase_filter_is_news(&filter, "asking leader 89abcdef to be admitted at step 9", at + HOUR));
}

/* A link's failure may make a reason as long as the brain has room for. */
Test(repeats, a_phase_of_any_length_is_told_once) {
    gw_phase_filter filter = {0};
    char text[GW_PHASE_TEXT];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cr_expect(gw_phase_filter_is_news(&filter, text, SECOND));
    cr_expect_not(gw_phase_filter_is_news(&filter, text, HOUR));
    text[sizeof text - 2] = 'y';
    cr_expect(gw_phase_filter_is_news(&filter, text, HOUR));
}

Test(repeats, a_phase_with_other_numbers_than_steps_is_told) {
    gw_phase_filter filter = {0};
    cr_expect(gw_phase_filter_is_news(&filter, "waiting for 2 of 4 peers", SECOND));
    cr_expect(gw_phase_filter_is_news(&filter, "waiting for 1 of 4 peers", SECOND));
    cr_expect(gw_phase_filter_is_news(&filter, "a flock of 3 runs at step 10; waiting for a link", SECOND));
    cr_expect_not(
        gw_phase_filter_is_news(&filter, "a flock of 3 runs at step 9; waiting for a link", SECOND));
    cr_expect(gw_phase_filter_is_news(&filter, "a flock of 2 runs at step 10; waiting for a link", SECOND));
    cr_expect(gw_phase_filter_is_news(&filter, "a flock of 2 runs at step 10; waiting for ever", SECOND));
}
