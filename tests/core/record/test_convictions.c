/* Who was convicted: one a peer, whatever the order in which it is heard. */
#include "core/record/convictions.h"

#include <criterion/criterion.h>

static bool add(gw_convictions *convictions, uint32_t peer, uint64_t epoch, uint64_t step) {
    const gw_conviction one = {
        .id = {{(uint8_t)peer, (uint8_t)(peer >> 8)}}, .epoch = epoch, .step = step, .boot = epoch + 1};
    return gw_convictions_add(convictions, &one);
}

static const gw_conviction *of(const gw_convictions *convictions, uint32_t peer) {
    return gw_convictions_of(convictions, &(gw_peer_id){{(uint8_t)peer, (uint8_t)(peer >> 8)}});
}

Test(convictions, a_peer_has_one_the_latest_from_the_lowest_step_on) {
    gw_convictions c = {0};
    cr_assert(add(&c, 1, 5, 20));
    cr_assert(!add(&c, 1, 5, 20));
    cr_assert(!add(&c, 1, 4, 30), "older, and of a later step");
    cr_assert(add(&c, 1, 7, 40));
    cr_assert(add(&c, 1, 6, 10));
    cr_assert(add(&c, 2, 1, 1));
    cr_assert_eq(c.count, 2);
    cr_assert(of(&c, 1)->epoch == 7 && of(&c, 1)->step == 10 && of(&c, 1)->boot == 8);
    cr_assert(gw_convictions_drop(&c, &(gw_peer_id){{1}}));
    cr_assert(!gw_convictions_drop(&c, &(gw_peer_id){{1}}));
    cr_assert(of(&c, 1) == NULL && of(&c, 2) != NULL);
}

Test(convictions, where_there_are_too_many_the_earliest_are_forgotten_whatever_the_order) {
    for (int backwards = 0; backwards < 2; backwards++) {
        gw_convictions c = {0};
        for (uint32_t i = 0; i < GW_MAX_CONVICTIONS + 20; i++) {
            uint32_t peer = backwards ? GW_MAX_CONVICTIONS + 19 - i : i;
            add(&c, peer, 100 + peer / 2, peer);
        }
        cr_assert_eq(c.count, GW_MAX_CONVICTIONS);
        for (uint32_t i = 0; i < GW_MAX_CONVICTIONS + 20; i++)
            cr_expect_eq(of(&c, i) != NULL, i >= 20, "%u, backwards: %d", i, backwards);
    }
}

Test(convictions, the_wire_carries_as_many_as_there_may_be_and_one_a_peer) {
    gw_convictions c = {0}, back;
    for (uint32_t i = 0; i < GW_MAX_CONVICTIONS; i++) add(&c, i, i + 1, i);
    static uint8_t bytes[4 + (GW_MAX_CONVICTIONS + 1) * GW_CONVICTION_BYTES];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_convictions_put(&w, &c);
    cr_assert(!w.failed && w.length == sizeof bytes - GW_CONVICTION_BYTES);
    gw_reader r = gw_reader_on(bytes, w.length);
    gw_convictions_get(&r, &back);
    cr_assert(gw_reader_done(&r) && back.count == c.count);
    cr_assert(!gw_convictions_unite(&back, &c));
    c.list[1].id = c.list[0].id; /* no set has it */
    w = gw_writer_on(bytes, sizeof bytes);
    gw_convictions_put(&w, &c);
    r = gw_reader_on(bytes, w.length);
    gw_convictions_get(&r, &back);
    cr_assert(r.failed, "two of one peer");
    bytes[1] = 1, bytes[0] = 1; /* 257, little-endian */
    r = gw_reader_on(bytes, sizeof bytes);
    gw_convictions_get(&r, &back);
    cr_assert(r.failed, "too many");
}
