/* The simulator's checks by brains that do what they are there to find: each fault is planted between every
 * brain and its world, and one of a few seeds must tell of it in that check's own words. */
#include "core/message.h"
#include "core/peer.h"
#include "tools/sim/cluster.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 20, STEPS = 150, SHARDS = 24 };

/* ---- what is planted ---- */

typedef struct canary {
    const char *phrase;                                           /* of the check that must tell of it */
    void (*act)(gw_peer *peer, gw_actions *actions, uint32_t at); /* does to an action what it likes */
    gw_sim_fault after; /* the seed must have had one of these before; GW_SIM_FAULTS = nothing */
} canary;

static canary planted; /* act NULL: nothing */
static uint32_t seen;  /* a canary's own count, from 0 in each run */

void __real_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t now_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t now_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t now_ns, gw_actions *actions) {
    __real_gw_peer_step(peer, event, now_ns, actions);
    uint32_t own = actions->count; /* what it adds is left alone */
    for (uint32_t i = 0; i < own && planted.act != NULL; i++) planted.act(peer, actions, i);
}

/* Nothing else goes wrong than what a test asks for. */
static gw_sim_options quiet(void) {
    gw_sim_options options = gw_sim_unset(0);
    options.peers = options.founders = 3;
    options.steps = STEPS;
    options.shards = SHARDS;
    options.shard_us = 3000;
    options.majority = options.fast = options.end_step = options.verify_permille = 0;
    options.checkpoint_steps = 2;
    options.fault_ms = 3000;
    options.restart_ms = 200;
    gw_sim_undisturbed(&options);
    return options;
}

static void assert_found(const gw_sim_options *options, const canary *one) {
    bool found = false;
    char why[sizeof(((gw_sim_result *)0)->why)] = "none";
    for (uint64_t seed = 1; seed <= SEEDS && !found; seed++) {
        gw_sim_options run = *options;
        gw_sim_result result;
        run.seed = seed;
        gw_sim_draw(&run);
        planted = *one;
        seen = 0;
        gw_sim_run(&run, &result);
        planted = (canary){.act = NULL};
        if (result.failed) memcpy(why, result.why, sizeof why);
        found = result.failed && strstr(result.why, one->phrase) != NULL &&
                (one->after == GW_SIM_FAULTS || result.faults[one->after] > 0);
    }
    cr_assert(found, "after %u: no seed fails as '%s', but: %s", one->after, one->phrase, why);
}

static void find(const gw_sim_options *options, const char *phrase,
                 void (*act)(gw_peer *peer, gw_actions *actions, uint32_t at)) {
    assert_found(options, &(canary){.phrase = phrase, .act = act, .after = GW_SIM_FAULTS});
}

static void find_after_damage(gw_sim_options options, const char *phrase,
                              void (*act)(gw_peer *peer, gw_actions *actions, uint32_t at)) {
    options.damage_ms = 400;
    assert_found(&options, &(canary){phrase, act, GW_SIM_DAMAGED_CHUNK});
}

static void find_after_wipe(gw_sim_options options, const char *phrase,
                            void (*act)(gw_peer *peer, gw_actions *actions, uint32_t at)) {
    options.crash_ms = 1500;
    options.wipe_permille = 500;
    assert_found(&options, &(canary){phrase, act, GW_SIM_WIPE});
}

static void find_after_power_loss(gw_sim_options options, const char *phrase,
                                  void (*act)(gw_peer *peer, gw_actions *actions, uint32_t at)) {
    options.power_ms = 1500;
    options.unsynced_permille = 700;
    assert_found(&options, &(canary){phrase, act, GW_SIM_UNSYNCED});
}

/* ---- checkpoints ---- */

enum { CHECKPOINTS_FIRST = 9 }; /* of some peer, before it goes wrong: faults come first */

static void keep_none(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_RETAIN && seen++ >= CHECKPOINTS_FIRST) action->count = 0;
}

static void keep_one(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    gw_peer_status status;
    if (action->kind != GW_ACT_RETAIN || seen++ < CHECKPOINTS_FIRST) return;
    gw_peer_status_get(peer, &status);
    action->hashes = gw_actions_copy(actions, &status.checkpoint_root, sizeof status.checkpoint_root);
    action->count = 1;
}

static void write_nothing(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_SAVE && seen++ >= CHECKPOINTS_FIRST) action->flag = true;
}

static void begin_anew(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind != GW_ACT_LOAD || action->load_kind != GW_LOAD_MANIFEST) return;
    action->load_kind = GW_LOAD_INIT;
    action->step = 0;
}

/* What disks have lost, some of them, excuses nothing of the rest. */
Test(canaries, the_last_checkpoint_is_deleted) {
    const char *phrase = "has deleted the last copy of some of the checkpoint";
    gw_sim_options options = quiet();
    options.peers = options.founders = 1;
    options.fault_ms = 9000; /* it looks for others first */
    find(&options, phrase, keep_none);
    find_after_damage(options, phrase, keep_none);
    find_after_wipe(options, phrase, keep_none);
}

Test(canaries, one_of_those_to_be_kept_is_deleted) {
    const char *phrase = "that was told to be complete, and the last 2 are not all there";
    gw_sim_options options = quiet();
    find(&options, phrase, keep_one);
    find_after_damage(options, phrase, keep_one);
    find_after_wipe(options, phrase, keep_one);
    find_after_power_loss(options, phrase, keep_one);
}

Test(canaries, what_is_on_no_disk_is_told_to_be_complete) {
    const char *phrase = "is complete, but of its chunk";
    gw_sim_options options = quiet();
    find(&options, phrase, write_nothing);
    find_after_damage(options, phrase, write_nothing);
    find_after_wipe(options, phrase, write_nothing);
    find_after_power_loss(options, phrase, write_nothing);
}

Test(canaries, a_complete_checkpoint_is_passed_over) {
    gw_sim_options options = quiet();
    options.power_ms = 800;
    options.fault_ms = 6000;
    find(&options, "but its view has all of the checkpoint", begin_anew);
}
