/* Sums of vectors and the checksums beside them. */
#include "net/reduce.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST = 200 };

static const gw_sum_type types[] = {GW_SUM_I64, GW_SUM_F32};

/* Elements that neither compiler nor sum can make up: floats are small integers. */
static void fill(gw_sum_type type, void *at, uint64_t seed) {
    for (uint64_t i = 0; i < MOST; i++) {
        if (type == GW_SUM_I64)
            ((uint64_t *)at)[i] = gw_mix64(seed * MOST + i);
        else
            ((float *)at)[i] = (float)(gw_mix64(seed * MOST + i) % 4096) - 2048.0f;
    }
}

static uint64_t checksum_of(gw_sum_type type, const void *elements, uint64_t count) {
    gw_checksum checksum = gw_checksum_start(type);
    gw_checksum_add(&checksum, elements, count);
    return gw_checksum_end(&checksum);
}

static bool is_sum(gw_sum_type type, const void *sum, const void *a, const void *b, uint64_t i) {
    if (type == GW_SUM_I64)
        return ((const uint64_t *)sum)[i] == ((const uint64_t *)a)[i] + ((const uint64_t *)b)[i];
    float expected = ((const float *)a)[i] + ((const float *)b)[i];
    return memcmp((const float *)sum + i, &expected, sizeof expected) == 0;
}

/* Peers may have other processors: the values are part of the protocol. */
Test(reduce, checksums_are_these) {
    uint64_t elements[MOST];
    fill(GW_SUM_I64, elements, 1);
    cr_expect_eq(checksum_of(GW_SUM_I64, elements, 0), UINT64_C(0x297de9df42ffcf3b));
    cr_expect_eq(checksum_of(GW_SUM_I64, elements, 1), UINT64_C(0xd26d2bd87b015466));
    cr_expect_eq(checksum_of(GW_SUM_I64, elements, MOST), UINT64_C(0x389c6af646c8063a));
    fill(GW_SUM_F32, elements, 1);
    cr_expect_eq(checksum_of(GW_SUM_F32, elements, MOST), UINT64_C(0xc34d2d829325366e));
}

/* However many elements are given at a time, and whether they lie where theirs are or apart. */
Test(reduce, sums_and_checksums_do_not_depend_on_how_they_are_cut) {
    uint64_t in[MOST], theirs[MOST], out[MOST];
    for (int t = 0; t < 2; t++) {
        uint64_t size = gw_sum_bytes(types[t]);
        fill(types[t], in, 1);
        fill(types[t], theirs, 2);
        for (uint64_t step = 1; step <= MOST; step += step < 20 ? 1 : 30) {
            gw_checksum before = gw_checksum_start(types[t]), after = before;
            memset(out, 0, sizeof out);
            if (step % 2 == 0) memcpy(out, theirs, sizeof out);
            for (uint64_t at = 0; at < MOST; at += step) {
                uint64_t count = at + step < MOST ? step : MOST - at;
                uint8_t *to = (uint8_t *)out + at * size;
                const uint8_t *more = step % 2 == 0 ? to : (uint8_t *)theirs + at * size;
                gw_sum_into(to, (uint8_t *)in + at * size, more, count, &before, &after);
            }
            for (uint64_t i = 0; i < MOST; i++)
                cr_assert(is_sum(types[t], out, theirs, in, i), "type %d, %lu at a time: element %lu", t,
                          step, i);
            cr_assert_eq(gw_checksum_end(&before), checksum_of(types[t], theirs, MOST), "type %d, %lu", t,
                         step);
            cr_assert_eq(gw_checksum_end(&after), checksum_of(types[t], out, MOST), "type %d, %lu", t, step);
        }
    }
}

Test(reduce, every_bit_and_the_order_of_elements_count) {
    uint64_t elements[MOST];
    for (int t = 0; t < 2; t++) {
        uint64_t size = gw_sum_bytes(types[t]);
        fill(types[t], elements, 3);
        uint64_t right = checksum_of(types[t], elements, MOST);
        for (uint64_t bit = 0; bit < MOST * size * 8; bit++) {
            ((uint8_t *)elements)[bit / 8] ^= (uint8_t)(1 << bit % 8);
            cr_assert_neq(checksum_of(types[t], elements, MOST), right, "type %d, bit %lu", t, bit);
            ((uint8_t *)elements)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        uint8_t *first = (uint8_t *)elements, *other = first + 64, kept[8];
        memcpy(kept, first, size);
        memmove(first, other, size);
        memcpy(other, kept, size);
        cr_assert_neq(checksum_of(types[t], elements, MOST), right, "type %d: two of a column", t);
    }
}

Test(reduce, integers_wrap) {
    const uint64_t in[2] = {UINT64_MAX, UINT64_C(1) << 63}, theirs[2] = {2, UINT64_C(1) << 63};
    uint64_t out[2];
    gw_checksum before = gw_checksum_start(GW_SUM_I64), after = before;
    gw_sum_into(out, in, theirs, 2, &before, &after);
    cr_assert(out[0] == 1 && out[1] == 0);
}
