#include "core/rng.h"
#include "core/shard/deal.h"
#include "core/shard/range.h"

#include <criterion/criterion.h>

Test(range, word_keeps_its_three_numbers) {
    gw_word word = {.tag = 0xABCDEF, .next = 12345, .end = (1 << 20) - 1};
    uint64_t bits = gw_word_pack(word);
    cr_assert_eq(bits, 0xABCDEF03039FFFFFu);
    gw_word back = gw_word_unpack(bits);
    cr_assert_eq(back.tag, word.tag);
    cr_assert_eq(back.next, word.next);
    cr_assert_eq(back.end, word.end);
}

Test(range, tags_of_neighbouring_deals_differ_and_are_never_zero) {
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        for (uint64_t step = 0; step < 5000; step++) {
            cr_assert_neq(gw_word_tag(epoch, step), 0);
            cr_assert_neq(gw_word_tag(epoch, step), gw_word_tag(epoch, step + 1));
            if (epoch != 0 || step % 4096 != 4095)
                cr_assert_neq(gw_word_tag(epoch, step), gw_word_tag(epoch + 1, step));
        }
    }
}

/* Owner and thieves in any order: every position is claimed exactly once. */
Test(range, taking_and_splitting_claim_each_position_once) {
    gw_rng rng = gw_rng_seeded(3);
    for (int run = 0; run < 200; run++) {
        enum { POSITIONS = 97 };
        int claimed[POSITIONS] = {0};
        gw_word word = {.tag = 1, .next = 0, .end = POSITIONS};
        uint32_t first, count, end;
        gw_word rest;
        while (gw_word_left(word) > 0) {
            if (gw_rng_below(&rng, 2) == 0) {
                cr_assert(gw_word_take(&word, 1 + (uint32_t)gw_rng_below(&rng, 4), &first, &count));
                for (uint32_t i = 0; i < count; i++) claimed[first + i]++;
            } else {
                cr_assert(
                    gw_word_split(word, gw_rng_below(&rng, 5), gw_rng_below(&rng, 5), &rest, &first, &end));
                for (uint32_t i = first; i < end; i++) claimed[i]++;
                word = rest;
            }
        }
        for (int i = 0; i < POSITIONS; i++) cr_assert_eq(claimed[i], 1);
        cr_assert(!gw_word_take(&word, 1, &first, &count));
        cr_assert(!gw_word_split(word, 1, 1, &rest, &first, &end));
    }
}

Test(range, equal_speeds_steal_half_and_a_slow_victim_loses_more) {
    gw_word word = {.tag = 1, .next = 10, .end = 30}, rest;
    uint32_t first, end;
    gw_word_split(word, 7, 7, &rest, &first, &end);
    cr_assert_eq(first, 20);
    gw_word_split(word, 3000, 1000, &rest, &first, &end);
    cr_assert_eq(first, 15);
    gw_word_split(word, UINT64_MAX, 1, &rest, &first, &end);
    cr_assert_eq(first, 10);
    gw_word_split(word, 1, UINT64_MAX, &rest, &first, &end);
    cr_assert_eq(first, 29);
}

Test(range, taking_none_takes_none) {
    gw_word word = {.tag = 1, .next = 10, .end = 30};
    uint32_t first, count;
    cr_assert(!gw_word_take(&word, 0, &first, &count));
    cr_assert_eq(word.next, 10);
}

Test(deal, is_contiguous_complete_and_proportional) {
    const uint64_t speeds[] = {4000, 1000, 4000, 4000};
    uint32_t cuts[5];
    gw_deal_cut(130, speeds, 4, cuts);
    const uint32_t expected[] = {0, 40, 50, 90, 130};
    cr_assert_arr_eq(cuts, expected, sizeof expected);
}

/* 9.4 shards for the slow one: the tenth would end at 833, all others are through at 755. */
Test(deal, spares_the_slow) {
    const uint64_t speeds[] = {49, 49, 49, 12};
    uint32_t cuts[5];
    gw_deal_cut(120, speeds, 4, cuts);
    const uint32_t expected[] = {0, 37, 74, 111, 120};
    cr_assert_arr_eq(cuts, expected, sizeof expected);
}

Test(deal, bears_extreme_speeds_and_few_positions) {
    const uint64_t speeds[] = {UINT64_MAX, 1, UINT64_MAX, 1};
    uint32_t cuts[5];
    gw_deal_cut((1 << 20) - 1, speeds, 4, cuts);
    cr_assert_eq(cuts[4], (1 << 20) - 1);
    cr_assert_eq(cuts[1], 1 << 19, "of equals the first takes what is left");
    gw_deal_cut(0, speeds, 4, cuts);
    cr_assert_eq(cuts[4], 0);
    const uint64_t unknown[] = {3000, 0, 1000};
    gw_deal_cut(60, unknown, 3, cuts);
    cr_assert_eq(cuts[1], 30);
    cr_assert_eq(cuts[2], 50, "a newcomer is taken for the mean");
    const uint64_t equal[] = {5, 5, 5};
    gw_deal_cut(2, equal, 3, cuts);
    cr_assert_eq(cuts[3], 2);
}
