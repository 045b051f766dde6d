/* The processors that are dealt to the children of a member. */
#include "tools/godwit/limit/cores.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static cpu_set_t set_of(uint64_t bits) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < 64; i++)
        if ((bits >> i & 1) != 0) CPU_SET(i, &set);
    return set;
}

static uint64_t bits_of(const cpu_set_t *set) {
    uint64_t bits = 0;
    for (size_t i = 0; i < 64; i++) bits |= (uint64_t)(CPU_ISSET(i, set) != 0) << i;
    return bits;
}

static void expect(const gw_cores_share *share, uint64_t bits) {
    cr_expect_eq(bits_of(&share->set), bits, "%llx instead of %llx", (unsigned long long)bits_of(&share->set),
                 (unsigned long long)bits);
}

Test(cores, each_has_as_many_as_it_is_to_have_and_neighbours_if_it_can) {
    cpu_set_t all = set_of(0xff);
    gw_cores_share shares[3] = {{.count = 2}, {.count = 1}, {.count = 5}};
    gw_cores_deal(&all, 0, shares, 3);
    expect(&shares[0], 0x03);
    expect(&shares[1], 0x04);
    expect(&shares[2], 0xf8);
}

Test(cores, one_that_comes_or_goes_moves_nobody_else) {
    cpu_set_t all = set_of(0xff);
    gw_cores_share shares[3] = {{.count = 2}, {.count = 2}, {.count = 2}};
    gw_cores_deal(&all, 0, shares, 3);
    shares[0] = shares[2]; /* the first has ended */
    shares[2] = (gw_cores_share){.count = 3};
    gw_cores_deal(&all, 0, shares, 3);
    expect(&shares[0], 0x30);
    expect(&shares[1], 0x0c);
    expect(&shares[2], 0x43);
}

/* As a map does, which uses what others do not. */
Test(cores, one_that_is_to_have_fewer_gives_the_last_ones_to_others) {
    cpu_set_t all = set_of(0xf0);
    gw_cores_share shares[2] = {{.count = 4}};
    gw_cores_deal(&all, 0, shares, 1);
    expect(&shares[0], 0xf0);
    shares[0].count = 1;
    shares[1] = (gw_cores_share){.count = 3};
    gw_cores_deal(&all, 0, shares, 2);
    expect(&shares[0], 0x10);
    expect(&shares[1], 0xe0);
}

Test(cores, members_of_one_machine_begin_at_different_places) {
    cpu_set_t all = set_of(0x5500); /* processors 8, 10, 12, 14 */
    static const uint64_t expected[] = {0x0500, 0x1400, 0x5000, 0x4100, 0x0500};
    for (uint32_t first = 0; first < 5; first++) {
        gw_cores_share share = {.count = 2};
        gw_cores_deal(&all, first, &share, 1);
        expect(&share, expected[first]);
    }
}

Test(cores, where_there_are_too_few_the_last_ones_use_all) {
    cpu_set_t all = set_of(0x3);
    gw_cores_share shares[3] = {{.count = 1}, {.count = 4}, {.count = 1}};
    gw_cores_deal(&all, 0, shares, 3);
    expect(&shares[0], 0x1);
    expect(&shares[1], 0x2);
    expect(&shares[2], 0x3);
    gw_cores_deal(&all, 0, &shares[2], 1); /* it is alone now */
    expect(&shares[2], 0x1);
}

/* Whatever comes and goes, no processor is dealt twice while there are enough. */
Test(cores, none_has_those_of_another_one) {
    cpu_set_t all = set_of(0xffffff);
    gw_cores_share shares[8];
    uint32_t count = 0;
    srand(7);
    for (int round = 0; round < 2000; round++) {
        if (count > 0 && rand() % 3 == 0) shares[rand() % (int)count] = shares[count - 1], count--;
        if (count < 8) shares[count++] = (gw_cores_share){.count = 1};
        for (uint32_t i = 0; i < count; i++) shares[i].count = 1 + (uint32_t)rand() % 3;
        gw_cores_deal(&all, (uint32_t)rand(), shares, count);
        uint64_t seen = 0;
        for (uint32_t i = 0; i < count; i++) {
            cr_assert_eq(CPU_COUNT(&shares[i].set), (int)shares[i].count);
            cr_assert_eq(seen & bits_of(&shares[i].set), 0);
            seen |= bits_of(&shares[i].set);
        }
    }
}
