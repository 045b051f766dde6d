/* Double checks (core/shard/double_check.h): the choice of shards and verifiers, and the judgement of
 * disputes. */
#include "core/shard/double_check.h"

#include <criterion/criterion.h>

enum { SHARDS = 48 };

Test(verify, the_share_that_was_asked_for_is_chosen) {
    uint32_t chosen[GW_VERIFY_MOST], total = 0;
    for (uint64_t step = 0; step < 1000; step++) {
        uint32_t count = gw_verify_choose(7, 10000, step, SHARDS, chosen);
        for (uint32_t i = 0; i < count; i++) {
            cr_assert_lt(chosen[i], SHARDS);
            if (i > 0) cr_assert_lt(chosen[i - 1], chosen[i]);
        }
        total += count;
    }
    cr_expect_gt(total, 400);
    cr_expect_lt(total, 560);
    cr_expect_eq(gw_verify_choose(7, GW_VERIFY_WHOLE, 3, SHARDS, chosen), SHARDS);
    cr_expect_eq(gw_verify_choose(7, 0, 3, SHARDS, chosen), 0);
}

Test(verify, of_more_than_the_table_holds_each_has_its_chance) {
    uint32_t chosen[GW_VERIFY_MOST];
    bool last = false, first = false;
    for (uint64_t step = 0; step < 200; step++) {
        cr_assert_eq(gw_verify_choose(7, GW_VERIFY_WHOLE, step, 10 * GW_VERIFY_MOST, chosen), GW_VERIFY_MOST);
        first |= gw_verify_is_chosen(chosen, GW_VERIFY_MOST, 0);
        last |= gw_verify_is_chosen(chosen, GW_VERIFY_MOST, 10 * GW_VERIFY_MOST - 1);
    }
    cr_expect(first && last);
}

Test(verify, each_chosen_shard_has_an_owner_and_another_verifier) {
    for (uint32_t members = 1; members <= 5; members++) {
        uint32_t chosen[GW_VERIFY_MOST], cuts[6], owners[SHARDS] = {0}, verifiers[SHARDS] = {0};
        uint32_t count = gw_verify_choose(1, GW_VERIFY_WHOLE / 2, members, SHARDS, chosen);
        for (uint32_t i = 0; i <= members; i++) cuts[i] = i == members ? SHARDS : i * i;
        for (uint32_t rank = 0; rank < members; rank++) {
            gw_verify_part part;
            gw_verify_divide(chosen, chosen, count, cuts, members, rank, 9, NULL, 0, &part);
            for (uint32_t i = 0; i < part.first_count; i++) {
                owners[part.first[i]] += 1 + 100 * rank;
                cr_assert(part.first[i] >= cuts[rank] && part.first[i] < cuts[rank + 1]);
            }
            for (uint32_t i = 0; i < part.again_count; i++) verifiers[part.again[i]] += 1 + 100 * rank;
        }
        for (uint32_t shard = 0; shard < SHARDS; shard++) {
            bool is = gw_verify_is_chosen(chosen, count, shard);
            cr_expect_eq(owners[shard] % 100, is);
            cr_expect_eq(verifiers[shard] % 100, is && members > 1);
            if (is && members > 1) cr_expect_neq(owners[shard], verifiers[shard]);
        }
    }
}

/* Rank 0 owns shards 4 and 9; of two members the other verifies both. */
static void fill(int64_t *table, uint64_t second) {
    const uint32_t chosen[] = {4, 9};
    const gw_recheck own[] = {{.shard = 9, .fingerprint = 90}, {.shard = 4, .fingerprint = 40}};
    const gw_recheck again[] = {{.shard = 4, .again = true, .fingerprint = 40},
                                {.shard = 9, .again = true, .fingerprint = second}};
    gw_verify_put(table, chosen, 2, 2, 0, 9, own, 2);
    gw_verify_put(table, chosen, 2, 2, 1, 9, again, 2);
}

Test(verify, a_difference_is_found_and_who_computed_what) {
    const uint32_t chosen[] = {4, 9};
    int64_t table[GW_VERIFY_TABLE] = {0}, other[GW_VERIFY_TABLE] = {0};
    gw_dispute d;
    uint32_t again;
    fill(table, 90);
    cr_expect_not(gw_verify_find(table, chosen, 2, 2, 1, &d, &again));
    cr_expect_eq(again, 2);
    fill(other, 91);
    cr_assert(gw_verify_find(other, chosen, 2, 2, 0, &d, &again));
    cr_expect_eq(again, 0);
    cr_expect(d.shard == 9 && d.ranks[0] == 0 && d.ranks[1] == 1);
    cr_expect(d.fingerprints[0] == 90 && d.fingerprints[1] == 91);
}

Test(verify, what_several_have_put_into_an_entry_tells_nothing) {
    const uint32_t chosen[] = {4, 9};
    const gw_recheck late = {.shard = 9, .fingerprint = 5};
    int64_t table[GW_VERIFY_TABLE] = {0}, more[GW_VERIFY_TABLE] = {0};
    gw_dispute d;
    uint32_t again;
    fill(table, 91);
    gw_verify_put(more, chosen, 2, 2, 1, 9, &late, 1);
    for (int i = 0; i < GW_VERIFY_TABLE; i++) table[i] += more[i];
    cr_expect_not(gw_verify_find(table, chosen, 2, 2, 1, &d, &again));
}

Test(verify, the_word_of_the_others_counts_first_and_then_who_changes_his_mind) {
    const gw_dispute d = {.shard = 9, .ranks = {0, 2}, .fingerprints = {90, 91}};
    cr_expect_eq(gw_verify_judge(&d, (uint64_t[]){90, 90, 91}, 3), 1);
    cr_expect_eq(gw_verify_judge(&d, (uint64_t[]){90, 91, 91}, 3), 0);
    cr_expect_eq(gw_verify_judge(&d, (uint64_t[]){91, 90, 90, 90}, 4), 1, "whatever they say themselves");
    cr_expect_eq(gw_verify_judge(&d, (uint64_t[]){90, 7, 91}, 3), -1);
    const gw_dispute two = {.shard = 9, .ranks = {1, 0}, .fingerprints = {90, 91}};
    cr_expect_eq(gw_verify_judge(&two, (uint64_t[]){91, 91}, 2), 0, "rank 1 got 90 first");
    cr_expect_eq(gw_verify_judge(&two, (uint64_t[]){90, 90}, 2), 1);
    cr_expect_eq(gw_verify_judge(&two, (uint64_t[]){91, 90}, 2), -1, "both insist");
    cr_expect_eq(gw_verify_judge(&two, (uint64_t[]){90, 91}, 2), -1, "both change it");
}

/* As after a repair: shard 5 is dealt, shard 9 is held by nobody knows whom. */
Test(verify, what_is_held_is_computed_again_by_two_whoever_holds_it) {
    enum { MEMBERS = 5 };
    const uint32_t chosen[] = {5, 9}, positions[] = {0, GW_VERIFY_HELD},
                   cuts[MEMBERS + 1] = {0, 1, 1, 1, 1, 1};
    uint32_t again5 = 0, again9 = 0, last = 0;
    gw_verify_part part;
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        gw_verify_divide(chosen, positions, 2, cuts, MEMBERS, rank, 3, NULL, 0, &part);
        cr_expect_eq(part.first_count, rank == 0);
        again5 += gw_verify_is_chosen(part.again, part.again_count, 5);
        bool has9 = gw_verify_is_chosen(part.again, part.again_count, 9);
        again9 += has9;
        if (has9) last = rank;
    }
    cr_expect_eq(again5, 1);
    cr_expect_eq(again9, 2);
    const gw_recheck known = {.shard = 9, .again = true, .fingerprint = 1};
    gw_verify_divide(chosen, positions, 2, cuts, MEMBERS, last, 3, &known, 1, &part);
    cr_expect_not(gw_verify_is_chosen(part.again, part.again_count, 9), "it has computed it already");
}

/* Whichever member holds it, and whichever candidate was wrong. */
Test(verify, a_held_shard_that_was_wrong_is_found_whoever_holds_it) {
    enum { MEMBERS = 3 };
    const uint32_t chosen[] = {9}, positions[] = {GW_VERIFY_HELD}, cuts[MEMBERS + 1] = {0};
    for (uint32_t owner = 0; owner < MEMBERS; owner++) {
        int64_t sum[GW_VERIFY_TABLE] = {0};
        const gw_recheck own = {.shard = 9, .fingerprint = 91},
                         right = {.shard = 9, .again = true, .fingerprint = 90};
        for (uint32_t rank = 0; rank < MEMBERS; rank++) {
            int64_t table[GW_VERIFY_TABLE] = {0};
            gw_verify_part part;
            gw_verify_divide(chosen, positions, 1, cuts, MEMBERS, rank, 4, &own, rank == owner, &part);
            if (rank == owner) gw_verify_put(table, chosen, 1, MEMBERS, rank, 4, &own, 1);
            if (part.again_count > 0) gw_verify_put(table, chosen, 1, MEMBERS, rank, 4, &right, 1);
            for (int i = 0; i < GW_VERIFY_TABLE; i++) sum[i] += table[i];
        }
        gw_dispute d;
        uint32_t again;
        cr_assert(gw_verify_find(sum, chosen, 1, MEMBERS, 0, &d, &again), "held by %u", owner);
        cr_expect(d.ranks[0] == owner && d.ranks[1] != owner && d.fingerprints[0] == 91);
    }
}
