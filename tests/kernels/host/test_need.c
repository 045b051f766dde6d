/* The advice where a job needs more memory than there is: how to reduce the part that is too large. */
#include "kernels/host/need.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void expect(const gw_need *need, const char *advice) {
    char words[200];
    gw_err err;
    cr_assert_not(gw_need_check(need, "memory here", "the machine has", &err));
    cr_expect_eq(err.code, GW_E_LIMIT);
    snprintf(words, sizeof words, ". Take %s", advice);
    const char *found = strstr(err.text, words);
    cr_expect(found != NULL && strlen(found) == strlen(words), "%s", err.text);
}

Test(need, what_fits_is_taken) {
    const gw_need need = {.lane_bytes = 10, .workers = 4, .rest_bytes = 60, .most_bytes = 100};
    gw_err err;
    cr_assert(gw_need_check(&need, "memory here", "the machine has", &err));
}

Test(need, the_advice_is_about_the_part_that_is_too_much) {
    gw_need need = {.lane_bytes = 10, .workers = 4, .rest_bytes = 70, .most_bytes = 100};
    expect(&need, "fewer --workers");
    need.lighter = "a smaller --micro-batch";
    need.smaller = "fewer --layers";
    expect(&need, "fewer --workers or a smaller --micro-batch");
    need.lane_bytes = 31; /* not even one worker fits */
    expect(&need, "a smaller --micro-batch");
    need.rest_bytes = 101; /* the rest does not fit without any worker */
    expect(&need, "fewer --layers");
    need.smaller = NULL;
    expect(&need, "a smaller job");
}
