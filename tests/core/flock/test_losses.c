/* A member that is lost again and again is doubtful for longer and longer. */
#include "core/flock/losses.h"

#include <criterion/criterion.h>

Test(losses, within_an_hour_double_the_time_up_to_ten_minutes) {
    static const uint64_t expected[] = {0, 40, 80, 160, 320, 600, 600, 600, 600, 600, 600};
    gw_losses losses = {.count = 0};
    cr_expect_eq(gw_losses_wait_s(&losses), 0);
    for (uint64_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        gw_losses_add(&losses, 1000000 + i * 300);
        cr_expect_eq(gw_losses_wait_s(&losses), expected[i], "%u losses", (unsigned)i + 1);
    }
}

Test(losses, are_forgotten_after_an_hour) {
    gw_losses losses = {.count = 0};
    for (uint64_t i = 0; i < 4; i++) gw_losses_add(&losses, 1000000 + i);
    gw_losses_add(&losses, 1000000 + GW_LOSSES_WITHIN_S);
    cr_expect_eq(losses.count, 4, "the first one is an hour ago");
    gw_losses_add(&losses, 1000000 + 3 * GW_LOSSES_WITHIN_S);
    cr_expect_eq(losses.count, 1);
    cr_expect_eq(gw_losses_wait_s(&losses), 0);
}

Test(losses, of_the_future_do_not_count) {
    gw_losses losses = {.count = 0};
    for (uint64_t i = 0; i < 4; i++) gw_losses_add(&losses, 2000000 + i);
    gw_losses_add(&losses, 1000000);
    cr_expect_eq(losses.count, 1);
}
