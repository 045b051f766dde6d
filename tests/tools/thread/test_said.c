/* What comes again and again is written ever more seldom. */
#include "tools/godwit/thread/said.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define SECOND UINT64_C(1000000000)
#define HOUR   (3600 * SECOND)

Test(said, a_warning_in_the_same_words_comes_ever_more_seldom) {
    gw_said said = {0};
    uint64_t times, told = 0;
    unsigned lines = 0;
    for (uint64_t at = SECOND; at < 24 * HOUR; at += 10 * SECOND)
        if (gw_said_may_speak(&said, "peer 01234567 runs another job", at, &times)) {
            lines++;
            told += times;
        }
    cr_expect_leq(lines, 35, "%u lines a day", lines);
    cr_expect_geq(told, 23 * 360);
}

Test(said, another_text_has_pauses_of_its_own) {
    gw_said said = {0};
    uint64_t times;
    char text[32];
    for (unsigned i = 0; i < 2 * GW_SAID_TEXTS; i++) {
        snprintf(text, sizeof text, "text %u", i);
        cr_expect(gw_said_may_speak(&said, text, SECOND + i, &times), "%s is new", text);
        cr_expect_eq(times, 1);
    }
    cr_expect_not(gw_said_may_speak(&said, text, 2 * SECOND, &times), "the last one is remembered");
    cr_expect_not(gw_said_may_speak(&said, "text 32", 2 * SECOND, &times));
    cr_expect(gw_said_may_speak(&said, "text 0", 2 * SECOND, &times), "and the first one forgotten");
}

/* A peer that asks in vain while the flock makes steps without it says so every two seconds. */
Test(said, a_phase_that_differs_by_its_step_is_told_now_and_then) {
    gw_said_phase said = {0};
    char text[GW_SAID_PHASE];
    unsigned lines = 0;
    uint64_t at = SECOND;
    for (unsigned step = 0; at < 24 * HOUR; step += 7, at += 2 * SECOND) {
        snprintf(text, sizeof text, "asking leader 01234567 to be admitted at step %u", step);
        lines += gw_said_phase_is_news(&said, text, at);
    }
    cr_expect_leq(lines, 35, "%u lines a day", lines);
    cr_expect_geq(lines, 24, "%u lines a day", lines);
    cr_expect(gw_said_phase_is_news(&said, "asking leader 89abcdef to be admitted at step 9", at),
              "another leader");
    cr_expect(gw_said_phase_is_news(&said, "computing", at + 1));
    cr_expect_not(gw_said_phase_is_news(&said, "computing", at + HOUR), "nothing changed");
    cr_expect(gw_said_phase_is_news(&said, "asking leader 89abcdef to be admitted at step 9", at + HOUR));
}

Test(said, a_phase_with_other_numbers_than_steps_is_told) {
    gw_said_phase said = {0};
    cr_expect(gw_said_phase_is_news(&said, "waiting for 2 of 4 peers", SECOND));
    cr_expect(gw_said_phase_is_news(&said, "waiting for 1 of 4 peers", SECOND));
    cr_expect(gw_said_phase_is_news(&said, "a flock of 3 runs at step 10; waiting for a link", SECOND));
    cr_expect_not(gw_said_phase_is_news(&said, "a flock of 3 runs at step 9; waiting for a link", SECOND));
    cr_expect(gw_said_phase_is_news(&said, "a flock of 2 runs at step 10; waiting for a link", SECOND));
    cr_expect(gw_said_phase_is_news(&said, "a flock of 2 runs at step 10; waiting for ever", SECOND));
}
