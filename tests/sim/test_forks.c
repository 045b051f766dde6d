/* Majority mode never forks, checked exhaustively at small sizes (tools/sim/model/forks.h); and the other way
 * round: with any one rule taken out the same search finds a fork, so it would have found one. A longer
 * search: ./build.sh coverage has 3x4 (97 million states, 2.7 GB). */
#include "tools/sim/model/forks.h"

#include <criterion/criterion.h>
#include <inttypes.h>

enum { MOST_STATES = 30000000 };

/* `least`: a search that visits fewer states than this has lost some of what can happen. */
static void never_forks(gw_forks_size size, uint64_t least) {
    gw_forks_result result;
    cr_assert(gw_forks_explore(&size, GW_FORKS_WITH_ALL, MOST_STATES, &result));
    cr_assert(!result.fork);
    cr_assert(!result.full, "more than %d states", MOST_STATES);
    cr_assert_geq(result.states, least, "only %" PRIu64 " states: the search is broken", result.states);
    cr_log_info("%u peers of which %u restart, %u proposals, %u in another's epoch: %" PRIu64
                " states, %" PRIu64 " steps deep",
                size.peers, size.restarts, size.attempts, size.shared, result.states, result.depth);
}

Test(forks, three_peers_of_which_one_restarts_never_fork) {
    never_forks((gw_forks_size){3, 3, 1, 2}, 19383687);
}

Test(forks, four_peers_of_which_two_restart_never_fork) {
    never_forks((gw_forks_size){4, 2, 2, 1}, 11064059);
}

Test(forks, four_peers_never_fork) {
    never_forks((gw_forks_size){4, 3, 0, 0}, 27847629);
}

Test(forks, five_peers_never_fork) {
    never_forks((gw_forks_size){5, 2, 0, 1}, 977116);
}

static bool forks(gw_forks_size size, gw_forks_without without) {
    gw_forks_result result;
    cr_assert(gw_forks_explore(&size, without, MOST_STATES, &result));
    cr_assert(result.fork || !result.full);
    return result.fork;
}

Test(forks, without_any_one_rule_the_same_search_finds_a_fork) {
    for (int rule = GW_FORKS_WITH_ALL + 1; rule < GW_FORKS_RULES; rule++) {
        bool once = rule == GW_FORKS_WITHOUT_ONCE; /* which shows without a restart, and sooner */
        gw_forks_size size = {3, 3, once ? 0 : 1, once ? 1 : 0};
        cr_assert(forks(size, (gw_forks_without)rule), "without '%s'",
                  gw_forks_rule_name((gw_forks_without)rule));
    }
}

/* Where each proposal has an epoch of its own nobody is asked twice for a vote in one; and where nobody
 * restarts, nothing is forgotten. */
Test(forks, a_rule_is_of_use_where_something_can_break_it) {
    cr_assert(!forks((gw_forks_size){3, 3, 0, 0}, GW_FORKS_WITHOUT_ONCE));
    cr_assert(forks((gw_forks_size){3, 2, 1, 0}, GW_FORKS_WITHOUT_DURABLE));
    cr_assert(!forks((gw_forks_size){3, 2, 1, 0}, GW_FORKS_WITH_ALL));
    cr_assert(!forks((gw_forks_size){3, 3, 0, 0}, GW_FORKS_WITHOUT_DURABLE));
}

/* A leader that lives in a view after it has said that it gave it up goes on from there by a third one. */
Test(forks, without_the_word_of_a_leader_it_takes_three_proposals) {
    cr_assert(forks((gw_forks_size){3, 3, 0, 0}, GW_FORKS_WITHOUT_GIVEN_UP));
    cr_assert(!forks((gw_forks_size){3, 3, 0, 0}, GW_FORKS_WITH_ALL));
    cr_assert(!forks((gw_forks_size){4, 2, 1, 0}, GW_FORKS_WITHOUT_GIVEN_UP));
}

/* Two proposals are enough for two halves of four to go separate ways. */
Test(forks, without_the_tie_break_four_peers_fork_at_once) {
    cr_assert(forks((gw_forks_size){4, 2, 0, 0}, GW_FORKS_WITHOUT_LOWEST));
    cr_assert(!forks((gw_forks_size){4, 2, 0, 0}, GW_FORKS_WITH_ALL));
}

Test(forks, sizes_beyond_the_search_are_refused) {
    gw_forks_result result;
    const gw_forks_size most = {GW_FORKS_PEERS, GW_FORKS_ATTEMPTS, 0, 0},
                        beyond = {GW_FORKS_PEERS + 1, 1, 0, 0}, small = {3, 3, 0, 0}, shared = {3, 3, 0, 3};
    cr_assert(!gw_forks_explore(&shared, GW_FORKS_WITH_ALL, MOST_STATES, &result),
              "the first has none before");
    cr_assert(!gw_forks_explore(&most, GW_FORKS_WITH_ALL, MOST_STATES, &result));
    cr_assert(!gw_forks_explore(&beyond, GW_FORKS_WITH_ALL, MOST_STATES, &result));
    cr_assert(gw_forks_explore(&small, GW_FORKS_WITH_ALL, 1000, &result) && result.full);
}
