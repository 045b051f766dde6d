/* Who takes part in views, and what is shown of steps. */
#include "tests/canaries/canary.h"

#include <criterion/criterion.h>

/* Views. */

/* By all but itself. */
static void name_another_life(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    if (action->kind != GW_ACT_INSTALL || canary_step_of(peer) == 0) return;
    gw_view *other = gw_actions_copy(actions, action->install.view, sizeof *other);
    for (uint32_t i = 0; i < other->count; i++) other->members[i].boot++;
    action->install.view = other;
}

Test(canary_views, another_life_than_the_view_names_takes_part) {
    gw_sim_options options = canary_quiet();
    options.crash_ms = 1000;
    canary_find(&options, "outside a view, twice, or of another step", name_another_life);
}

static void admit_nobody_again(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind != GW_ACT_NOTICE || actions->list[at].notice.kind != GW_NOTICE_VIEW) return;
    for (int times = 0; times < 6; times++) canary_add_copy(actions, at)->notice.text = "newcomers";
}

Test(canary_views, view_follows_view_and_nobody_is_admitted) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "views for newcomers have admitted nobody", admit_nobody_again);
}

static void take_any_quorum(gw_peer_config *config) {
    config->quorum = GW_QUORUM_ANY;
}

Test(canary_views, two_views_of_an_epoch_go_on) {
    gw_sim_options options = canary_quiet();
    options.majority = 1;
    options.peers = options.founders = 4;
    options.partition_ms = 3000;
    options.fault_ms = 20000;
    options.steps = 600;
    canary_find_configured(&options, "two views of epoch", take_any_quorum);
}

/* What is shown, and its effects. */

/* Before it is known that the others have come to the same. */
static void show_at_once(gw_peer *peer, gw_event *event, gw_actions *actions) {
    if (event->kind != GW_EV_APPLIED || event->outcome != GW_DONE) return;
    gw_action *notice = gw_actions_add(actions, GW_ACT_NOTICE);
    notice->notice.kind = GW_NOTICE_STEP;
    notice->step = canary_step_of(peer);
    notice->notice.committed.fingerprint = event->applied.fingerprint;
}

static void show_another(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_NOTICE && action->notice.kind == GW_NOTICE_STEP)
        action->notice.committed.fingerprint ^= 2;
}

/* At the next view. */
static void go_back(gw_peer *peer, gw_actions *actions, uint32_t at) {
    if (actions->list[at].kind != GW_ACT_INSTALL || canary_step_of(peer) < 4) return;
    gw_actions_add(actions, GW_ACT_LOAD)->load.kind = GW_LOAD_INIT;
}

static void have_effects_of_the_step_before(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    actions->list[at].step -= actions->list[at].kind == GW_ACT_COMMIT && actions->list[at].step > 0;
}

static void have_no_effects_of_step_5(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    if (action->kind != GW_ACT_COMMIT || action->step != 5) return;
    gw_event event = {.kind = GW_EV_COMMITTED, .token = action->token, .outcome = GW_DONE};
    canary_drop(action);
    canary_hear(peer, &event, actions);
}

static gw_sim_options torn(void) { /* members end one reduction differently, and go separate ways */
    gw_sim_options options = gw_sim_unset(0);
    options.majority = options.fast = 1;
    options.peers = 3;
    options.shards = 4;
    options.shard_us = 500;
    options.steps = 300;
    options.checkpoint_steps = 0;
    options.partition_ms = 600;
    options.break_ms = 100;
    options.crash_ms = options.data_ms = 0;
    options.fault_ms = 10000;
    return options;
}

/* As where sums are exact: the state of most steps is the one to go on from, whoever held it. */
static void take_any_state(gw_peer_config *config) {
    config->fast = false;
}

Test(canary_views, a_state_that_was_left_behind_is_gone_on_from) {
    gw_sim_options options = torn();
    options.shards = 12;
    options.shard_us = 300000;
    options.steps = 180; /* in so many one seed of twenty goes wrong so */
    options.fault_ms = 180000;
    options.partition_ms = 1500;
    options.break_ms = 500;
    canary_find_configured(&options, "which had been left behind", take_any_state);
}

Test(canary_views, different_states_of_a_step_are_shown) {
    gw_sim_options options = torn();
    canary_find_believed(&options, "shows another state of step", show_at_once, NULL);
    canary_find(&options, "leaves a state of step", go_back);
}

Test(canary_views, another_state_is_shown_than_is_held) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "but holds another state", show_another);
}

Test(canary_views, a_state_is_left_for_an_earlier_one) {
    gw_sim_options options = canary_quiet();
    options.checkpoint_steps = 0;
    options.crash_ms = 500;
    canary_find(&options, "goes back from step", go_back);
}

Test(canary_views, effects_of_another_step_or_state_take_place_or_none) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "but is at step", have_effects_of_the_step_before);
    canary_find(&options, "no effect of step 5 has taken place", have_no_effects_of_step_5);
    gw_sim_result result = {.failed = false};
    gw_sim_options one = {.peers = 1, .founders = 1, .steps = 1, .shards = 1};
    sim_cluster *c = sim_cluster_open(&one, &result);
    sim_judges *judges = sim_judges_open(c);
    c->states[1] = 2;
    c->peers[0].m = (sim_memory){.has_state = true, .step = 1, .state = 3, .commit_token = 1};
    sim_commit_settle(c, &c->peers[0]);
    cr_assert_not_null(strstr(result.why, "has effects of step 0 from another state"));
    sim_cluster_close(c);
    sim_judges_close(judges);
}

/* Deaths that people are told of. */

static void call_silence_an_end(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_NOTICE && action->notice.kind == GW_NOTICE_PEER_DEAD)
        action->notice.death.proven = true;
}

Test(canary_views, a_silent_peer_that_is_told_to_have_ended) {
    gw_sim_options options = canary_quiet();
    options.partition_ms = 3000;
    canary_find(&options, "is proven to have ended, and it runs", call_silence_an_end);
}
