/* Shards, ranges and reductions, what is sent, and what is printed of a seed that fails. */
#include "core/brain/message.h"
#include "tests/canaries/canary.h"
#include "tests/sim/command.h"

#include <criterion/criterion.h>

/* Work. */

static void add_freeze(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_APPLY) gw_actions_add(actions, GW_ACT_FREEZE)->token = 1;
}

static void add_load(gw_peer *peer, gw_actions *actions, uint32_t at) {
    if (actions->list[at].kind != GW_ACT_APPLY) return;
    gw_action *load = gw_actions_add(actions, GW_ACT_LOAD);
    load->load.kind = GW_LOAD_PEERS;
    load->step = canary_step_of(peer);
}

static void load_what_is_never_made(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_LOAD) actions->list[at].step = CANARY_STEPS + 1;
}

static void begin_with_a_shard_more(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    actions->list[at].begin_step.shards += actions->list[at].kind == GW_ACT_BEGIN_STEP;
}

static void begin_a_later_step(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_BEGIN_STEP) actions->list[at].step += 3; /* of as many shards */
}

static void deal_more_than_there_are(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_DEAL && action->deal.list == NULL) action->deal.end += CANARY_SHARDS;
}

static void deal_more_than_are_listed(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_DEAL && action->deal.list != NULL) action->deal.end += CANARY_SHARDS;
}

static void cut_otherwise(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    if (action->kind != GW_ACT_DEAL || canary_step_of(peer) != 7 || canary_seen++ > 0) return;
    ((uint32_t *)(uintptr_t)action->deal.cuts)[1] ^= 1;
}

static void take_twice(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_TAKE) canary_add_copy(actions, at);
}

static void read_all_the_time(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    for (uint32_t i = 0; actions->list[at].kind == GW_ACT_READ_WORD && i < 4 * SIM_PEERS; i++)
        canary_add_copy(actions, at)->token += (uint64_t)(i + 1) << 40;
}

static void reduce_twice(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_REDUCE) canary_add_copy(actions, at)->token++;
}

static void reduce_again(gw_peer *peer, gw_actions *actions, uint32_t at) {
    const gw_action apply = actions->list[at];
    (void)peer;
    if (apply.kind == GW_ACT_APPLY)
        *gw_actions_add(actions, GW_ACT_REDUCE) =
            (gw_action){.kind = GW_ACT_REDUCE, .token = 1, .step = apply.step};
}

static void probe_the_next_step(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    actions->list[at].step += actions->list[at].kind == GW_ACT_PROBE;
}

Test(canary_work, a_member_deals_otherwise_than_the_others) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "otherwise than a member before it", cut_otherwise);
}

Test(canary_work, a_state_is_changed_while_it_is_in_use) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "freezes while it applies", add_freeze);
    canary_find(&options, "loads a state while it applies", add_load);
}

Test(canary_work, work_is_of_another_step) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "loads step 151", load_what_is_never_made);
    canary_find(&options, "from the state of step", begin_a_later_step);
    canary_find(&options, " shards, not ", begin_with_a_shard_more);
    options.verify_permille = 1000;
    options.wrong_permille = 20;
    canary_find(&options, " probes step ", probe_the_next_step);
}

Test(canary_work, shards_are_claimed_that_there_are_not) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, " claims shard ", deal_more_than_there_are);
    options.crash_ms = 500;
    canary_find(&options, " claims position ", deal_more_than_are_listed);
}

Test(canary_work, ranges_are_stolen_without_measure) {
    gw_sim_options options = canary_quiet();
    options.shards = 100;
    options.slow_permille = 500;
    canary_find(&options, "takes a stolen range over one of its own", take_twice);
    canary_find(&options, "one-sided operations open", read_all_the_time);
}

Test(canary_work, a_reduction_is_entered_twice) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "outside a view, twice, or of another step", reduce_twice);
    canary_find(&options, "twice in one view", reduce_again);
}

/* What is sent. */

static void damage_root(gw_hash *root, bool is_told) {
    root->bytes[0] = (uint8_t)(root->bytes[0] ^ (is_told ? 1 : 0));
}

/* Messages of this kind name checkpoints that have never been. */
static void misname(gw_actions *actions, uint32_t at, gw_message_kind kind) {
    gw_action *action = &actions->list[at];
    gw_message m;
    gw_err err;
    if (action->kind != GW_ACT_MESSAGE || action->message.bytes[1] != kind) return;
    cr_assert(gw_message_decode(action->message.bytes, action->message.length, &m, &err));
    if (kind == GW_MSG_VOTE)
        damage_root(&m.vote.report->lineage.list[0].root, m.vote.report->lineage.count > 0);
    if (kind == GW_MSG_INSTALL)
        damage_root(&m.install.install->lineage.list[0].root, m.install.install->lineage.count > 0);
    if (kind == GW_MSG_READY) damage_root(&m.ready.whole.root, m.ready.whole.step > 0);
    uint8_t *bytes;
    action->message.length = gw_message_encode(&m, &bytes);
    action->message.bytes = gw_actions_copy(actions, bytes, action->message.length);
    free(bytes);
    gw_message_free(&m);
}

static void misname_in_votes(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    misname(actions, at, GW_MSG_VOTE);
}

static void misname_in_installations(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    misname(actions, at, GW_MSG_INSTALL);
}

static void misname_when_ready(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    misname(actions, at, GW_MSG_READY);
}

static void send_halves(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_MESSAGE && action->message.bytes[1] == GW_MSG_VOTE)
        action->message.length /= 2;
}

Test(canary_work, another_lineage_of_a_state_is_told) {
    gw_sim_options options = canary_quiet();
    options.majority = options.fast = 1;
    options.crash_ms = 1000;
    options.fault_ms = 6000;
    canary_find(&options, "a vote of peer", misname_in_votes);
    canary_find(&options, "an installation of peer", misname_in_installations);
    canary_find(&options, "readiness of peer", misname_when_ready);
    canary_find(&options, "sends a message that cannot be read", send_halves);
}

Test(canary_work, a_garbled_datagram_passes) {
    gw_sim_options options = canary_quiet();
    options.garble_permille = 20;
    canary_assert_found(&options,
                        &(canary){.phrase = "was taken for sound", .gullible = true, .after = GW_SIM_FAULTS});
}

Test(canary_work, a_damaged_record_passes) {
    gw_sim_options options = canary_quiet();
    options.majority = 1;
    options.crash_ms = 1000;
    options.spoil_permille = 1000;
    canary_assert_found(&options, &(canary){.phrase = "that was damaged was taken for sound",
                                            .gullible = true,
                                            .after = GW_SIM_FAULTS});
}

/* What is printed of a seed that fails. */

/* Lists of what is missing are dealt where somebody has died: that it takes, and nothing else. */
Test(canary_work, a_seed_that_fails_is_shrunk_and_its_trace_is_told) {
    enum { LINE = GW_SIM_COMMAND + 100, LINES = 60 };
    canary_plant(&(canary){.act = deal_more_than_are_listed});
    const outcome *o =
        sim_command("--repairs --seed 2 --peers 4 --lose 0 --corrupt 0 --unanswered 0 --break-ms 0 "
                    "--drop 30 --drift 50 --shrink");
    cr_assert_eq(o->code, 1, "%d: %s", o->code, o->out);
    const char *rest = o->out, *wrong;
    char line[LINE], why[LINE];
    uint32_t faults = 0, lines = 0, crashes = 0, views = 0;
    cr_assert(sim_next_line(&rest, line, sizeof line));
    cr_expect_str_eq(line, "seed 2: looking for the fewest options that fail");

    gw_sim_options kept;
    gw_sim_result result;
    cr_assert(sim_next_line(&rest, line, sizeof line));
    cr_assert(gw_sim_command_read(line, &kept, &wrong), "%s", wrong);
    cr_expect_gt(kept.crash_ms, 0, "%s", line);
    for (uint32_t i = 0; i < gw_sim_option_count; i++)
        faults += gw_sim_option_table[i].fault && *gw_sim_option_value(&kept, &gw_sim_option_table[i]) != 0;
    cr_expect_eq(faults, 1, "%s", line);
    cr_assert(sim_next_line(&rest, why, sizeof why));
    gw_sim_run(&kept, &result);
    cr_assert(result.failed, "%s", line);
    cr_assert_eq(strncmp(why, "  fails with: ", 14), 0, "%s", why);
    cr_expect_str_eq(why + 14, result.why);
    cr_expect_not_null(strstr(why, " claims position "), "%s", why);

    double last_s = 0, at_s;
    const char *what = "";
    cr_assert(sim_next_line(&rest, line, sizeof line));
    cr_expect_str_eq(line, "  the end of its trace:");
    for (; sim_next_line(&rest, line, sizeof line); lines++, last_s = at_s) {
        what = sim_read_traced(line, &at_s);
        cr_expect_geq(at_s, last_s, "%s", line);
        crashes += strstr(what, " CRASHES") != NULL;
        views += strstr(what, " VIEW ") != NULL;
    }
    cr_expect(lines > 10 && lines <= LINES, "%u", lines);
    cr_expect(crashes > 0 && views > 0, "%s", o->out);
    cr_expect_eq(strncmp(what, "VIOLATION ", 10), 0, "%s", what);
    cr_expect_str_eq(what + 10, result.why);
    cr_expect_float_eq(last_s, (double)result.ended_ns / 1e9, 1e-6);
}

/* The member that sums fail with. */

static void know_nobody_to_blame(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind == GW_EV_REDUCED) event->peer = (gw_peer_id){0};
}

Test(canary_work, a_sum_that_fails_with_one_member_is_tried_with_it_for_ever) {
    gw_sim_options options = canary_quiet();
    options.path_ms = 500;
    options.fault_ms = 8000;
    canary_assert_found(
        &options,
        &(canary){.phrase = ", which has failed ", .hear = know_nobody_to_blame, .after = GW_SIM_LOST_PATH});
}
