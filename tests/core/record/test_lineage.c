/* Where a state has come from. */
#include "core/record/lineage.h"

#include <criterion/criterion.h>

static gw_lineage lineage;

static void begin(void) {
    lineage = (gw_lineage){0};
}

TestSuite(lineage, .init = begin);

static void add(uint64_t step, uint8_t root) {
    const gw_checkpoint_ref one = {step, {{root}}};
    gw_lineage_add(&lineage, &one);
}

static bool has(uint8_t root) {
    const gw_hash hash = {{root}};
    return gw_lineage_has(&lineage, &hash);
}

static void expect_steps(uint32_t count, const uint64_t *steps) {
    cr_assert_eq(lineage.count, count);
    for (uint32_t i = 0; i < count; i++) cr_expect_eq(lineage.list[i].step, steps[i], "%u", i);
}

Test(lineage, is_ordered_by_steps_however_it_is_added) {
    cr_assert_not(has(0), "an empty one has nothing");
    add(8, 1);
    add(12, 2);
    add(4, 3);
    add(8, 4);
    expect_steps(4, (const uint64_t[]){12, 8, 8, 4});
    cr_assert(has(1) && has(2) && has(3) && has(4) && !has(5));
}

Test(lineage, a_state_that_steps_left_as_it_was_is_of_the_last_of_them) {
    add(8, 1);
    add(12, 2);
    add(16, 1);
    expect_steps(2, (const uint64_t[]){16, 12});
    add(4, 1);
    expect_steps(2, (const uint64_t[]){16, 12});
}

Test(lineage, forgets_the_one_of_the_fewest_steps) {
    for (uint32_t i = 1; i <= GW_MAX_LINEAGE + 3; i++) add(i, (uint8_t)i);
    cr_assert_eq(lineage.count, GW_MAX_LINEAGE);
    cr_assert(!has(3) && has(4) && has(GW_MAX_LINEAGE + 3));
    add(2, 2);
    cr_assert(!has(2) && has(4), "it would be forgotten at once");
    add(100, 4);
    cr_assert_eq(lineage.count, GW_MAX_LINEAGE);
    cr_assert_eq(lineage.list[0].step, 100);
    cr_assert_eq(lineage.list[GW_MAX_LINEAGE - 1].step, 5);
}

Test(lineage, of_two_checkpoints_the_one_of_more_steps_is_kept) {
    gw_checkpoint_ref kept = {0};
    const gw_checkpoint_ref one = {8, {{1}}}, same = {8, {{2}}}, none = {0};
    gw_checkpoint_ref_take_newer(&kept, &one);
    gw_checkpoint_ref_take_newer(&kept, &same);
    gw_checkpoint_ref_take_newer(&kept, &none);
    cr_assert(kept.step == 8 && kept.root.bytes[0] == 1);
}
