/* Rendezvous hashing: everybody gives the same answer, shares are even, and little moves. */
#include "core/state/placement.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <string.h>

enum { CHUNKS = 20000, MEMBERS = 9 };

static void make_members(gw_peer_id *members, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) gw_blake2b(&i, sizeof i, members[i].bytes, sizeof members[i].bytes);
}

Test(placement, gives_the_asked_number_of_different_holders) {
    gw_peer_id members[MEMBERS];
    make_members(members, MEMBERS);
    uint32_t holders[GW_MAX_REPLICAS];
    for (uint32_t chunk = 0; chunk < 100; chunk++) {
        cr_assert_eq(gw_placement_holders(chunk, members, MEMBERS, 3, holders), 3);
        cr_assert(holders[0] != holders[1] && holders[1] != holders[2] && holders[0] != holders[2]);
        for (int i = 0; i < 3; i++) cr_assert_lt(holders[i], MEMBERS);
    }
    cr_assert_eq(gw_placement_holders(5, members, 2, 3, holders), 2, "no more holders than members");
    cr_assert_eq(gw_placement_holders(5, members, 0, 3, holders), 0);
}

Test(placement, does_not_depend_on_the_order_of_members) {
    gw_peer_id members[MEMBERS], reversed[MEMBERS];
    make_members(members, MEMBERS);
    for (uint32_t i = 0; i < MEMBERS; i++) reversed[i] = members[MEMBERS - 1 - i];
    for (uint32_t chunk = 0; chunk < 1000; chunk++) {
        uint32_t a[2], b[2];
        gw_placement_holders(chunk, members, MEMBERS, 2, a);
        gw_placement_holders(chunk, reversed, MEMBERS, 2, b);
        for (int i = 0; i < 2; i++) cr_assert_eq(a[i], MEMBERS - 1 - b[i]);
    }
}

Test(placement, shares_are_even) {
    gw_peer_id members[MEMBERS];
    make_members(members, MEMBERS);
    static uint32_t indices[CHUNKS];
    uint32_t total = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        uint32_t mine = gw_placement_list(CHUNKS, members, MEMBERS, 2, &members[i], indices);
        cr_assert_float_eq((double)mine / CHUNKS, 2.0 / MEMBERS, 0.015); /* five standard deviations */
        total += mine;
    }
    cr_assert_eq(total, 2 * CHUNKS, "every chunk has its two holders");
}

Test(placement, a_member_that_goes_moves_only_what_it_held) {
    gw_peer_id members[MEMBERS], without[MEMBERS - 1];
    make_members(members, MEMBERS);
    const gw_peer_id gone = members[4];
    memcpy(without, members, 4 * sizeof *members);
    memcpy(without + 4, members + 5, (MEMBERS - 5) * sizeof *members);
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
        uint32_t moved = 0;
        for (uint32_t i = 0; i < MEMBERS - 1; i++) {
            bool before = gw_placement_holds(chunk, members, MEMBERS, 2, &without[i]);
            bool after = gw_placement_holds(chunk, without, MEMBERS - 1, 2, &without[i]);
            cr_assert(after || !before, "nobody loses a chunk");
            moved += after && !before;
        }
        cr_assert_eq(moved, gw_placement_holds(chunk, members, MEMBERS, 2, &gone));
    }
}

Test(placement, a_stranger_holds_nothing) {
    gw_peer_id members[MEMBERS + 1];
    make_members(members, MEMBERS + 1);
    for (uint32_t chunk = 0; chunk < 100; chunk++)
        cr_assert_not(gw_placement_holds(chunk, members, MEMBERS, 2, &members[MEMBERS]));
}

/* A flock of different builds must agree. */
Test(placement, is_pinned) {
    gw_peer_id members[MEMBERS];
    make_members(members, MEMBERS);
    uint32_t first[8];
    for (uint32_t chunk = 0; chunk < 8; chunk++) {
        uint32_t holders[2];
        gw_placement_holders(chunk, members, MEMBERS, 2, holders);
        first[chunk] = 10 * holders[0] + holders[1];
    }
    const uint32_t expected[8] = {30, 42, 78, 61, 17, 82, 56, 41};
    cr_assert_arr_eq(first, expected, sizeof expected, "%u %u %u %u %u %u %u %u", first[0], first[1],
                     first[2], first[3], first[4], first[5], first[6], first[7]);
}

/* Scores collide where the second half of an id makes up for what the first one changes. */
Test(placement, of_equal_scores_the_lower_id_comes_first) {
    const uint32_t chunk = 77;
    uint64_t low[2] = {1, 2}, high = 12345;
    gw_peer_id members[2];
    for (int i = 0; i < 2; i++) {
        uint64_t upper = high ^ gw_mix64(chunk ^ low[0]) ^ gw_mix64(chunk ^ low[i]);
        gw_writer w = gw_writer_on(members[i].bytes, sizeof members[i].bytes);
        gw_put_u64(&w, low[i]);
        gw_put_u64(&w, upper);
    }
    cr_assert_eq(gw_placement_score(chunk, &members[0]), gw_placement_score(chunk, &members[1]));
    const gw_peer_id swapped[2] = {members[1], members[0]};
    uint32_t first, second;
    gw_placement_holders(chunk, members, 2, 1, &first);
    gw_placement_holders(chunk, swapped, 2, 1, &second);
    cr_assert(gw_peer_id_equal(&members[first], &swapped[second]));
    cr_assert_lt(gw_peer_id_compare(&members[first], &members[1 - first]), 0);
}
