/* The order in which the members of a view are arranged for a sum. */
#include "core/view.h"

#include <criterion/criterion.h>

static uint32_t arranged(uint32_t count, uint32_t arrangement, uint32_t *ranks) {
    gw_view view = {.count = count};
    bool seen[GW_MAX_MEMBERS] = {false};
    gw_view_arrange(&view, arrangement, ranks);
    uint32_t all = 0;
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_lt(ranks[i], count);
        all += !seen[ranks[i]];
        seen[ranks[i]] = true;
    }
    return all;
}

/* To whom this member sends in the ring. */
static uint32_t next_of(const uint32_t *ranks, uint32_t count, uint32_t rank) {
    uint32_t at = 0;
    while (ranks[at] != rank) at++;
    return ranks[(at + 1) % count];
}

Test(view, everybody_has_a_place_in_each_arrangement_and_the_first_is_by_rank) {
    uint32_t ranks[GW_MAX_MEMBERS];
    for (uint32_t count = 1; count <= GW_MAX_MEMBERS; count += count < 9 ? 1 : 61) {
        for (uint32_t arrangement = 0; arrangement < 9; arrangement++)
            cr_assert_eq(arranged(count, arrangement, ranks), count, "%u members, %u", count, arrangement);
        cr_assert_eq(arranged(count, UINT32_MAX, ranks), count);
        arranged(count, 0, ranks);
        for (uint32_t i = 0; i < count; i++) cr_assert_eq(ranks[i], i);
    }
}

/* Who is between two sums with other bits each time is at fault, and not the way to a neighbour. */
Test(view, from_one_arrangement_to_the_next_everybody_sends_to_another) {
    uint32_t before[GW_MAX_MEMBERS], after[GW_MAX_MEMBERS];
    for (uint32_t count = 3; count <= 9; count++) {
        for (uint32_t arrangement = 0; arrangement < 9; arrangement++) {
            arranged(count, arrangement, before);
            arranged(count, arrangement + 1, after);
            for (uint32_t rank = 0; rank < count; rank++)
                cr_assert_neq(next_of(before, count, rank), next_of(after, count, rank), "%u members, %u: %u",
                              count, arrangement, rank);
        }
    }
}
