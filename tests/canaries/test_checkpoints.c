/* What is kept, passed over or told of checkpoints, and what is written to them. */
#include "tests/canaries/canary.h"

#include <criterion/criterion.h>
#include <stdio.h>

static void find_after_damage(gw_sim_options options, const char *phrase, canary_deed act) {
    options.damage_ms = 400;
    canary_assert_found(&options, &(canary){.phrase = phrase, .act = act, .after = GW_SIM_FLIPPED_CHUNK});
}

static void find_after_wipe(gw_sim_options options, const char *phrase, canary_deed act) {
    options.crash_ms = 1500;
    options.wipe_permille = 500;
    canary_assert_found(&options, &(canary){.phrase = phrase, .act = act, .after = GW_SIM_WIPE});
}

static void find_after_power_loss(gw_sim_options options, const char *phrase, canary_deed act) {
    options.power_ms = 1500;
    options.unsynced_permille = 700;
    canary_assert_found(&options, &(canary){.phrase = phrase, .act = act, .after = GW_SIM_LOST_CHUNK});
}

/* Checkpoints. */

enum { CHECKPOINTS_FIRST = 9 }; /* of some peer, before it goes wrong: faults come first */

static void keep_none(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_RETAIN && canary_seen++ >= CHECKPOINTS_FIRST) action->retain.count = 0;
}

static void keep_one(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    gw_peer_status status;
    if (action->kind != GW_ACT_RETAIN || canary_seen++ < CHECKPOINTS_FIRST) return;
    gw_peer_status_get(peer, &status);
    action->retain.roots = gw_actions_copy(actions, &status.checkpoint_root, sizeof status.checkpoint_root);
    action->retain.count = 1;
}

static void write_nothing(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_SAVE && canary_seen++ >= CHECKPOINTS_FIRST) action->save.hash_only = true;
}

static void begin_anew(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind != GW_ACT_LOAD || action->load.kind != GW_LOAD_MANIFEST) return;
    action->load.kind = GW_LOAD_INIT;
    action->step = 0;
}

/* Some of them are written; all are told to be. */
static void write_some(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_SAVE && canary_seen++ >= CHECKPOINTS_FIRST)
        action->save.hash_only |= canary_seen & 1;
}

/* What disks have lost, some of them, excuses nothing of the rest. */
Test(canary_checkpoints, the_last_checkpoint_is_deleted) {
    const char *phrase = "has deleted the last copy of some of the checkpoint";
    gw_sim_options options = canary_quiet();
    options.peers = options.founders = 1;
    options.fault_ms = 9000; /* it looks for others first */
    canary_find(&options, phrase, keep_none);
    find_after_damage(options, phrase, keep_none);
    find_after_wipe(options, phrase, keep_none);
}

Test(canary_checkpoints, one_of_those_to_be_kept_is_deleted) {
    const char *phrase = "that was reported to be complete, and the last 2 are not all there";
    gw_sim_options options = canary_quiet();
    canary_find(&options, phrase, keep_one);
    find_after_damage(options, phrase, keep_one);
    find_after_wipe(options, phrase, keep_one);
    find_after_power_loss(options, phrase, keep_one);
}

Test(canary_checkpoints, what_is_on_no_disk_is_told_to_be_complete) {
    const char *phrase = "is complete, but of its chunk";
    gw_sim_options options = canary_quiet();
    canary_find(&options, phrase, write_nothing);
    find_after_damage(options, phrase, write_nothing);
    find_after_wipe(options, phrase, write_nothing);
    find_after_power_loss(options, phrase, write_nothing);
}

/* Slowness refuses nothing, and what was full takes its share again, seconds later. */
Test(canary_checkpoints, who_had_a_bad_disk_once_is_counted_on_later) {
    const char *phrase = "is complete, but of its chunk";
    gw_sim_options slow = canary_quiet(), full = canary_quiet();
    slow.shard_us = full.shard_us = 30000;
    slow.slow_disk_ms = full.full_ms = 1000;
    canary_assert_found(&slow, &(canary){.phrase = phrase, .act = write_some, .after = GW_SIM_SLOW_DISK});
    canary_assert_found(&full, &(canary){.phrase = phrase, .act = write_some, .after = GW_SIM_FULL_DISK});
}

static void copy_less(gw_peer_config *config) {
    config->replicas--;
}

static void keep_less(gw_peer_config *config) {
    config->keep--;
}

/* Whatever is asked for. */
Test(canary_checkpoints, there_is_less_of_them_than_is_to_be) {
    gw_sim_options options = canary_quiet();
    options.peers = options.founders = GW_SIM_KEEP;
    for (uint32_t asked = 3; asked <= GW_SIM_KEEP; asked++) {
        char phrase[64];
        options.replicas = options.keep = asked;
        snprintf(phrase, sizeof phrase, "copies, not %u", asked);
        canary_find_configured(&options, phrase, copy_less);
        snprintf(phrase, sizeof phrase, "and the last %u are not all there", asked);
        canary_find_configured(&options, phrase, keep_less);
    }
}

Test(canary_checkpoints, a_complete_checkpoint_is_passed_over) {
    gw_sim_options options = canary_quiet();
    options.power_ms = 800;
    options.fault_ms = 6000;
    canary_find(&options, "but its view has all of the checkpoint", begin_anew);
}

static void install_in_two(sim_cluster *c) {
    gw_view view = {.epoch = 3, .leader = c->peers[0].id, .count = 2};
    for (uint32_t i = 0; i < 2; i++)
        view.members[i] = (gw_member){.id = c->peers[i].id, .boot = c->peers[i].boot};
    gw_view_seal(&view);
    for (uint32_t i = 0; i < 2; i++) c->peers[i].m.fence = view;
}

/* Two peers are in one view: the first has the manifest, the other has all chunks. */
static sim_judges *open_two(gw_sim_options *options, gw_sim_result *result) {
    sim_cluster *c = sim_cluster_open(options, result);
    sim_judges *judges = sim_judges_open(c);
    judges->kept.complete[judges->kept.complete_count++] =
        (sim_complete){.step = 5, .state = 77, .root = sim_root(5, 77)};
    for (uint32_t i = 0; i < 2; i++) {
        sim_peer *p = &c->peers[i];
        p->boot = 1;
        p->brain = (gw_peer *)p; /* it runs; nothing asks it */
        p->orphans = true;
        sim_saved *saved = &p->disk.saved[p->disk.saved_count++];
        *saved = (sim_saved){.step = 5, .state = 77, .manifest = i == 0, .chunks = gw_set_of(SIM_CHUNKS)};
        for (uint32_t chunk = 0; chunk < SIM_CHUNKS && i == 1; chunk++) gw_set_add(&saved->chunks, chunk);
    }
    install_in_two(c);
    return judges;
}

static void close_all(sim_judges *judges) {
    sim_cluster *c = judges->c;
    for (uint32_t i = 0; i < c->count; i++) c->peers[i].brain = NULL;
    sim_cluster_close(c);
    sim_judges_close(judges);
}

/* That somebody could not load it once excuses those only who do not count on a life that has told that it
 * has nothing of it. */
Test(canary_checkpoints, one_that_could_not_be_loaded_once_is_passed_over_later) {
    const char *phrase = "but its view has all of the checkpoint";
    gw_sim_options options = {.peers = 2, .founders = 2, .steps = 9, .shards = 1};
    gw_sim_result result = {.failed = false};
    const sim_load_request load = {.kind = GW_LOAD_INIT};
    sim_judges *judges = open_two(&options, &result);
    sim_cluster *c = judges->c;
    sim_peer *other = &c->peers[1];
    other->disk.saved[0].untold = 1;
    SIM_NOTIFY(c, state_wanted, &c->peers[0], &load);
    cr_assert(!result.failed, "%s", result.why);
    cr_assert_eq(result.untold, 1);
    other->disk.saved[0].manifest = true; /* it has come here since */
    SIM_NOTIFY(c, state_wanted, &c->peers[0], &load);
    cr_assert_not_null(strstr(result.why, phrase));
    other->disk.saved[0].manifest = false;
    result.failed = false;
    other->boot++; /* its next life has told nothing */
    install_in_two(c);
    SIM_NOTIFY(c, state_wanted, &c->peers[0], &load);
    cr_assert(result.failed && result.untold == 1);
    close_all(judges);
}

/* A checkpoint that ends a job of float sums, and one who knows it goes on from another one. */
Test(canary_checkpoints, an_end_on_record_is_undone) {
    gw_sim_options options = {.fast = 1, .majority = 1, .peers = 1, .founders = 3, .steps = 5, .shards = 1};
    gw_sim_result result = {.done_ns = 1};
    const sim_load_request load = {.kind = GW_LOAD_INIT};
    sim_cluster *c = sim_cluster_open(&options, &result);
    sim_judges *judges = sim_judges_open(c);
    judges->kept.final_root = sim_root(5, 77);
    sim_peer *p = &c->peers[0];
    p->boot = 1;
    p->brain = (gw_peer *)p; /* it runs; nothing asks it */
    p->m.fence = (gw_view){.epoch = 3, .count = 1, .members[0] = {.id = p->id, .boot = 1}};
    p->disk.saved[p->disk.saved_count++] =
        (sim_saved){.step = 5, .state = 77, .manifest = true, .chunks = gw_set_of(SIM_CHUNKS)};
    SIM_NOTIFY(c, state_wanted, p, &load);
    cr_assert(!result.failed, "%s", result.why);
    p->disk.saved[0].ended = true;
    SIM_NOTIFY(c, state_wanted, p, &load);
    cr_assert_not_null(strstr(result.why, "but its view knows that the job has ended"));
    close_all(judges);
}

/* What is saved. */

static void save_the_next_step(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    actions->list[at].step += actions->list[at].kind == GW_ACT_SAVE;
}

static void name_other_chunks(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind != GW_ACT_MANIFEST) return;
    gw_hash *hashes =
        gw_actions_copy(actions, action->manifest.hashes, action->manifest.count * sizeof *hashes);
    hashes[0].bytes[0] ^= 1;
    action->manifest.hashes = hashes;
}

Test(canary_checkpoints, another_state_is_saved_than_is_held) {
    gw_sim_options options = canary_quiet();
    canary_find(&options, "but holds step", save_the_next_step);
    canary_find(&options, "of another state", name_other_chunks);
}
