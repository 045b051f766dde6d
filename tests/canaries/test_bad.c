/* Sums that are not finite, shards that cannot be computed, disks that go on: what is told and done of them.
 */
#include "tests/canaries/canary.h"

#include <criterion/criterion.h>

static gw_sim_options with_a_bad_sum(bool skip) {
    gw_sim_options options = canary_quiet();
    options.bad_step = 6;
    options.skip = skip;
    return options;
}

static void skip_nothing(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_APPLY) actions->list[at].apply.skip_update = false;
}

static void skip_step_8(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    gw_action *action = &actions->list[at];
    if (action->kind == GW_ACT_APPLY && action->step == 8) action->apply.skip_update = true;
}

static void skip_unasked(gw_peer_config *config) {
    config->skip_bad = true;
}

static void see_all_finite(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind == GW_EV_REDUCED) event->reduced.bad_count = 0;
}

static void name_the_next_shard(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    gw_action *action = &actions->list[at];
    if (action->kind == GW_ACT_NOTICE && action->notice.kind == GW_NOTICE_BAD) action->notice.bad.shard++;
}

Test(canary_bad, a_sum_that_is_not_finite_is_applied_or_one_that_is_is_not) {
    gw_sim_options skips = with_a_bad_sum(true), ends = with_a_bad_sum(false);
    canary_find(&skips, "does not skip the update of step 6", skip_nothing);
    canary_find(&skips, "skips the update of step 8", skip_step_8);
    canary_find_configured(&ends, "applies step 6, whose sum is bad", skip_unasked);
    canary_find_believed(&skips, "does not skip the update of step 6", see_all_finite, NULL);
    canary_find(&skips, "that is not the first", name_the_next_shard);
}

/* Who ends. */

static void end_once(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    gw_action *action = &actions->list[at];
    if (action->kind == GW_ACT_FINISH && canary_seen++ > 0) canary_drop(action);
}

/* What stops the job stops it at each peer. */
Test(canary_bad, one_peer_stops_the_job_and_the_others_stay) {
    const char *phrase = "a peer has stopped the job, but others do not end";
    gw_sim_options bad = with_a_bad_sum(false), poisoned = canary_quiet();
    poisoned.poison_step = 6;
    canary_find(&bad, phrase, end_once);
    canary_find(&poisoned, phrase, end_once);
}

static void give_up_a_shard(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_FAILED, "shard 3 of step 7 cannot be computed here: it can");
}

static void blame_a_sum(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(
        peer, actions, at, GW_FINISH_FAILED,
        "12 elements of the sum of step 7 are not finite or out of range, the first in shard 1, tensor 2");
}

static void stop_unasked(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_STOPPED, "step 7");
}

static void blame_its_disk(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_FAILED,
               "fetching the state of step 7 has made no progress for 30 s: this peer leaves, so that the "
               "others go on");
}

Test(canary_bad, a_peer_ends_of_what_has_not_happened) {
    const char *phrase = "without an excuse";
    gw_sim_options options = canary_quiet(), crawling = canary_quiet();
    canary_find(&options, phrase, give_up_a_shard);
    canary_find(&options, phrase, stop_unasked);
    canary_find(&options, "gave up: 12 elements", blame_a_sum);
    crawling.crawl_ms = 500;
    canary_assert_found(&crawling, &(canary){.phrase = "without an excuse: fetching",
                                             .act = blame_its_disk,
                                             .after = GW_SIM_CRAWLING_DISK});
}
