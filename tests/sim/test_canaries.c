/* The simulator's checks by brains that do what they are there to find: each fault is planted between every
 * brain and its world, and one of a few seeds must tell of it in that check's own words. For each check there
 * is a fault; a new one gets its own. */
#include "core/message.h"
#include "core/peer.h"
#include "net/packet.h"
#include "sim/command.h"
#include "tools/sim/cluster.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 100, STEPS = 150, SHARDS = 24 };

/* ---- what is planted ---- */

typedef void (*deed)(gw_peer *peer, gw_actions *actions, uint32_t at);
typedef void (*belief)(gw_peer *peer, gw_event *event, gw_actions *actions);

typedef struct canary {
    const char *phrase;                        /* of the check that must tell of it */
    void (*configure)(gw_peer_config *config); /* makes another brain */
    belief hear;                               /* what the brain believes instead of what has happened */
    deed act;                                  /* does to an action what it likes */
    bool gullible;                             /* every datagram is sound to it */
    gw_sim_fault after; /* the seed must have had one of these before; GW_SIM_FAULTS = nothing */
} canary;

static canary planted;  /* all zeros: nothing */
static uint32_t seen;   /* a canary's own count, from 0 in each run */
static uint64_t now_ns; /* of the step in progress */
static struct {
    const gw_peer *peer;
    gw_peer_id id;
    int64_t row[GW_SLOTS]; /* of its last REDUCE */
} brains[SIM_PEERS];       /* by the last byte of their addresses: each one's last life */

gw_peer *__real_gw_peer_create(const gw_peer_config *config, gw_err *err);
gw_peer *__wrap_gw_peer_create(const gw_peer_config *config, gw_err *err);
gw_peer *__wrap_gw_peer_create(const gw_peer_config *config, gw_err *err) {
    gw_peer_config other = *config;
    if (planted.configure != NULL) planted.configure(&other);
    gw_peer *peer = __real_gw_peer_create(&other, err);
    brains[config->addrs[0].ip[3]].peer = peer;
    brains[config->addrs[0].ip[3]].id = config->id;
    return peer;
}

static void note_row(const gw_peer *peer, const int64_t *row) {
    for (uint32_t i = 0; i < SIM_PEERS; i++)
        if (brains[i].peer == peer) memcpy(brains[i].row, row, sizeof brains[i].row);
}

static const int64_t *row_of(const gw_peer_id *id) {
    for (uint32_t i = 0; i < SIM_PEERS; i++)
        if (gw_peer_id_equal(&brains[i].id, id)) return brains[i].row;
    return brains[0].row;
}

void __real_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions) {
    gw_event heard = *event;
    now_ns = at_ns;
    if (planted.hear != NULL) planted.hear(peer, &heard, actions);
    __real_gw_peer_step(peer, &heard, at_ns, actions);
    uint32_t own = actions->count; /* what is added is left alone */
    for (uint32_t i = 0; i < own; i++) {
        if (actions->list[i].kind == GW_ACT_REDUCE) note_row(peer, actions->list[i].slots);
        if (planted.act != NULL) planted.act(peer, actions, i);
    }
}

gw_packet_verdict __real_gw_packet_open(gw_packets *packets, const gw_addr *from, uint8_t *datagram,
                                        size_t bytes, uint64_t at_ns, gw_peer_id *sender,
                                        const uint8_t **body, size_t *body_bytes);
gw_packet_verdict __wrap_gw_packet_open(gw_packets *packets, const gw_addr *from, uint8_t *datagram,
                                        size_t bytes, uint64_t at_ns, gw_peer_id *sender,
                                        const uint8_t **body, size_t *body_bytes);
gw_packet_verdict __wrap_gw_packet_open(gw_packets *packets, const gw_addr *from, uint8_t *datagram,
                                        size_t bytes, uint64_t at_ns, gw_peer_id *sender,
                                        const uint8_t **body, size_t *body_bytes) {
    if (planted.gullible) return GW_PACKET_GOOD;
    return __real_gw_packet_open(packets, from, datagram, bytes, at_ns, sender, body, body_bytes);
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
        planted = (canary){.phrase = NULL};
        if (result.failed) memcpy(why, result.why, sizeof why);
        found = result.failed && strstr(result.why, one->phrase) != NULL &&
                (one->after == GW_SIM_FAULTS || result.faults[one->after] > 0);
    }
    cr_assert(found, "after %u: no seed fails as '%s', but: %s", one->after, one->phrase, why);
}

static void find(const gw_sim_options *options, const char *phrase, deed act) {
    assert_found(options, &(canary){.phrase = phrase, .act = act, .after = GW_SIM_FAULTS});
}

static void find_believed(const gw_sim_options *options, const char *phrase, belief hear, deed act) {
    assert_found(options, &(canary){.phrase = phrase, .hear = hear, .act = act, .after = GW_SIM_FAULTS});
}

static void find_configured(const gw_sim_options *options, const char *phrase,
                            void (*configure)(gw_peer_config *config)) {
    assert_found(options, &(canary){.phrase = phrase, .configure = configure, .after = GW_SIM_FAULTS});
}

static void find_after_damage(gw_sim_options options, const char *phrase, deed act) {
    options.damage_ms = 400;
    assert_found(&options, &(canary){.phrase = phrase, .act = act, .after = GW_SIM_FLIPPED_CHUNK});
}

static void find_after_wipe(gw_sim_options options, const char *phrase, deed act) {
    options.crash_ms = 1500;
    options.wipe_permille = 500;
    assert_found(&options, &(canary){.phrase = phrase, .act = act, .after = GW_SIM_WIPE});
}

static void find_after_power_loss(gw_sim_options options, const char *phrase, deed act) {
    options.power_ms = 1500;
    options.unsynced_permille = 700;
    assert_found(&options, &(canary){.phrase = phrase, .act = act, .after = GW_SIM_LOST_CHUNK});
}

/* ---- deeds ---- */

static gw_action *add_copy(gw_actions *actions, uint32_t at) {
    gw_action copy = actions->list[at];
    gw_action *added = gw_actions_add(actions, copy.kind);
    *added = copy;
    return added;
}

static void drop(gw_action *action) {
    action->kind = GW_ACT_ABANDON; /* of nothing */
}

static uint64_t step_of(const gw_peer *peer) {
    gw_peer_status status;
    gw_peer_status_get(peer, &status);
    return status.step;
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

/* A checkpoint that ends a job of float sums, and one who knows it goes on from another one. */
Test(canaries, an_end_on_record_is_undone) {
    gw_sim_options options = {.fast = 1, .majority = 1, .founders = 3, .steps = 5};
    gw_sim_result result = {.done_ns = 1};
    gw_action load = {.kind = GW_ACT_LOAD, .load_kind = GW_LOAD_INIT};
    sim_cluster *c = sim_cluster_new(1);
    c->options = &options;
    c->result = &result;
    c->final_root = sim_root(5, 77);
    sim_peer *p = &c->peers[0];
    sim_name(p);
    p->boot = 1;
    p->brain = (gw_peer *)p; /* it runs; nothing asks it */
    p->m.fence = (gw_view){.epoch = 3, .count = 1, .members[0] = {.id = p->id, .boot = 1}};
    p->disk.saved[p->disk.saved_count++] =
        (sim_saved){.step = 5, .state = 77, .manifest = true, .chunks = gw_set_of(SIM_CHUNKS)};
    sim_check_load(c, p, &load);
    cr_assert(!result.failed, "%s", result.why);
    p->disk.saved[0].ended = true;
    sim_check_load(c, p, &load);
    cr_assert_not_null(strstr(result.why, "but its view knows that the job has ended"));
    gw_set_free(&p->disk.saved[0].chunks);
    free(c);
}

/* ---- what is saved ---- */

static void save_the_next_step(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    actions->list[at].step += actions->list[at].kind == GW_ACT_SAVE;
}

static void name_other_chunks(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind != GW_ACT_MANIFEST) return;
    gw_hash *hashes = gw_actions_copy(actions, action->hashes, action->count * sizeof *hashes);
    hashes[0].bytes[0] ^= 1;
    action->hashes = hashes;
}

Test(canaries, another_state_is_saved_than_is_held) {
    gw_sim_options options = quiet();
    find(&options, "but holds step", save_the_next_step);
    find(&options, "of another state", name_other_chunks);
}

/* ---- sums ---- */

/* What is said of a sum is not believed; what its members decided is what they entered with. */
static void believe_sum(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)actions;
    static int64_t slots[SIM_PEERS * GW_SLOTS];
    gw_peer_status status;
    if (event->kind != GW_EV_REDUCED || event->outcome != GW_DONE || event->slots != NULL) return;
    gw_peer_status_get(peer, &status);
    if (status.view == NULL) return;
    for (uint32_t rank = 0; rank < status.view->count; rank++)
        memcpy(slots + (size_t)rank * GW_SLOTS, row_of(&status.view->members[rank].id),
               GW_SLOTS * sizeof *slots);
    event->coverage_ok = event->fingerprint_ok = true;
    event->slots = slots;
}

static void deal_one_twice(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_DEAL && action->first > 0 && action->first < action->end) action->first--;
}

static void deal_all_but_one(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_DEAL && action->first < action->end) action->end--;
}

static void apply_the_next_step(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    actions->list[at].step += actions->list[at].kind == GW_ACT_APPLY;
}

Test(canaries, a_damaged_sum_is_applied) {
    gw_sim_options options = quiet();
    options.corrupt_permille = 100;
    find_believed(&options, "than the undisturbed run", believe_sum, NULL);
    options.majority = options.fast = 1;
    find_believed(&options, "than others of its view", believe_sum, NULL);
}

Test(canaries, a_sum_with_a_shard_too_many_or_too_few_is_applied) {
    gw_sim_options options = quiet();
    find_believed(&options, " 2 times", believe_sum, deal_one_twice);
    find_believed(&options, " 0 times", believe_sum, deal_all_but_one);
}

Test(canaries, the_sum_of_another_step_is_applied) {
    gw_sim_options options = quiet();
    find(&options, ", its sum is of step", apply_the_next_step);
}

/* ---- what was found to be wrong ---- */

static void see_no_dispute(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind == GW_EV_REDUCED) event->check_table = NULL;
}

/* At the step that it was thrown out of. */
static bool goes_on_at_its_step(const gw_peer *peer, const gw_actions *actions, uint32_t at) {
    bool installs = false;
    for (uint32_t i = 0; i < at; i++) installs |= actions->list[i].kind == GW_ACT_INSTALL;
    return installs && step_of(peer) > 0 && actions->list[at].step == step_of(peer);
}

static void keep_what_was_added(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    if (action->kind == GW_ACT_BEGIN_STEP && goes_on_at_its_step(peer, actions, at)) drop(action);
}

static void keep_the_state(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    if (action->kind != GW_ACT_LOAD || !goes_on_at_its_step(peer, actions, at)) return;
    gw_event event = {
        .kind = GW_EV_LOADED, .token = action->token, .outcome = GW_DONE, .fingerprint = action->fingerprint};
    drop(action);
    __real_gw_peer_step(peer, &event, now_ns, actions);
}

static bool is_blame(const gw_action *action) {
    return action->kind == GW_ACT_NOTICE && action->notice == GW_NOTICE_CORRUPT;
}

static void blame_another(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    for (uint32_t i = 0; i < SIM_PEERS && is_blame(action); i++) {
        if (brains[i].peer == NULL || gw_peer_id_equal(&brains[i].id, &action->peer)) continue;
        action->peer = brains[i].id;
        return;
    }
}

static void blame_twice(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (is_blame(&actions->list[at])) add_copy(actions, at);
}

/* Of two that compute a shard each is heard to have got what the other got: so all believe. */
static void mix_up(gw_peer *peer, gw_event *event, gw_actions *actions) {
    static int64_t table[GW_VERIFY_TABLE];
    (void)peer, (void)actions;
    if (event->kind != GW_EV_REDUCED || event->check_table == NULL) return;
    memcpy(table, event->check_table, sizeof table);
    for (int64_t *entry = table; entry < table + GW_VERIFY_TABLE; entry += GW_VERIFY_WORDS) {
        int64_t own = entry[1], *again = entry + (entry[2] != 0 ? 3 : 5);
        if (*again == 0) continue;
        entry[1] = *again;
        *again = own;
    }
    event->check_table = table;
}

static void see_damage(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind != GW_EV_LOOKED) return;
    event->outcome = GW_FAILED;
    event->damaged = true;
}

static gw_sim_options with_wrong_contributions(void) {
    gw_sim_options options = quiet();
    options.verify_permille = 1000;
    options.wrong_permille = 20;
    return options;
}

/* With float sums as with exact ones; where all shards are computed twice, and where a share of them is. */
Test(canaries, what_is_computed_wrong_is_applied) {
    gw_sim_options options = with_wrong_contributions();
    find_believed(&options, "than the undisturbed run", see_no_dispute, NULL);
    options.majority = options.fast = 1;
    find_believed(&options, "that is not that of its shards", see_no_dispute, NULL);
    options.verify_permille = 200;
    find_believed(&options, "that is not that of its shards", see_no_dispute, NULL);
}

Test(canaries, who_computes_wrong_brings_its_work_or_its_state) {
    gw_sim_options options = with_wrong_contributions();
    find(&options, " what it had computed before peer ", keep_what_was_added);
    find(&options, " with the state that it had when peer ", keep_the_state);
    options.majority = options.fast = 1;
    find(&options, " what it had computed before peer ", keep_what_was_added);
}

Test(canaries, who_did_no_wrong_is_blamed) {
    const char *phrase = " wrongly blames peer ";
    gw_sim_options sound = quiet(), options = with_wrong_contributions();
    sound.verify_permille = 1000;
    find(&options, phrase, blame_another);
    find(&options, phrase, blame_twice);
    find_believed(&sound, phrase, see_damage, NULL);
    find_believed(&options, phrase, mix_up, NULL);
    options.majority = options.fast = 1;
    find_believed(&options, phrase, mix_up, NULL);
    options.verify_permille = 100;
    options.wrong_permille = 200;
    find_believed(&options, phrase, mix_up, NULL);
}

/* ---- views ---- */

/* By all but itself. */
static void name_another_life(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    if (action->kind != GW_ACT_INSTALL || step_of(peer) == 0) return;
    gw_view *other = gw_actions_copy(actions, action->view, sizeof *other);
    for (uint32_t i = 0; i < other->count; i++) other->members[i].boot++;
    action->view = other;
}

Test(canaries, another_life_than_the_view_names_takes_part) {
    gw_sim_options options = quiet();
    options.crash_ms = 1000;
    find(&options, "outside a view, twice, or of another step", name_another_life);
}

static void take_any_quorum(gw_peer_config *config) {
    config->quorum = GW_QUORUM_ANY;
}

Test(canaries, two_views_of_an_epoch_go_on) {
    gw_sim_options options = quiet();
    options.majority = 1;
    options.peers = options.founders = 4;
    options.partition_ms = 3000;
    options.fault_ms = 20000;
    options.steps = 600;
    find_configured(&options, "two views of epoch", take_any_quorum);
}

/* ---- what is shown, and its effects ---- */

/* Before it is known that the others have come to the same. */
static void show_at_once(gw_peer *peer, gw_event *event, gw_actions *actions) {
    if (event->kind != GW_EV_APPLIED || event->outcome != GW_DONE) return;
    gw_action *notice = gw_actions_add(actions, GW_ACT_NOTICE);
    notice->notice = GW_NOTICE_STEP;
    notice->step = step_of(peer);
    notice->fingerprint = event->fingerprint;
}

static void show_another(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_NOTICE && action->notice == GW_NOTICE_STEP) action->fingerprint ^= 2;
}

/* At the next view. */
static void go_back(gw_peer *peer, gw_actions *actions, uint32_t at) {
    if (actions->list[at].kind != GW_ACT_INSTALL || step_of(peer) < 4) return;
    gw_actions_add(actions, GW_ACT_LOAD)->load_kind = GW_LOAD_INIT;
}

static void have_effects_of_the_step_before(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    actions->list[at].step -= actions->list[at].kind == GW_ACT_COMMIT && actions->list[at].step > 0;
}

static void have_no_effects_of_step_5(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    if (action->kind != GW_ACT_COMMIT || action->step != 5) return;
    gw_event event = {.kind = GW_EV_COMMITTED, .token = action->token, .outcome = GW_DONE};
    drop(action);
    __real_gw_peer_step(peer, &event, now_ns, actions);
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

Test(canaries, a_state_that_was_left_behind_is_gone_on_from) {
    gw_sim_options options = torn();
    options.shards = 12;
    options.shard_us = 300000;
    options.steps = 180; /* in so many one seed of twenty goes wrong so */
    options.fault_ms = 180000;
    options.partition_ms = 1500;
    options.break_ms = 500;
    find_configured(&options, "which had been left behind", take_any_state);
}

Test(canaries, different_states_of_a_step_are_shown) {
    gw_sim_options options = torn();
    find_believed(&options, "shows another state of step", show_at_once, NULL);
    find(&options, "leaves a state of step", go_back);
}

Test(canaries, another_state_is_shown_than_is_held) {
    gw_sim_options options = quiet();
    find(&options, "but holds another state", show_another);
}

Test(canaries, a_state_is_left_for_an_earlier_one) {
    gw_sim_options options = quiet();
    options.checkpoint_steps = 0;
    options.crash_ms = 500;
    find(&options, "goes back from step", go_back);
}

Test(canaries, effects_of_another_step_or_state_take_place_or_none) {
    gw_sim_options options = quiet();
    find(&options, "but is at step", have_effects_of_the_step_before);
    find(&options, "no effect of step 5 has taken place", have_no_effects_of_step_5);
    gw_sim_result result = {.failed = false};
    uint64_t states[2] = {1, 2};
    uint32_t effects[2] = {0};
    sim_cluster *c = sim_cluster_new(1);
    c->options = &options;
    c->result = &result;
    c->states = states;
    c->effects = effects;
    c->engine = gw_sim_engine_create(1);
    c->peers[0].m = (sim_memory){.has_state = true, .step = 1, .state = 3, .commit_token = 1};
    sim_commit_settle(c, &c->peers[0]);
    cr_assert_not_null(strstr(result.why, "has effects of step 0 from another state"));
    gw_sim_engine_destroy(c->engine);
    free(c);
}

/* ---- ends ---- */

static void end_as(gw_peer *peer, gw_actions *actions, uint32_t at, gw_finish finish, const char *text) {
    if (actions->list[at].kind != GW_ACT_BEGIN_STEP || step_of(peer) != 7 || seen++ != 0) return;
    gw_action *action = gw_actions_add(actions, GW_ACT_FINISH);
    action->finish = finish;
    action->text = text;
}

static void leave_unasked(gw_peer *peer, gw_actions *actions, uint32_t at) {
    end_as(peer, actions, at, GW_FINISH_LEFT, "left");
}

static void give_up(gw_peer *peer, gw_actions *actions, uint32_t at) {
    end_as(peer, actions, at, GW_FINISH_FAILED, "for no reason");
}

static void leave_as_faulty(gw_peer *peer, gw_actions *actions, uint32_t at) {
    end_as(peer, actions, at, GW_FINISH_FAILED, "the machine is faulty");
}

static void call_it_a_tie(gw_peer *peer, gw_actions *actions, uint32_t at) {
    end_as(peer, actions, at, GW_FINISH_FAILED, "nobody can tell which are right");
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
    if (is_end(&actions->list[at]) && seen++ == 0) drop(&actions->list[at]);
}

static void reduce_nothing(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_REDUCE && actions->list[at].step == 9) drop(&actions->list[at]);
}

static void overhear_the_end(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind == GW_EV_APPLIED) event->stop = false;
}

static void want_no_copies(gw_peer_config *config) {
    config->replicas = 0;
}

Test(canaries, a_peer_ends_for_no_reason) {
    gw_sim_options options = quiet();
    find(&options, "nothing has happened to it that allows it", leave_unasked);
    find(&options, "gave up: for no reason", give_up);
}

/* That some bits were wrong somewhere is no reason. */
Test(canaries, a_peer_ends_for_what_another_did) {
    gw_sim_options options = with_wrong_contributions();
    const char *phrase = "nothing has happened to it that allows it";
    assert_found(&options, &(canary){.phrase = phrase, .act = leave_as_faulty, .after = GW_SIM_WRONG});
    assert_found(&options, &(canary){.phrase = phrase, .act = call_it_a_tie, .after = GW_SIM_WRONG});
}

Test(canaries, a_job_ends_otherwise_than_it_should) {
    gw_sim_options options = quiet();
    find(&options, "ended with another root than it should", name_another_root);
    find(&options, "acts after its FINISH", act_after_the_end);
    find(&options, "others do not end", stay_alone);
    options.end_step = 12;
    find_believed(&options, "after the job has ended", overhear_the_end, NULL);
}

Test(canaries, a_job_does_not_begin_or_end) {
    gw_sim_options options = quiet();
    options.bound_ms = 5000;
    find(&options, "is not done", reduce_nothing);
    find_configured(&options, "cannot start", want_no_copies);
}

/* ---- work ---- */

static void add_freeze(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_APPLY) gw_actions_add(actions, GW_ACT_FREEZE)->token = 1;
}

static void add_load(gw_peer *peer, gw_actions *actions, uint32_t at) {
    if (actions->list[at].kind != GW_ACT_APPLY) return;
    gw_action *load = gw_actions_add(actions, GW_ACT_LOAD);
    load->load_kind = GW_LOAD_PEERS;
    load->step = step_of(peer);
}

static void load_what_is_never_made(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_LOAD) actions->list[at].step = STEPS + 1;
}

static void begin_with_a_shard_more(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    actions->list[at].shards += actions->list[at].kind == GW_ACT_BEGIN_STEP;
}

static void begin_a_later_step(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_BEGIN_STEP) actions->list[at].step += 3; /* of as many shards */
}

static void deal_more_than_there_are(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_DEAL && action->list == NULL) action->end += SHARDS;
}

static void deal_more_than_are_listed(gw_peer *peer, gw_actions *actions, uint32_t at) {
    gw_action *action = &actions->list[at];
    (void)peer;
    if (action->kind == GW_ACT_DEAL && action->list != NULL) action->end += SHARDS;
}

static void take_twice(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_TAKE) add_copy(actions, at);
}

static void read_all_the_time(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    for (uint32_t i = 0; actions->list[at].kind == GW_ACT_READ_WORD && i < 4 * SIM_PEERS; i++)
        add_copy(actions, at)->token += (uint64_t)(i + 1) << 40;
}

static void reduce_twice(gw_peer *peer, gw_actions *actions, uint32_t at) {
    (void)peer;
    if (actions->list[at].kind == GW_ACT_REDUCE) add_copy(actions, at)->token++;
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

Test(canaries, a_state_is_changed_while_it_is_in_use) {
    gw_sim_options options = quiet();
    find(&options, "freezes while it applies", add_freeze);
    find(&options, "loads a state while it applies", add_load);
}

Test(canaries, work_is_of_another_step) {
    gw_sim_options options = quiet();
    find(&options, "loads step 151", load_what_is_never_made);
    find(&options, "from the state of step", begin_a_later_step);
    find(&options, " shards, not ", begin_with_a_shard_more);
    options.verify_permille = 1000;
    options.wrong_permille = 20;
    find(&options, " probes step ", probe_the_next_step);
}

Test(canaries, shards_are_claimed_that_there_are_not) {
    gw_sim_options options = quiet();
    find(&options, " claims shard ", deal_more_than_there_are);
    options.crash_ms = 500;
    find(&options, " claims position ", deal_more_than_are_listed);
}

Test(canaries, ranges_are_stolen_without_measure) {
    gw_sim_options options = quiet();
    options.shards = 100;
    options.slow_permille = 500;
    find(&options, "takes a stolen range over one of its own", take_twice);
    find(&options, "one-sided operations open", read_all_the_time);
}

Test(canaries, a_reduction_is_entered_twice) {
    gw_sim_options options = quiet();
    find(&options, "outside a view, twice, or of another step", reduce_twice);
    find(&options, "twice in one view", reduce_again);
}

/* ---- what is sent ---- */

static void damage_root(gw_hash *root, bool is_told) {
    root->bytes[0] = (uint8_t)(root->bytes[0] ^ (is_told ? 1 : 0));
}

/* Messages of this kind name checkpoints that have never been. */
static void misname(gw_actions *actions, uint32_t at, gw_message_kind kind) {
    gw_action *action = &actions->list[at];
    gw_message m;
    gw_err err;
    if (action->kind != GW_ACT_MESSAGE || action->bytes[1] != kind) return;
    cr_assert(gw_message_decode(action->bytes, action->length, &m, &err));
    if (kind == GW_MSG_VOTE) damage_root(&m.report->course.list[0].root, m.report->course.count > 0);
    if (kind == GW_MSG_INSTALL) damage_root(&m.install->course.list[0].root, m.install->course.count > 0);
    if (kind == GW_MSG_READY) damage_root(&m.hash, m.step > 0);
    uint8_t *bytes;
    action->length = gw_message_encode(&m, &bytes);
    action->bytes = gw_actions_copy(actions, bytes, action->length);
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
    if (action->kind == GW_ACT_MESSAGE && action->bytes[1] == GW_MSG_VOTE) action->length /= 2;
}

Test(canaries, another_course_of_a_state_is_told) {
    gw_sim_options options = quiet();
    options.majority = options.fast = 1;
    options.crash_ms = 1000;
    options.fault_ms = 6000;
    find(&options, "a vote of peer", misname_in_votes);
    find(&options, "an installation of peer", misname_in_installations);
    find(&options, "readiness of peer", misname_when_ready);
    find(&options, "sends what cannot be read", send_halves);
}

Test(canaries, a_garbled_datagram_passes) {
    gw_sim_options options = quiet();
    options.garble_permille = 20;
    assert_found(&options,
                 &(canary){.phrase = "was taken for sound", .gullible = true, .after = GW_SIM_FAULTS});
}

/* ---- what is printed of a seed that fails ---- */

/* Lists of what is missing are dealt where somebody has died: that it takes, and nothing else. */
Test(canaries, a_seed_that_fails_is_shrunk_and_its_trace_is_told) {
    enum { LINE = GW_SIM_COMMAND + 100, LINES = 60 };
    planted = (canary){.act = deal_more_than_are_listed};
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
