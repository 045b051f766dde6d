/* What every kind of path must do. A suite runs all of it for its own kind:
 *
 *    #define TEST(name) Test(conformance_shm, name) { conform_##name(GW_FABRIC_SHM, false); }
 *    CONFORMANCE_LIST(TEST) */
#ifndef GODWIT_TESTS_NET_CONFORMANCE_CONFORMANCE_H
#define GODWIT_TESTS_NET_CONFORMANCE_CONFORMANCE_H

#include "tests/net/data_rig.h"

#define CONFORMANCE_LIST(X)                                                                                  \
    X(small_operations)                                                                                      \
    X(out_of_bounds_misaligned_and_foreign_regions_are_denied)                                               \
    X(other_views_and_strangers_are_fenced_off)                                                              \
    X(nothing_of_the_old_view_happens_once_the_fence_has_moved)                                              \
    X(seven_thieves_and_the_owner_claim_every_integer_once)                                                  \
    X(a_large_read_beside_words)                                                                             \
    X(a_large_read_is_fenced_in_the_middle)                                                                  \
    X(fetches_by_name)                                                                                       \
    X(without_a_link_nothing_is_sent)                                                                        \
    X(abandoned_operations_complete_at_once)                                                                 \
    X(spinning_serves_alike)                                                                                 \
    X(integers_among_1_to_7)                                                                                 \
    X(floats_among_1_to_7)                                                                                   \
    X(integers_on_three_rails)                                                                               \
    X(nothing_to_sum_is_a_barrier)                                                                           \
    X(buckets_are_queued_and_end_in_order)                                                                   \
    X(aborting_what_others_have_not_entered)                                                                 \
    X(aborting_in_the_middle)                                                                                \
    X(aborting_small_sums)                                                                                   \
    X(a_member_that_dies_fails_the_sum_and_the_rest_go_on)                                                   \
    X(chaos_of_links_and_aborts)                                                                             \
    X(fences_that_move_under_thieves)                                                                        \
    X(an_answer_is_visible_to_its_owner)

#define CONFORMANCE_DECLARE(name) void conform_##name(uint32_t kinds, bool sealed);
/* `kinds` is as in rig_open_over. */
CONFORMANCE_LIST(CONFORMANCE_DECLARE)

#endif
