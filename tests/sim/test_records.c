/* Records of votes that cannot be written, are lost or damaged; and disks that are lost with a majority
 * rule. */
#include "tools/sim/faults/faults.h"
#include "tools/sim/run.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Brains that do not wait for their records. */

typedef enum faith {
    NONE,
    TRUSTING, /* the brain takes every record that it hears of for durable */
    HASTY,    /* the brain is told that a record is durable when it asks for it */
} faith;

static faith planted;
static uint32_t left; /* lives that gave up because their votes could not be made durable */

void __real_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions) {
    gw_event heard = *event;
    if (planted == TRUSTING && heard.kind == GW_EV_PERSISTED) heard.outcome = GW_DONE;
    __real_gw_peer_step(peer, &heard, at_ns, actions);
    uint32_t own = actions->count;
    for (uint32_t i = 0; i < own; i++) {
        const gw_action *action = &actions->list[i];
        left +=
            action->kind == GW_ACT_FINISH && strstr(action->finish.text, "could not be made durable") != NULL;
        if (planted != HASTY || action->kind != GW_ACT_PERSIST) continue;
        gw_event told = {.kind = GW_EV_PERSISTED, .token = action->token};
        __real_gw_peer_step(peer, &told, at_ns, actions);
    }
}

/* Peers die again and again while they vote: each by itself while records cannot be written, or all at
 * once while writing takes long. */
static gw_sim_options restless(uint64_t seed, bool at_once) {
    gw_sim_options options = gw_sim_unset(seed);
    options.majority = options.fast = 1;
    options.peers = options.founders = 3;
    options.shards = 4;
    options.shard_us = 500;
    options.steps = 300;
    options.crash_ms = 300;
    options.restart_ms = 20;
    options.partition_ms = 600;
    options.record_ms = at_once ? 0 : 300;
    options.power_ms = options.slow_disk_ms = at_once ? 500 : 0;
    options.fault_ms = 10000;
    gw_sim_undisturbed(&options);
    gw_sim_draw(&options);
    return options;
}

/* Returns whether one of the seeds reports a fork with this fault in the brain. Without it none fails. */
static bool forks(uint32_t seeds, bool at_once, faith of, gw_sim_fault after) {
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const gw_sim_options options = restless(seed, at_once);
        gw_sim_result result;
        planted = of;
        gw_sim_run(&options, &result);
        planted = NONE;
        bool forked = strstr(result.why, "two views of epoch") != NULL ||
                      strstr(result.why, "shows another state of step") != NULL;
        cr_expect(of != NONE || !result.failed, "seed %" PRIu64 ": %s", seed, result.why);
        if (result.failed && forked && result.faults[after] > 0) return true;
    }
    return false;
}

Test(records, a_vote_whose_record_could_not_be_written_makes_a_fork) {
    cr_expect(forks(300, false, TRUSTING, GW_SIM_FAILED_RECORD));
    cr_expect_not(forks(50, false, NONE, GW_SIM_FAILED_RECORD));
}

Test(records, a_vote_that_is_given_before_its_record_is_durable_makes_a_fork) {
    cr_expect(forks(50, true, HASTY, GW_SIM_LOST_RECORD));
    cr_expect_not(forks(50, true, NONE, GW_SIM_LOST_RECORD));
}

/* Brains that wait for their records. */

static void add_run(const gw_sim_options *options, gw_sim_result *all) {
    gw_sim_result result;
    char command[GW_SIM_COMMAND];
    gw_sim_run(options, &result);
    cr_assert(!result.failed, "%s\n  %s", result.why, gw_sim_command(options, command, sizeof command));
    gw_sim_result_add(all, &result);
}

/* The time is long enough for a peer to give up while faults happen. */
static void add_long_run(uint64_t seed, uint32_t record_ms, uint32_t hang_ms, gw_sim_result *all) {
    gw_sim_options options = gw_sim_unset(seed);
    options.majority = 1;
    options.fast = seed % 2 == 0;
    options.peers = 3 + (uint32_t)seed % 3;
    options.shards = 12;
    options.shard_us = 100000;
    options.steps = 250;
    options.crash_ms = 8000;
    options.record_ms = record_ms;
    options.hang_ms = hang_ms;
    options.fault_ms = 60000;
    gw_sim_undisturbed(&options);
    gw_sim_draw(&options);
    add_run(&options, all);
}

/* A peer that can record no vote for 20 s leaves, and the others go on. */
Test(records, who_cannot_record_its_votes_holds_up_nobody_for_long) {
    gw_sim_result all = {0};
    left = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) add_long_run(seed, 2500, 0, &all);
    cr_assert_gt(all.faults[GW_SIM_FAILED_RECORD], 1000, "%lu", all.faults[GW_SIM_FAILED_RECORD]);
    cr_assert_gt(left, 10, "%u", left);
}

Test(records, nor_does_one_whose_disk_hangs) {
    gw_sim_result all = {0};
    left = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) add_long_run(seed, 0, 5000, &all);
    cr_assert_gt(all.faults[GW_SIM_HANGING_DISK], 100);
    cr_assert_gt(left, 10, "%u", left);
}

Test(records, where_any_quorum_will_do_they_cost_nothing) {
    gw_sim_result all = {0};
    for (uint64_t seed = 101; seed <= 140; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        options.majority = options.fast = 0;
        options.peers = 2 + (uint32_t)seed % 4;
        options.crash_ms = 1000;
        options.record_ms = 1000;
        options.spoil_permille = 100;
        gw_sim_draw(&options);
        add_run(&options, &all);
    }
    cr_assert_gt(all.faults[GW_SIM_FAILED_RECORD], 50);
    cr_assert_gt(all.faults[GW_SIM_SPOILT_RECORD], 5);
}

/* Lost disks. */

Test(records, a_majority_goes_on_when_others_have_lost_their_disks) {
    gw_sim_result all = {0};
    for (uint64_t seed = 1; seed <= 110; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        options.majority = 1;
        options.fast = seed % 2 == 0;
        options.peers = 3 + (uint32_t)seed % 4;
        options.crash_ms = 1000;
        options.wipe_permille = 300;
        options.spoil_permille = 100;
        gw_sim_draw(&options);
        add_run(&options, &all);
    }
    cr_assert_gt(all.faults[GW_SIM_WIPE], 50, "%lu", all.faults[GW_SIM_WIPE]);
    cr_assert_gt(all.faults[GW_SIM_SPOILT_RECORD], 10, "%lu", all.faults[GW_SIM_SPOILT_RECORD]);
}

static void put_record(sim_record *record, const gw_view *installed) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    if (installed != NULL) gw_ballot_install(&ballot, installed);
    record->bytes = malloc(gw_ballot_bytes(&ballot));
    cr_assert_not_null(record->bytes);
    gw_writer w = gw_writer_on(record->bytes, gw_ballot_bytes(&ballot));
    gw_ballot_put(&w, &ballot);
    record->length = w.length;
    gw_ballot_close(&ballot);
}

/* Whether the last member may lose its disk. There are `peers` peers; the first `members` of them have
 * founded the job, and the first `know` of these have it on record. */
static bool may_lose(uint32_t peers, uint32_t founders, uint32_t members, uint32_t know) {
    gw_sim_options options = {.majority = 1, .peers = peers, .founders = founders, .steps = 1, .shards = 1};
    gw_sim_result result = {.failed = false};
    gw_view view = {.epoch = 1, .count = members};
    sim_cluster *c = sim_cluster_open(&options, &result);
    for (uint32_t i = 0; i < members; i++)
        view.members[i] = (gw_member){.id = c->peers[i].id, .boot = 1, .nonce = 1};
    view.leader = c->peers[0].id;
    gw_view_seal(&view);
    for (uint32_t i = 0; i < peers; i++) put_record(&c->peers[i].disk.record, i < know ? &view : NULL);
    bool may = sim_can_lose_disk(c, &c->peers[members - 1]);
    sim_cluster_close(c);
    return may;
}

Test(records, as_many_disks_may_be_lost_as_majority_mode_promises) {
    cr_assert(may_lose(3, 3, 3, 3));
    cr_assert(may_lose(3, 3, 3, 0), "the job has not begun");
    cr_assert_not(may_lose(1, 1, 1, 1), "no other peer is left");
    cr_assert(may_lose(5, 4, 4, 3));
    cr_assert_not(may_lose(6, 4, 4, 2), "four peers that know nothing could found the job again");
}

/* Seeds. */

Test(records, a_third_of_the_seeds_has_such_faults) {
    enum { SEEDS = 2000 };
    uint32_t majority = 0, wiped = 0, fails = 0, spoils = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        gw_sim_draw(&options);
        majority += options.majority;
        wiped += options.majority != 0 && options.wipe_permille != 0;
        fails += options.record_ms != 0;
        spoils += options.spoil_permille != 0;
    }
    cr_assert(3 * wiped > majority - majority / 5 && 3 * wiped < majority + majority / 5, "%u of %u", wiped,
              majority);
    cr_assert(3 * fails > SEEDS - SEEDS / 5 && 3 * fails < SEEDS + SEEDS / 5, "%u", fails);
    cr_assert(7 * spoils > SEEDS - SEEDS / 5 && 7 * spoils < SEEDS + SEEDS / 4, "%u", spoils);
}

Test(records, where_a_majority_rules_disks_are_lost_as_is_given) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        gw_sim_options options = gw_sim_unset(seed);
        options.majority = 1;
        options.wipe_permille = (uint32_t)seed % 2 * 50;
        gw_sim_draw(&options);
        cr_assert_eq(options.wipe_permille, (uint32_t)seed % 2 * 50);
    }
}
