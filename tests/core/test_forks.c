/* Majority mode never forks, checked exhaustively at small sizes (tools/sim/forks.h); and the other way
 * round: with any one rule taken out the same search finds a fork, so it would have found one. Longer
 * searches: godwit sim --forks PEERSxPROPOSALS. */
#include "tools/sim/forks.h"

#include <criterion/criterion.h>
#include <inttypes.h>

enum { MOST_STATES = 20000000 };

/* `least`: a search that visits fewer states than this has lost some of what can happen. */
static void never_forks(uint32_t peers, uint32_t attempts, uint64_t least) {
    gw_forks_result result;
    cr_assert(gw_forks_explore(peers, attempts, GW_FORKS_WITH_ALL, MOST_STATES, &result));
    cr_assert(!result.fork);
    cr_assert(!result.full, "more than %d states", MOST_STATES);
    cr_assert_geq(result.states, least, "only %" PRIu64 " states: the search is broken", result.states);
    cr_log_info("%u peers, %u proposals: %" PRIu64 " states, %" PRIu64 " steps deep", peers, attempts,
                result.states, result.depth);
}

Test(forks, three_peers_and_four_proposals_never_fork) {
    never_forks(3, 4, 5695189);
}

Test(forks, four_peers_and_three_proposals_never_fork) {
    never_forks(4, 3, 2493610);
}

Test(forks, five_peers_and_two_proposals_never_fork) {
    never_forks(5, 2, 149780);
}

static bool forks(uint32_t peers, uint32_t attempts, gw_forks_without without) {
    gw_forks_result result;
    cr_assert(gw_forks_explore(peers, attempts, without, MOST_STATES, &result));
    cr_assert(result.fork || !result.full);
    return result.fork;
}

Test(forks, without_any_one_rule_the_same_search_finds_a_fork) {
    for (int rule = GW_FORKS_WITH_ALL + 1; rule < GW_FORKS_RULES; rule++) {
        gw_forks_without without = (gw_forks_without)rule;
        cr_assert(forks(3, 3, without), "3 peers, without '%s'", gw_forks_rule_name(without));
        cr_assert(forks(4, 3, without), "4 peers, without '%s'", gw_forks_rule_name(without));
    }
}

/* Two proposals are enough for two halves of four to go separate ways. */
Test(forks, without_the_tie_break_four_peers_fork_at_once) {
    cr_assert(forks(4, 2, GW_FORKS_WITHOUT_LOWEST));
    cr_assert(!forks(4, 2, GW_FORKS_WITH_ALL));
}

Test(forks, sizes_beyond_the_search_are_refused) {
    gw_forks_result result;
    cr_assert(!gw_forks_explore(4, 4, GW_FORKS_WITH_ALL, MOST_STATES, &result));
    cr_assert(!gw_forks_explore(GW_FORKS_PEERS + 1, 1, GW_FORKS_WITH_ALL, MOST_STATES, &result));
    cr_assert(gw_forks_explore(3, 3, GW_FORKS_WITH_ALL, 1000, &result) && result.full);
}
