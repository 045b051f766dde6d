/* A spike is found where a report leaves its course, whatever detail the series still has of it; a shard stands out where
 * it is far above the others, and its samples are kept. */
#include "tools/godwit/audit/spike.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static const gw_alarm_loss thrice = {.key = "loss", .spike = true, .limit = 3};

/* A series of `last` steps around 1, with a spike in the steps given. */
static gw_spikes spikes_of(uint64_t last, uint64_t first, uint64_t second, const gw_alarm_loss *rule) {
    gw_levels levels = {0};
    gw_spikes spikes = {0};
    gw_err err;
    for (uint64_t step = 1; step <= last; step++) {
        bool high = step == first || step == first + 1 || step == second;
        double value = 1 + 0.3 * sin((double)step) + (high ? 9 : 0);
        cr_assert(gw_levels_add(&levels, step, value, &err), "%s", err.text);
    }
    gw_spikes_of(&levels, rule, &spikes);
    gw_levels_free(&levels);
    return spikes;
}

Test(spike, steps_that_leave_the_course_are_found_each_once) {
    gw_spikes found = spikes_of(500, 123, 400, &thrice);
    cr_assert(found.count == 2 && found.listed == 2 && found.last == 500);
    cr_assert(found.list[0].begin == 123 && found.list[0].end == 123);
    cr_assert(found.list[1].begin == 400 && found.list[1].end == 400);
    cr_assert(found.list[0].value > 9 && fabs(found.list[0].before.mean - 1) < 0.2);
    found = spikes_of(500, 15, 0, &thrice);
    cr_assert_eq(found.count, 0, "the first steps have no course");
    const gw_alarm_loss above = {.key = "loss", .limit = 5};
    found = spikes_of(500, 15, 0, &above);
    cr_assert(found.count == 1 && found.list[0].begin == 15);
    const gw_alarm_loss higher = {.key = "loss", .spike = true, .limit = 30};
    cr_assert_eq(spikes_of(500, 123, 400, &higher).count, 0);
}

Test(spike, what_is_old_is_found_within_a_bin) {
    enum { LAST = 200000 };
    gw_spikes found = spikes_of(LAST, 5001, LAST - 100, &thrice);
    cr_assert_eq(found.count, 2);
    const gw_spike *old = &found.list[0], *late = &found.list[1];
    cr_assert(old->begin <= 5001 && 5001 <= old->end && old->end - old->begin < 512, "%lu to %lu", old->begin,
              old->end);
    cr_assert_gt(old->end, old->begin, "the series has it in a bin");
    cr_assert_gt(old->before.count, GW_COURSE_STEPS - 1);
    cr_assert(late->begin == LAST - 100 && late->end == LAST - 100, "%lu to %lu", late->begin, late->end);
}

Test(spike, of_very_many_the_last_are_kept) {
    gw_levels levels = {0};
    gw_spikes found = {0};
    gw_err err;
    for (uint64_t step = 1; step <= 1000; step++)
        cr_assert(gw_levels_add(&levels, step, step > 30 && step % 5 == 0 ? 9 : 1, &err));
    gw_spikes_of(&levels, &thrice, &found);
    gw_levels_free(&levels);
    cr_assert(found.count == 194 && found.listed == GW_SPIKES);
    cr_assert(found.list[0].begin == 685 && found.list[GW_SPIKES - 1].begin == 1000);
}

Test(spike, a_shard_stands_out_only_far_above_the_others) {
    cr_assert(gw_extreme_stands_out(10, 1, 0.1));
    cr_assert_not(gw_extreme_stands_out(1.9, 1, 0.01), "it is not twice the middle one");
    cr_assert_not(gw_extreme_stands_out(10, 1, 2), "the others are as far from each other");
    cr_assert(gw_extreme_stands_out(1, 0, 0));
    cr_assert_not(gw_extreme_stands_out(0, 0, 0));
}
