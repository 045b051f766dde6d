/* Who holds which payload: everybody gives the same answer, shares are those of a deal among equals, and
 * little moves when a member goes. */
#include "core/shard/holders.h"

#include "core/record/view.h"
#include "core/rng.h"
#include "core/shard/deal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 1200, MEMBERS = 6 };

static int by_id(const void *a, const void *b) {
    return gw_peer_id_compare(a, b);
}

static void make_members(gw_peer_id *members, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) gw_blake2b(&i, sizeof i, members[i].bytes, sizeof members[i].bytes);
    qsort(members, count, sizeof *members, by_id);
}

Test(holders, each_shard_has_as_many_different_ones_as_asked) {
    gw_peer_id members[MEMBERS];
    make_members(members, MEMBERS);
    for (uint32_t copies = 1; copies <= MEMBERS + 2; copies++) {
        gw_holders h = gw_holders_of(SHARDS, copies, members, MEMBERS);
        cr_assert_eq(h.copies, copies < MEMBERS ? copies : MEMBERS);
        for (uint32_t s = 0; s < SHARDS; s++) {
            uint32_t found = 0;
            for (uint32_t m = 0; m < MEMBERS; m++) found += gw_holders_has(&h, s, m);
            cr_assert_eq(found, h.copies, "shard %u", s);
        }
        cr_assert_not(gw_holders_has(&h, SHARDS, 0));
        gw_holders_free(&h);
    }
}

/* How many positions of each member's share are shards that it does not hold. */
static uint32_t strangers(const gw_holders *h, const uint32_t *order, const uint32_t *cuts,
                          uint32_t members) {
    uint32_t found = 0;
    for (uint32_t m = 0; m < members; m++)
        for (uint32_t i = cuts[m]; i < cuts[m + 1]; i++) found += h->ranks[(size_t)order[i] * h->copies] != m;
    return found;
}

/* An undisturbed step reads nothing: what a deal among equals gives a member is what it holds. */
Test(holders, a_deal_among_equals_gives_each_member_what_it_holds) {
    gw_peer_id members[MEMBERS];
    make_members(members, MEMBERS);
    for (uint32_t count = 1; count <= MEMBERS; count++) {
        for (uint32_t shards = 1; shards < 50; shards++) {
            uint64_t speeds[MEMBERS] = {7, 7, 7, 7, 7, 7};
            uint32_t cuts[MEMBERS + 1];
            gw_deal_cut(shards, speeds, count, cuts);
            gw_holders h = gw_holders_of(shards, 2, members, count);
            uint32_t *order = gw_holders_order(&h, shards, NULL, cuts, count);
            cr_assert_eq(strangers(&h, order, cuts, count), 0);
            free(order);
            gw_holders_free(&h);
        }
    }
}

/* A slow member holds as much as the others and is dealt less: only what it does not do itself travels. */
Test(holders, a_deal_by_speed_moves_only_what_the_slow_hold_too_much) {
    gw_peer_id members[4];
    make_members(members, 4);
    uint64_t speeds[4] = {1, 8, 8, 7};
    uint32_t cuts[5];
    gw_deal_cut(240, speeds, 4, cuts);
    gw_holders h = gw_holders_of(240, 1, members, 4);
    uint32_t *order = gw_holders_order(&h, 240, NULL, cuts, 4);
    cr_assert_eq(strangers(&h, order, cuts, 4), 60 - cuts[1]);
    cr_assert_eq(h.ranks[order[cuts[1]]], 1, "own shards come first");
    cr_assert_eq(h.ranks[order[cuts[2] - 1]], 0, "and those of others last, where thieves take");
    free(order);
    gw_holders_free(&h);
}

Test(holders, the_order_holds_every_shard_of_the_list_once_and_does_not_depend_on_copies) {
    gw_peer_id members[MEMBERS];
    make_members(members, MEMBERS);
    gw_holders one = gw_holders_of(SHARDS, 1, members, MEMBERS),
               three = gw_holders_of(SHARDS, 3, members, MEMBERS);
    gw_set list = gw_set_of(SHARDS + 9), seen = gw_set_of(SHARDS + 9); /* nine without a payload */
    for (uint32_t s = 0; s < SHARDS + 9; s += 3) gw_set_add(&list, s);
    uint64_t speeds[MEMBERS] = {3, 1, 0, 9, 4, 4};
    uint32_t cuts[MEMBERS + 1], count = gw_set_count(&list);
    gw_deal_cut(count, speeds, MEMBERS, cuts);
    uint32_t *order = gw_holders_order(&one, SHARDS + 9, &list, cuts, MEMBERS),
             *same = gw_holders_order(&three, SHARDS + 9, &list, cuts, MEMBERS);
    cr_assert_eq(memcmp(order, same, count * sizeof *order), 0);
    for (uint32_t i = 0; i < count; i++) gw_set_add(&seen, order[i]);
    cr_assert_eq(memcmp(list.words, seen.words, (SHARDS + 9 + 63) / 64 * sizeof *list.words), 0);
    free(order);
    free(same);
    gw_set_free(&list);
    gw_set_free(&seen);
    gw_holders_free(&one);
    gw_holders_free(&three);
}

/* How many shards that survivors held first are with another survivor in the view without `gone`. */
static uint32_t moved(uint32_t gone) {
    gw_peer_id members[MEMBERS], left[MEMBERS];
    make_members(members, MEMBERS);
    uint32_t count = 0, moves = 0;
    for (uint32_t m = 0; m < MEMBERS; m++)
        if (m != gone) left[count++] = members[m];
    gw_holders before = gw_holders_of(SHARDS, 1, members, MEMBERS),
               after = gw_holders_of(SHARDS, 1, left, count);
    for (uint32_t s = 0; s < SHARDS; s++)
        moves +=
            before.ranks[s] != gone && !gw_peer_id_equal(&members[before.ranks[s]], &left[after.ranks[s]]);
    gw_holders_free(&before);
    gw_holders_free(&after);
    return moves;
}

Test(holders, few_others_move_when_a_member_goes) {
    for (uint32_t gone = 0; gone < MEMBERS; gone++) cr_expect_lt(moved(gone), SHARDS / 8, "%u", moved(gone));
}

Test(holders, without_shards_nobody_holds_any) {
    gw_peer_id members[2];
    make_members(members, 2);
    gw_holders h = gw_holders_of(0, 1, members, 2);
    cr_assert_eq(h.shards, 0);
    cr_assert_not(gw_holders_has(&h, 0, 0));
    gw_holders_free(&h);
}

Test(holders, ranks_and_shards_beyond_the_last_are_nobodys) {
    gw_peer_id members[2];
    make_members(members, 2);
    gw_holders h = gw_holders_of(4, 2, members, 2);
    cr_assert(gw_holders_has(&h, 3, 1));
    cr_assert_not(gw_holders_has(&h, 3, GW_MAX_MEMBERS)); /* 0 as a byte: a rank that holds it */
    gw_set last = gw_set_of(4);
    gw_set_add(&last, 3);
    const uint32_t cuts[] = {0, 1, 1};
    uint32_t *order = gw_holders_order(&h, 4, &last, cuts, 2);
    cr_assert_eq(order[0], 3);
    free(order);
    gw_set_free(&last);
    gw_holders_free(&h);
}
