/* Sums that are applied and should not be, and who is found to be wrong. */
#include "tests/canaries/canary.h"

#include <criterion/criterion.h>

/* Sums. */

/* What is said of a sum is not believed; what its members decided is what they entered with. */
static void believe_sum(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)actions;
    static int64_t slots[SIM_PEERS * GW_SLOTS];
    gw_peer_status status;
    if (event->kind != GW_EV_REDUCED || event->outcome != GW_DONE || event->reduced.slots != NULL) return;
    gw_peer_status_get(peer, &status);
    if (status.view == NULL) return;
    for (uint32_t rank = 0; rank < status.view->count; rank++)
        memcpy(slots + (size_t)rank * GW_SLOTS, canary_row_of(&status.view->members[rank].id),
               GW_SLOTS * sizeof *slots);
    event->reduced.coverage_ok = event->reduced.fingerprint_ok = true;
    event->reduced.slots = slots;
}

static void deal_one_twice(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_DEAL && action->deal.first > 0 && action->deal.first < action->deal.end)
        action->deal.first--;
}

static void deal_all_but_one(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_DEAL && action->deal.first < action->deal.end) action->deal.end--;
}

static void apply_the_next_step(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    actions->list[at].step += actions->list[at].kind == GW_ACT_APPLY;
}

Test(canary_sums, a_damaged_sum_is_applied) {
    gw_sim_options options = canary_quiet();
    options.corrupt_permille = 100;
    canary_find_believed(&options, "than the undisturbed run", believe_sum, NULL);
    options.majority = options.fast = 1;
    canary_find_believed(&options, "than others of its view", believe_sum, NULL);
}

Test(canary_sums, a_sum_with_a_shard_too_many_or_too_few_is_applied) {
    gw_sim_options options = canary_quiet();
    canary_find_believed(&options, " 2 times", believe_sum, deal_one_twice);
    canary_find_believed(&options, " 0 times", believe_sum, deal_all_but_one);
}

Test(canary_sums, the_sum_of_another_step_is_applied) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, ", its sum is of step", apply_the_next_step);
}

/* What was found to be wrong. */

static void see_no_dispute(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind == GW_EV_REDUCED) event->reduced.check_table = NULL;
}

/* At the step that it was thrown out of. */
static bool goes_on_at_its_step(const gw_peer *peer, const gw_actions *actions, uint32_t at) {
    bool installs = false;
    for (uint32_t i = 0; i < at; i++) installs |= actions->list[i].kind == GW_ACT_INSTALL;
    return installs && canary_step_of(peer) > 0 && actions->list[at].step == canary_step_of(peer);
}

static void keep_what_was_added(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    if (action->kind == GW_ACT_BEGIN_STEP && goes_on_at_its_step(peer, actions, at)) canary_drop(action);
}

static void keep_the_state(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    if (action->kind != GW_ACT_LOAD || !goes_on_at_its_step(peer, actions, at)) return;
    gw_event event = {.kind = GW_EV_LOADED,
                      .token = action->token,
                      .outcome = GW_DONE,
                      .loaded.fingerprint = action->load.fingerprint};
    canary_drop(action);
    canary_hear(peer, &event, actions);
}

static bool is_blame(const gw_action *action) {
    return action->kind == GW_ACT_NOTICE && action->notice.kind == GW_NOTICE_CORRUPT;
}

static void blame_another(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (is_blame(action)) action->peer = canary_other_than(&action->peer);
}

static void blame_twice(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (is_blame(&actions->list[at])) canary_add_copy(actions, at);
}

/* Two peers compute a shard, and every peer believes that each of them got the result of the other. */
static void mix_up(gw_peer *peer, gw_event *event, gw_actions *actions) {
    static int64_t table[GW_VERIFY_TABLE];
    (void)peer, (void)actions;
    if (event->kind != GW_EV_REDUCED || event->reduced.check_table == NULL) return;
    memcpy(table, event->reduced.check_table, sizeof table);
    for (int64_t *entry = table; entry < table + GW_VERIFY_TABLE; entry += GW_VERIFY_WORDS) {
        int64_t own = entry[1], *again = entry + (entry[2] != 0 ? 3 : 5);
        if (*again == 0) continue;
        entry[1] = *again;
        *again = own;
    }
    event->reduced.check_table = table;
}

static void see_damage(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind != GW_EV_LOOKED) return;
    event->outcome = GW_FAILED;
    event->looked.damaged = true;
}

/* With float sums as with exact ones; where all shards are computed twice, and where a share of them is. */
Test(canary_sums, what_is_computed_wrong_is_applied) {
    gw_sim_options options = canary_with_wrong_contributions();
    canary_find_believed(&options, "than the undisturbed run", see_no_dispute, NULL);
    options.majority = options.fast = 1;
    canary_find_believed(&options, "that is not that of its shards", see_no_dispute, NULL);
    options.verify_permille = 200;
    canary_find_believed(&options, "that is not that of its shards", see_no_dispute, NULL);
}

Test(canary_sums, who_computes_wrong_brings_its_work_or_its_state) {
    gw_sim_options options = canary_with_wrong_contributions();
    canary_find(&options, " that it had computed before peer ", keep_what_was_added);
    canary_find(&options, " with the state that it had when peer ", keep_the_state);
    options.majority = options.fast = 1;
    canary_find(&options, " that it had computed before peer ", keep_what_was_added);
}

Test(canary_sums, who_did_no_wrong_is_blamed) {
    const char *phrase = " wrongly blames peer ";
    gw_sim_options sound = canary_quiet(), options = canary_with_wrong_contributions();
    sound.verify_permille = 1000;
    canary_find(&options, phrase, blame_another);
    canary_find(&options, phrase, blame_twice);
    canary_find_believed(&sound, phrase, see_damage, NULL);
    canary_find_believed(&options, phrase, mix_up, NULL);
    options.majority = options.fast = 1;
    canary_find_believed(&options, phrase, mix_up, NULL);
    options.verify_permille = 100;
    options.wrong_permille = 200;
    canary_find_believed(&options, phrase, mix_up, NULL);
}

/* What a member had added up has changed in its memory. */
Test(canary_sums, who_finds_its_own_part_wrong_brings_it) {
    gw_sim_options options = canary_quiet();
    options.part_permille = 30;
    canary_find_believed(&options, "than the undisturbed run", believe_sum, NULL);
    canary_find(&options, " that it had computed before peer ", keep_what_was_added);
    canary_find(&options, " wrongly blames peer ", blame_twice);
}

/* Bits that change on their way. */

/* Bits change of what travels from or to one machine. */
static gw_sim_options with_changes(void) {
    gw_sim_options options = canary_quiet();
    options.change_ms = 500;
    return options;
}

static bool tells(const gw_action *action, const char *text) {
    return is_blame(action) && strncmp(action->notice.text, text, strlen(text)) == 0;
}

static void see_no_change(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind == GW_EV_REDUCED) event->reduced.changed = false;
    if (event->kind == GW_EV_LOADED) event->loaded.changed = false;
}

static void see_changes_everywhere(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)actions;
    gw_peer_status status;
    gw_peer_status_get(peer, &status);
    if (event->kind != GW_EV_REDUCED || event->outcome != GW_DONE || status.view == NULL) return;
    event->outcome = GW_FAILED;
    event->reduced.changed = true;
    event->peer = status.view->members[0].id;
}

static void accuse_whoever_receives(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    gw_peer_status status;
    gw_peer_status_get(peer, &status);
    if (!tells(action, "bits of what it sent") || status.view == NULL) return;
    for (uint32_t i = 0; i < status.view->count; i++)
        if (!gw_peer_id_equal(&status.view->members[i].id, &action->peer))
            action->peer = status.view->members[i].id;
}

static void convict_another(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (tells(action, "bits changed between it")) action->peer = canary_other_than(&action->peer);
}

/* As one that was heard of before. */
static void hear_of_a_verdict_twice(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (tells(&actions->list[at], "others found")) canary_add_copy(actions, at);
}

static void stop_at_the_first(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (!tells(&actions->list[at], "bits of what it sent")) return;
    gw_action *action = gw_actions_add(actions, GW_ACT_FINISH);
    action->finish.result = GW_FINISH_FAILED;
    action->finish.text = "bits have changed 3 times, and nobody can tell in whose memory";
}

static void arrange_as_it_likes(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_REDUCE && canary_seen++ % 7 == 3) action->reduce.arrangement++;
}

Test(canary_sums, bits_that_change_are_told_of_nobody_or_of_the_wrong_one) {
    gw_sim_options options = with_changes();
    canary_find_believed(&options, " does not report that bits sent to it ", see_no_change, NULL);
    canary_find(&options, ", and none have", accuse_whoever_receives);
    canary_find_believed(&options, ", and none have", see_changes_everywhere, NULL);
}

Test(canary_sums, who_changed_no_bits_is_convicted_or_ends) {
    gw_sim_options options = with_changes();
    canary_find(&options, " wrongly blames peer ", convict_another);
    canary_find(&options, " wrongly blames peer ", hear_of_a_verdict_twice);
    canary_find(&options, "without an excuse: bits have changed", stop_at_the_first);
}

Test(canary_sums, who_changes_bits_brings_its_work_or_its_state) {
    gw_sim_options options = with_changes();
    canary_find(&options, " that it had computed before peer ", keep_what_was_added);
    canary_find(&options, " with the state that it had when peer ", keep_the_state);
}

/* Who was alone before, and would go on so. */
static void stop_for_who_cannot_fetch(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (!tells(&actions->list[at], "bits of what it sent of the state") || ++canary_seen < 3) return;
    gw_action *action = gw_actions_add(actions, GW_ACT_FINISH);
    action->finish.result = GW_FINISH_FAILED;
    action->finish.text = "bits have changed 3 times, and nobody can tell in whose memory";
}

static void arrange_always_the_same(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_REDUCE) actions->list[at].reduce.arrangement = 0;
}

Test(canary_sums, who_runs_alone_stops_for_a_newcomer) {
    gw_sim_options options = with_changes();
    options.peers = 2;
    options.founders = 1;
    options.crash_ms = 1000;
    canary_find(&options, "without an excuse: bits have changed", stop_for_who_cannot_fetch);
}

Test(canary_sums, members_are_always_arranged_the_same) {
    gw_sim_options options = with_changes();
    options.peers = options.founders = 6;
    options.change_ms = 250;
    canary_find(&options, " time, and it has not been convicted", arrange_always_the_same);
}

Test(canary_sums, members_are_arranged_in_different_ways) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, " in another order than others", arrange_as_it_likes);
}

static void see_none_torn(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind == GW_EV_FROZEN) event->frozen.poisoned = false;
}

Test(canary_sums, what_is_added_in_part_is_kept) {
    gw_sim_options options = canary_quiet();
    options.fail_permille = 20;
    options.torn_permille = 1000;
    canary_assert_found(&options, &(canary){.phrase = ", a shard of which it has added in part",
                                            .hear = see_none_torn,
                                            .after = GW_SIM_TORN_FREEZE});
}
