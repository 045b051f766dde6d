#include "core/rng.h"
#include "core/shard/deal.h"
#include "core/shard/range.h"

#include <criterion/criterion.h>
#include <math.h>

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

/* Each of three can do two of five shards while the flock waits: the dearest gets one. */
Test(deal, gives_the_cheap_what_they_can_do_while_the_flock_waits) {
    const uint64_t speeds[] = {1000, 1000, 1000}, joules[] = {30, 10, 20};
    uint32_t cuts[4];
    cr_assert_eq(gw_deal_cut_cheaply(5, speeds, joules, 3, 0, cuts), UINT64_C(2000000001));
    const uint32_t expected[] = {0, 1, 3, 5};
    cr_assert_arr_eq(cuts, expected, sizeof expected);
    cr_assert_neq(gw_deal_cut_cheaply(4, speeds, joules, 3, 0, cuts), 0);
    const uint32_t rests[] = {0, 0, 2, 4};
    cr_assert_arr_eq(cuts, rests, sizeof rests);
}

/* What is measured of equal speeds differs a little, and each of them can do two all the same. */
Test(deal, by_energy_bears_speeds_that_are_not_measured_exactly) {
    const uint64_t speeds[] = {49807, 49760, 48772, 49342}, joules[] = {9947190, 9269547, 36747356, 10029786};
    uint32_t cuts[5];
    gw_deal_cut_cheaply(6, speeds, joules, 4, 0, cuts);
    const uint32_t expected[] = {0, 2, 4, 4, 6};
    cr_assert_arr_eq(cuts, expected, sizeof expected);
}

Test(deal, lets_a_step_take_longer_by_no_more_than_is_allowed) {
    const uint64_t speeds[] = {1000, 1000}, joules[] = {30, 10};
    uint32_t cuts[3];
    gw_deal_cut_cheaply(100, speeds, joules, 2, 100, cuts);
    cr_assert_eq(cuts[1], 45);
    gw_deal_cut_cheaply(100, speeds, joules, 2, 0, cuts);
    cr_assert_eq(cuts[1], 50, "nobody waits, so that nothing is to be gained");
}

Test(deal, without_costs_is_by_speed_and_costs_that_hardly_differ_count_as_equal) {
    const uint64_t speeds[] = {1000, 2000, 1000}, none[] = {0, 0, 0}, alike[] = {1000, 1001, 1002};
    uint32_t cuts[4], usual[4];
    gw_deal_cut(10, speeds, 3, usual);
    cr_assert_eq(gw_deal_cut_cheaply(10, speeds, none, 3, 100, cuts), 0);
    cr_assert_arr_eq(cuts, usual, sizeof usual);
    gw_deal_cut_cheaply(10, speeds, alike, 3, 100, cuts);
    cr_assert_arr_eq(cuts, usual, sizeof usual);
    cr_assert(!gw_deal_is_dearer(1002, 1000) && gw_deal_is_dearer(1200, 1000) && !gw_deal_is_dearer(0, 1) &&
              !gw_deal_is_dearer(1, 0));
}

/* The time in which the last member is done, in units that both deals share. */
static double time_of(const uint32_t *cuts, const uint64_t *speeds, uint32_t count) {
    double most = 0;
    for (uint32_t i = 0; i < count; i++) {
        double time = (double)(cuts[i + 1] - cuts[i]) / (double)speeds[i];
        if (time > most) most = time;
    }
    return most;
}

static double cost_of(const uint32_t *cuts, const uint64_t *joules, uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += (double)(cuts[i + 1] - cuts[i]) * (double)joules[i];
    return sum;
}

Test(deal, costs_no_more_and_takes_no_longer_than_allowed_whatever_is_measured) {
    gw_rng rng = gw_rng_seeded(7);
    for (int round = 0; round < 20000; round++) {
        uint32_t count = 1 + (uint32_t)gw_rng_below(&rng, 12), positions = (uint32_t)gw_rng_below(&rng, 300);
        uint32_t slack = (uint32_t)gw_rng_below(&rng, 3) * 70, usual[13], cuts[13];
        uint64_t speeds[12], joules[12];
        for (uint32_t i = 0; i < count; i++) {
            speeds[i] = 1 + gw_rng_below(&rng, UINT64_C(1) << gw_rng_below(&rng, 40));
            /* powers of two, as what counts as equal may cost a little more */
            joules[i] = UINT64_C(1) << gw_rng_below(&rng, 40);
        }
        gw_deal_cut(positions, speeds, count, usual);
        uint64_t due_ns = gw_deal_cut_cheaply(positions, speeds, joules, count, slack, cuts);
        cr_assert_eq(cuts[count], positions);
        double time = time_of(cuts, speeds, count),
               most = time_of(usual, speeds, count) * (1 + slack / 1000.0);
        double eighth = 0; /* of a shard of the slowest that has any */
        for (uint32_t i = 0; i < count; i++)
            if (cuts[i + 1] > cuts[i] && 0.125 / (double)speeds[i] > eighth)
                eighth = 0.125 / (double)speeds[i];
        cr_assert(time <= (most + eighth) * (1 + 1e-12), "round %d", round);
        cr_assert(cost_of(cuts, joules, count) <= cost_of(usual, joules, count) * (1 + 1e-12), "round %d",
                  round);
        cr_assert(positions == 0 || fabs((double)due_ns - most * 1e12) <= 2 + most * 1e3, "round %d", round);
    }
}

Test(deal, by_energy_bears_extremes) {
    const uint64_t speeds[] = {UINT64_MAX, 1, 0, 1}, joules[] = {UINT64_MAX, 1, 0, 5};
    uint32_t cuts[5];
    cr_assert_neq(gw_deal_cut_cheaply((1 << 20) - 1, speeds, joules, 4, 1000, cuts), 0);
    cr_assert_eq(cuts[4], (1 << 20) - 1);
    cr_assert_eq(gw_deal_cut_cheaply(0, speeds, joules, 4, 0, cuts), 0);
    cr_assert_eq(cuts[4], 0);
}
