/* Philox against the authors' known answers (Random123's kat_vectors), and the small generator's bounds. */
#include "core/rng.h"

#include <criterion/criterion.h>

Test(philox, known_answers) {
    gw_philox zero = gw_philox_at(0, 0, 0);
    const uint32_t expect_zero[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    cr_assert_arr_eq(zero.words, expect_zero, sizeof expect_zero);
    gw_philox ones = gw_philox_at(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    const uint32_t expect_ones[] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    cr_assert_arr_eq(ones.words, expect_ones, sizeof expect_ones);
    gw_philox pi = gw_philox_at(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88);
    const uint32_t expect_pi[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    cr_assert_arr_eq(pi.words, expect_pi, sizeof expect_pi);
}

Test(rng, below_stays_below_and_reaches_every_value) {
    gw_rng rng = gw_rng_seeded(7);
    unsigned seen = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = gw_rng_below(&rng, 5);
        cr_assert_lt(value, 5);
        seen |= 1u << value;
    }
    cr_assert_eq(seen, 31);
}

Test(rng, equal_seeds_give_equal_streams) {
    gw_rng a = gw_rng_seeded(42), b = gw_rng_seeded(42), c = gw_rng_seeded(43);
    uint64_t first = gw_rng_next(&a);
    cr_assert_eq(first, gw_rng_next(&b));
    cr_assert_neq(first, gw_rng_next(&c));
}

/* Nearly half of all draws are thrown away at this bound: a remainder instead would favour the low third. */
Test(rng, below_favours_no_value_at_a_bound_that_divides_nothing) {
    const uint64_t bound = (UINT64_C(1) << 63) + 1;
    gw_rng rng = gw_rng_seeded(3);
    int upper = 0;
    for (int i = 0; i < 3000; i++) {
        uint64_t value = gw_rng_below(&rng, bound);
        cr_assert_lt(value, bound);
        upper += value >= bound / 2;
    }
    cr_assert(upper > 1300 && upper < 1700, "%d", upper);
}
