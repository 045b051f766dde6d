/* Sums that are shared among several rails: how many are chosen, and that nothing depends on it. */
#include "net/collective/lanes.h"

#include "net/collective/part.h"
#include "tests/net/vectors.h"

#include <criterion/criterion.h>

/* The choice. */

/* Lets sums take what `ns` says of a number, until `best` has changed or for `sums` of them. Returns how many it took. */
static uint32_t sum_up(gw_lanes *lanes, const double *ns, uint32_t sums) {
    uint32_t i = 0;
    while (i < sums) {
        uint32_t used = gw_lanes_choose(lanes);
        cr_assert(used >= 1 && used <= lanes->most);
        i++;
        if (gw_lanes_learn(lanes, used, 1000, (uint64_t)(ns[used] * 1000))) break;
    }
    return i;
}

Test(lanes, more_are_used_while_they_are_faster) {
    static const double ns[] = {0, 8, 4.4, 3, 2.6};
    gw_lanes lanes = gw_lanes_begin(4);
    cr_assert_eq(gw_lanes_choose(&lanes), 1);
    sum_up(&lanes, ns, 100);
    cr_assert_eq(lanes.best, 2);
    sum_up(&lanes, ns, 100);
    cr_assert_eq(lanes.best, 4);
    cr_assert_eq(sum_up(&lanes, ns, 5000), 5000, "it stays");
}

Test(lanes, more_that_are_hardly_faster_are_not_used_and_rarely_tried) {
    static const double ns[] = {0, 8, 7.8, 7.8, 7.8};
    gw_lanes lanes = gw_lanes_begin(4);
    uint32_t tried = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t used = gw_lanes_choose(&lanes);
        tried += used != 1;
        cr_assert_not(gw_lanes_learn(&lanes, used, 1000, (uint64_t)(ns[used] * 1000)));
    }
    cr_assert(tried > 3 * GW_LANES_SUMS && tried < 200, "%u", tried);
}

Test(lanes, fewer_are_used_when_cores_are_busy_again) {
    static const double idle[] = {0, 8, 4, 3, 2}, busy[] = {0, 8, 9, 10, 11};
    gw_lanes lanes = gw_lanes_begin(4);
    while (lanes.best < 4) sum_up(&lanes, idle, 100);
    for (uint32_t i = 0; i < 10 && lanes.best > 1; i++) sum_up(&lanes, busy, 5000);
    cr_assert_eq(lanes.best, 1);
}

Test(lanes, a_number_that_others_do_not_have_is_given_up) {
    static const double ns[] = {0, 8, 4, 3, 2};
    gw_lanes lanes = gw_lanes_begin(4);
    while (lanes.best < 4) sum_up(&lanes, ns, 100);
    for (uint32_t i = 0; i < 100; i++) gw_lanes_learn(&lanes, 1, 1000, 8000);
    cr_assert_eq(lanes.best, 1);
}

Test(lanes, one_rail_is_never_compared) {
    static const double ns[] = {0, 8};
    gw_lanes lanes = gw_lanes_begin(1);
    cr_assert_eq(sum_up(&lanes, ns, 5000), 5000);
}

/* Sums. */

enum { LARGE = GW_PART_CACHED + 1, PATIENCE = 500 };

typedef struct table {
    rig *rig;
    vector v[3];
    uint64_t epoch;
} table;

static table sit_down(const uint32_t *extra, uint32_t members, gw_sum_type type, uint64_t elements) {
    table t = {.rig = rig_open_growing(extra, members, true)};
    for (uint32_t m = 0; m < members; m++) t.v[m] = vector_make(m, type, elements);
    for (uint32_t a = 0; a < members; a++)
        for (uint32_t b = 0; b < a; b++) rig_link(t.rig, a, b);
    return t;
}

static void get_up(table *t) {
    for (uint32_t m = 0; m < t->rig->count; m++) vector_free(&t->v[m]);
    rig_close(t->rig);
}

/* Makes a sum, which has to be right, and returns on how many rails. */
static uint32_t sum(table *t, gw_sum_type type) {
    uint32_t n = t->rig->count, rails = 0;
    t->epoch++;
    for (uint32_t m = 0; m < n; m++) vector_start(t->rig, m, n, &t->v[m], type, t->epoch, 0);
    for (uint32_t m = 0; m < n; m++) {
        gw_collective_result result = vector_expect(t->rig, m, GW_COLLECTIVE_OK, 1000 * t->epoch);
        cr_assert(m == 0 || result.rails == rails, "all use the same number");
        rails = result.rails;
    }
    return rails;
}

/* Makes sums until one runs on so many rails, and checks that one. */
static void sum_until(table *t, uint32_t rails) {
    for (uint32_t i = 0; sum(t, GW_SUM_I64) != rails; i++) cr_assert_lt(i, PATIENCE);
    for (uint32_t m = 0; m < t->rig->count; m++) vector_check(&t->v[m], t->rig->count, GW_SUM_I64);
}

static void expect_one_rail(table *t, gw_sum_type type) {
    for (uint32_t i = 0; i < 4 * GW_LANES_SUMS; i++) cr_assert_eq(sum(t, type), 1);
}

Test(lanes, large_sums_are_tried_on_extra_rails_and_are_the_same) {
    static const uint32_t extra[] = {1, 3, 2};
    table t = sit_down(extra, 3, GW_SUM_I64, LARGE);
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t b = 0; b < a; b++) rig_add_rail(t.rig, a, b, 0);
    sum_until(&t, 2);
    cr_assert_eq(rig_downs(&t.rig->peers[0]), 0);
    get_up(&t);
}

Test(lanes, where_one_link_has_none_there_is_one_rail) {
    static const uint32_t extra[] = {1, 1, 1};
    table t = sit_down(extra, 3, GW_SUM_I64, LARGE);
    rig_add_rail(t.rig, 1, 0, 0);
    rig_add_rail(t.rig, 2, 0, 0);
    expect_one_rail(&t, GW_SUM_I64);
    get_up(&t);
}

Test(lanes, a_peer_without_a_thread_for_a_stream_closes_it_and_the_link_stays) {
    static const uint32_t extra[] = {3, 0};
    table t = sit_down(extra, 2, GW_SUM_I64, LARGE);
    for (uint32_t i = 0; i < 3; i++) rig_add_rail(t.rig, 1, 0, i);
    expect_one_rail(&t, GW_SUM_I64);
    for (uint32_t i = 0; i < 2; i++) cr_assert_eq(rig_downs(&t.rig->peers[i]), 0);
    get_up(&t);
}

Test(lanes, a_stream_that_comes_before_its_link_waits_and_one_of_an_older_link_is_closed) {
    static const uint32_t extra[] = {1, 1};
    table t = {.rig = rig_open_growing(extra, 2, true)};
    for (uint32_t m = 0; m < 2; m++) t.v[m] = vector_make(m, GW_SUM_I64, LARGE);
    t.rig->attempt_of[0][1] = t.rig->attempts + 1;
    rig_add_rail(t.rig, 0, 1, 0);
    rig_link(t.rig, 0, 1);
    sum_until(&t, 2);
    rig_link(t.rig, 0, 1); /* in place of the first one */
    t.rig->attempt_of[0][1]--;
    rig_add_rail(t.rig, 0, 1, 0);
    expect_one_rail(&t, GW_SUM_I64);
    get_up(&t);
}

Test(lanes, small_sums_and_floats_have_one) {
    static const uint32_t extra[] = {1, 1};
    table t = sit_down(extra, 2, GW_SUM_I64, GW_PART_CACHED);
    rig_add_rail(t.rig, 1, 0, 0);
    expect_one_rail(&t, GW_SUM_I64);
    get_up(&t);
    t = sit_down(extra, 2, GW_SUM_F32, LARGE);
    rig_add_rail(t.rig, 1, 0, 0);
    expect_one_rail(&t, GW_SUM_F32);
    get_up(&t);
}
