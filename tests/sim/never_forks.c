#include "tests/sim/never_forks.h"

#include <criterion/criterion.h>
#include <inttypes.h>

void never_forks(gw_forks_size size, uint64_t least) {
    gw_forks_result result;
    cr_assert(gw_forks_explore(&size, GW_FORKS_WITH_ALL, FORKS_MOST_STATES, &result));
    cr_assert(!result.fork);
    cr_assert(!result.full, "more than %d states", FORKS_MOST_STATES);
    cr_assert_geq(result.states, least, "only %" PRIu64 " states: the search is broken", result.states);
    cr_log_info("%u peers of which %u restart, %u proposals, %u in another's epoch: %" PRIu64
                " states, %" PRIu64 " steps deep",
                size.peers, size.restarts, size.attempts, size.shared, result.states, result.depth);
}
