/* The order in which the members of a view are arranged for a sum. */
#include "core/record/view.h"

#include "net/collective/doubling.h"

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

typedef struct met {       /* of one member */
    uint32_t next, before; /* in the ring */
    uint32_t first;        /* with whom recursive doubling begins */
} met;

static met met_by(uint32_t count, uint32_t arrangement, uint32_t rank) {
    uint32_t ranks[GW_MAX_MEMBERS], at = 0, stage = 0;
    arranged(count, arrangement, ranks);
    while (ranks[at] != rank) at++;
    while (gw_doubling_partner(count, at, stage) == at) stage++;
    return (met){.next = ranks[(at + 1) % count],
                 .before = ranks[(at + count - 1) % count],
                 .first = ranks[gw_doubling_partner(count, at, stage)]};
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
Test(view, from_one_arrangement_to_the_next_everybody_meets_others) {
    for (uint32_t count = 5; count <= GW_MAX_MEMBERS; count += count < 17 ? 1 : 239) {
        for (uint32_t arrangement = 0; arrangement < count + 3; arrangement++) {
            for (uint32_t rank = 0; rank < count; rank++) {
                met one = met_by(count, arrangement, rank), other = met_by(count, arrangement + 1, rank);
                cr_assert_neq(one.next, other.next, "%u members, %u: %u", count, arrangement, rank);
                cr_assert_neq(one.before, other.before, "%u members, %u: %u", count, arrangement, rank);
                cr_assert_neq(one.first, other.first, "%u members, %u: %u", count, arrangement, rank);
            }
        }
    }
}

Test(view, of_three_or_four_nobody_meets_the_same_three_times) {
    for (uint32_t count = 3; count <= 4; count++) {
        for (uint32_t arrangement = 0; arrangement < 24; arrangement++) {
            for (uint32_t rank = 0; rank < count; rank++) {
                met some[3];
                for (uint32_t k = 0; k < 3; k++) some[k] = met_by(count, arrangement + k, rank);
                cr_assert(some[0].next != some[1].next || some[0].next != some[2].next);
                cr_assert(some[0].before != some[1].before || some[0].before != some[2].before);
                cr_assert(some[0].first != some[1].first || some[0].first != some[2].first);
                cr_assert(arrangement % 2 == 1 || some[0].next != some[1].next, "%u members, %u: %u", count,
                          arrangement, rank);
            }
        }
    }
}

/* Four members have three rings. */
Test(view, of_four_each_meets_all_others) {
    for (uint32_t rank = 0; rank < 4; rank++) {
        bool next[4] = {false}, first[4] = {false};
        for (uint32_t arrangement = 0; arrangement < 6; arrangement++) {
            met one = met_by(4, arrangement, rank);
            next[one.next] = first[one.first] = true;
        }
        for (uint32_t other = 0; other < 4; other++)
            cr_assert(other == rank || (next[other] && first[other]), "%u never met %u", rank, other);
    }
}
