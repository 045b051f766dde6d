/* Majority mode never forks: an exhaustive search of small sizes (tools/sim/model/forks.h) finds no fork, and
 * the same search finds one as soon as any one rule is taken out. test_forks_large.c has sizes that take
 * minutes, and ./build.sh coverage has 3x4 (97 million states, 2.7 GB). */
#include "tests/sim/never_forks.h"

#include <criterion/criterion.h>

Test(forks, three_peers_never_fork) {
    never_forks((gw_forks_size){3, 3, 0, 1}, 680957);
}

Test(forks, four_peers_of_which_one_restarts_never_fork) {
    never_forks((gw_forks_size){4, 2, 1, 1}, 1765945);
}

Test(forks, five_peers_never_fork) {
    never_forks((gw_forks_size){5, 2, 0, 1}, 977116);
}

static bool forks(gw_forks_size size, gw_forks_without without) {
    gw_forks_result result;
    cr_assert(gw_forks_explore(&size, without, FORKS_MOST_STATES, &result));
    cr_assert(result.fork || !result.full);
    return result.fork;
}

/* Each rule is taken out at the smallest size at which its absence shows. */
Test(forks, without_any_one_rule_the_same_search_finds_a_fork) {
    for (int rule = GW_FORKS_WITH_ALL + 1; rule < GW_FORKS_RULES; rule++) {
        bool restarts = rule == GW_FORKS_WITHOUT_LIVES || rule == GW_FORKS_WITHOUT_DURABLE;
        bool shares = rule == GW_FORKS_WITHOUT_ONCE;
        gw_forks_size size = {3, restarts ? 2 : 3, restarts, shares};
        cr_assert(forks(size, (gw_forks_without)rule), "without '%s'",
                  gw_forks_rule_name((gw_forks_without)rule));
    }
}

/* If each proposal has an epoch of its own, no peer is asked twice for a vote in one; and without restarts
 * nothing is forgotten. */
Test(forks, a_rule_is_of_use_where_something_can_break_it) {
    cr_assert(!forks((gw_forks_size){3, 3, 0, 0}, GW_FORKS_WITHOUT_ONCE));
    cr_assert(forks((gw_forks_size){3, 2, 1, 0}, GW_FORKS_WITHOUT_DURABLE));
    cr_assert(!forks((gw_forks_size){3, 2, 1, 0}, GW_FORKS_WITH_ALL));
    cr_assert(!forks((gw_forks_size){3, 3, 0, 0}, GW_FORKS_WITHOUT_DURABLE));
}

/* A leader that lives in a view after it has reported that it gave it up goes on from there with a third
 * one. */
Test(forks, without_the_word_of_a_leader_it_takes_three_proposals) {
    cr_assert(forks((gw_forks_size){3, 3, 0, 0}, GW_FORKS_WITHOUT_GIVEN_UP));
    cr_assert(!forks((gw_forks_size){3, 3, 0, 0}, GW_FORKS_WITH_ALL));
    cr_assert(!forks((gw_forks_size){4, 2, 1, 0}, GW_FORKS_WITHOUT_GIVEN_UP));
}

/* Two proposals are enough to part the two halves of four peers. */
Test(forks, without_the_tie_break_four_peers_fork_at_once) {
    cr_assert(forks((gw_forks_size){4, 2, 0, 0}, GW_FORKS_WITHOUT_LOWEST));
    cr_assert(!forks((gw_forks_size){4, 2, 0, 0}, GW_FORKS_WITH_ALL));
}

Test(forks, sizes_beyond_the_search_are_refused) {
    gw_forks_result result;
    const gw_forks_size most = {GW_FORKS_PEERS, GW_FORKS_ATTEMPTS, 0, 0},
                        beyond = {GW_FORKS_PEERS + 1, 1, 0, 0}, small = {3, 3, 0, 0}, shared = {3, 3, 0, 3};
    cr_assert(!gw_forks_explore(&shared, GW_FORKS_WITH_ALL, FORKS_MOST_STATES, &result),
              "the first has none before");
    cr_assert(!gw_forks_explore(&most, GW_FORKS_WITH_ALL, FORKS_MOST_STATES, &result));
    cr_assert(!gw_forks_explore(&beyond, GW_FORKS_WITH_ALL, FORKS_MOST_STATES, &result));
    cr_assert(gw_forks_explore(&small, GW_FORKS_WITH_ALL, 1000, &result) && result.full);
}
