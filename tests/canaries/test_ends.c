/* How jobs and peers end. */
#include "tests/canaries/canary.h"

#include <criterion/criterion.h>

/* Ends. */

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
    return action->kind == GW_ACT_FINISH && action->finish.result == GW_FINISH_DONE;
}

static void name_another_root(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (is_end(&actions->list[at])) actions->list[at].finish.root.bytes[0] ^= 1;
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
    if (event->kind == GW_EV_APPLIED) event->applied.stop = false;
}

/* Hashed, and not written; and nobody is told that it is complete. */
static void keep_nothing_of_the_end(gw_peer *peer, gw_actions *actions, uint32_t at, gw_action_kind kind) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->step < CANARY_STEPS) return;
    if (action->kind == kind && kind == GW_ACT_SAVE) action->save.hash_only = true;
    if (action->kind == kind && kind == GW_ACT_MANIFEST) action->manifest.hash_only = true;
    if (action->kind == GW_ACT_NOTICE && action->notice.kind == GW_NOTICE_CHECKPOINT) canary_drop(action);
}

static void keep_no_chunk_of_the_end(gw_peer *peer, gw_actions *actions, uint32_t at) {
    keep_nothing_of_the_end(peer, actions, at, GW_ACT_SAVE);
}

static void keep_no_manifest_of_the_end(gw_peer *peer, gw_actions *actions, uint32_t at) {
    keep_nothing_of_the_end(peer, actions, at, GW_ACT_MANIFEST);
}

static void stop_at_once(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer;
    if (event->kind != GW_EV_STOP) return;
    *event = (gw_event){.kind = GW_EV_TIMER};
    gw_action *action = gw_actions_add(actions, GW_ACT_FINISH);
    action->finish.result = GW_FINISH_STOPPED;
    action->finish.text = "stopped";
    action->step = 1;
    action->finish.root.bytes[0] = 1;
}

static void leave_one_that_is_stopped(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_LEFT, "the others ended the job");
}

static void lose_the_end(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_UNSAVED, "nobody could store it");
}

static void leave_for_its_disk(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_FAILED, "this peer leaves, so that the others go on");
}

static void want_no_copies(gw_peer_config *config) {
    config->replicas = 0;
}

Test(canary_ends, a_peer_ends_for_no_reason) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "without an excuse", leave_unasked);
    canary_find(&options, "gave up: for no reason", give_up);
}

/* That some bits were wrong somewhere is no reason. */
Test(canary_ends, a_peer_ends_for_what_another_did) {
    gw_sim_options options = canary_with_wrong_contributions();
    const char *phrase = "without an excuse";
    canary_assert_found(&options, &(canary){.phrase = phrase, .act = leave_as_faulty, .after = GW_SIM_WRONG});
    canary_assert_found(&options, &(canary){.phrase = phrase, .act = call_it_a_tie, .after = GW_SIM_WRONG});
}

/* Each has an excuse of its own: what one machine refused is none for another peer. */
static void give_up_an_update(gw_peer *peer, gw_actions *actions, uint32_t at) {
    canary_end(peer, actions, at, GW_FINISH_FAILED, "step 7 could not be applied: for no reason");
}

Test(canary_ends, a_peer_ends_for_what_its_machine_did_not_refuse) {
    gw_sim_options options = canary_quiet();
    const char *phrase = "without an excuse";
    options.refuse_permille = 20;
    canary_assert_found(&options,
                        &(canary){.phrase = phrase, .act = give_up_an_update, .after = GW_SIM_FAILED_UPDATE});
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

Test(canary_ends, what_is_done_or_stopped_is_on_no_disk) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "of whose chunk", keep_no_chunk_of_the_end);
    canary_find(&options, "of which there is no manifest", keep_no_manifest_of_the_end);
    options.stop_ms = 1000;
    canary_find_believed(&options, "ended with another root than it should", stop_at_once, NULL);
}

/* They run again. */
Test(canary_ends, a_peer_ends_for_others_that_have_stopped_before) {
    gw_sim_options options = canary_quiet();
    options.stop_ms = 300;
    const char *phrase = "without an excuse";
    canary_assert_found(&options,
                        &(canary){.phrase = phrase, .act = leave_one_that_is_stopped, .after = GW_SIM_STOP});
}

/* A disk that was slow refuses nothing, and one that was full is not all of them. */
Test(canary_ends, a_peer_ends_for_what_no_disk_has_done) {
    gw_sim_options options = canary_quiet();
    const char *phrase = "without an excuse";
    options.slow_disk_ms = 200;
    canary_assert_found(&options,
                        &(canary){.phrase = phrase, .act = leave_for_its_disk, .after = GW_SIM_SLOW_DISK});
    options.slow_disk_ms = 0;
    options.full_ms = 2000;
    canary_assert_found(&options,
                        &(canary){.phrase = phrase, .act = lose_the_end, .after = GW_SIM_FULL_DISK});
}
