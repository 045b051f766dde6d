/* How jobs and peers end. */
#include "canaries/canary.h"

#include <criterion/criterion.h>

/* ---- ends ---- */

static void leave_unasked(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_LEFT, "left");
}

static void give_up(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_FAILED, "for no reason");
}

static void leave_as_faulty(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_FAILED, "the machine is faulty");
}

static void call_it_a_tie(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_FAILED, "nobody can tell which are right");
}

static bool is_end(const gw_action *action) {
    return action->kind == GW_ACT_FINISH && action->finish == GW_FINISH_DONE;
}

static void name_another_root(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (is_end(&actions->list[at])) actions->list[at].root.bytes[0] ^= 1;
}

static void act_after_the_end(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (is_end(&actions->list[at])) gw_actions_add(actions, GW_ACT_ABANDON);
}

static void stay_alone(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (is_end(&actions->list[at]) && canary_seen++ == 0) canary_drop(&actions->list[at]);
}

static void reduce_nothing(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_REDUCE && actions->list[at].step == 9)
        canary_drop(&actions->list[at]);
}

static void overhear_the_end(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind == GW_EV_APPLIED) event->stop = false;
}

static void want_no_copies(gw_peer_config *config) {
    config->replicas = 0;
}

Test(canary_ends, a_peer_ends_for_no_reason) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "nothing has happened to it that allows it", leave_unasked);
    canary_find(&options, "gave up: for no reason", give_up);
}

/* That some bits were wrong somewhere is no reason. */
Test(canary_ends, a_peer_ends_for_what_another_did) {
    gw_sim_options options = canary_with_wrong_contributions();
    const char *phrase = "nothing has happened to it that allows it";
    canary_assert_found(&options, &(canary){.phrase = phrase, .act = leave_as_faulty, .after = GW_SIM_WRONG});
    canary_assert_found(&options, &(canary){.phrase = phrase, .act = call_it_a_tie, .after = GW_SIM_WRONG});
}

Test(canary_ends, a_job_ends_otherwise_than_it_should) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "ended with another root than it should", name_another_root);
    canary_find(&options, "acts after its FINISH", act_after_the_end);
    canary_find(&options, "others do not end", stay_alone);
    options.end_step = 12;
    canary_find_believed(&options, "after the job has ended", overhear_the_end, NULL);
}

Test(canary_ends, a_job_does_not_begin_or_end) {
    gw_sim_options options = canary_quiet();
    options.bound_ms = 5000;
    canary_find(&options, "is not done", reduce_nothing);
    canary_find_configured(&options, "cannot start", want_no_copies);
}
