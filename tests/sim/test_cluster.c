/* The simulator itself, and what its judges excuse, in clusters made by hand. They do not depend on the
 * random numbers of a seed or on brains: the brains here hear and ask only what a test says. */
#include "tools/sim/faults/faults.h"
#include "tools/sim/judge/judge.h"
#include "tools/sim/world/inside.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = 5, STEPS = 10 };

/* Brains that do nothing. */

static gw_peer_config configured; /* the brain that was created last */
static struct {
    gw_event_kind kind;
    gw_outcome outcome;
    gw_hash chunks[SIM_CHUNKS];
} heard;                         /* time of the last event */
static const gw_view *installed; /* a peer that gets an event reports that it is in this view */
static const gw_peer_id *blamed; /* a peer that gets an event reports that this peer's bits were wrong */

gw_peer *__real_gw_peer_create(const gw_peer_config *config, gw_err *err);
gw_peer *__wrap_gw_peer_create(const gw_peer_config *config, gw_err *err);
gw_peer *__wrap_gw_peer_create(const gw_peer_config *config, gw_err *err) {
    configured = *config;
    return __real_gw_peer_create(config, err);
}

void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions) {
    (void)peer, (void)at_ns;
    heard.kind = event->kind;
    heard.outcome = event->outcome;
    if (event->kind == GW_EV_STORED)
        memcpy(heard.chunks, event->stored.hashes, event->stored.count * sizeof(gw_hash));
    if (blamed != NULL) {
        gw_action *notice = gw_actions_add(actions, GW_ACT_NOTICE);
        notice->notice.kind = GW_NOTICE_CORRUPT;
        notice->peer = *blamed;
        notice->notice.text = "it computed other bits";
    }
    if (installed == NULL) return;
    gw_action *notice = gw_actions_add(actions, GW_ACT_NOTICE);
    notice->notice.kind = GW_NOTICE_VIEW;
    notice->notice.view.installed = installed;
    notice->notice.text = "of the test";
}

uint64_t __wrap_gw_peer_deadline(const gw_peer *peer);
uint64_t __wrap_gw_peer_deadline(const gw_peer *peer) {
    (void)peer;
    return UINT64_MAX;
}

/* A cluster. */

static gw_sim_options options;
static gw_sim_result result;
static sim_cluster *c;
static sim_faults *faults;
static sim_judges *judges;

static void setup(void) {
    options = (gw_sim_options){.peers = PEERS, .founders = PEERS, .steps = STEPS, .shards = 4};
    result = (gw_sim_result){0};
    installed = NULL;
    blamed = NULL;
    c = sim_cluster_open(&options, &result);
    faults = sim_faults_open(c);
    judges = sim_judges_open(c);
    memset(c->states, 0, (STEPS + 1) * sizeof *c->states);
}

static void teardown(void) {
    sim_cluster_close(c);
    sim_judges_close(judges);
    sim_faults_close(faults);
}

TestSuite(cluster, .init = setup, .fini = teardown);

static void anew(void) {
    teardown();
    setup();
}

static void start(uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) sim_start(c, &c->peers[i]);
}

/* Returns a view of the current lives of these peers. */
static gw_view view_of(uint64_t epoch, const uint32_t *members, uint32_t count) {
    gw_view view = {.epoch = epoch, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        const sim_peer *p = &c->peers[members[i]];
        view.members[i] = (gw_member){.id = p->id, .boot = p->boot, .nonce = p->nonce};
    }
    view.leader = view.members[0].id;
    gw_view_seal(&view);
    return view;
}

static void put_checkpoint(uint32_t peer, uint64_t step, uint64_t state) {
    sim_disk *disk = &c->peers[peer].disk;
    sim_saved saved = {.step = step, .state = state, .manifest = true, .chunks = gw_set_of(SIM_CHUNKS)};
    saved.damaged = gw_set_of(SIM_CHUNKS);
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++) gw_set_add(&saved.chunks, chunk);
    disk->saved[disk->saved_count++] = saved;
}

/* Disks. */

/* Saves the state after `step` steps. Half of the chunks are written before the rest, and that before the
 * save is reported; `full` has the times at which the disk is full, as bits. */
static void save(sim_peer *p, uint64_t step, uint64_t state, uint32_t full) {
    static const uint32_t chunks[SIM_CHUNKS] = {0, 1, 2, 3, 4, 5};
    const gw_action action = {
        .kind = GW_ACT_SAVE, .step = step, .save.chunks = chunks, .save.count = SIM_CHUNKS};
    p->m.has_state = true;
    p->m.step = step;
    p->m.state = state;
    sim_disk_action(c, p, &action);
    heard.kind = GW_EV_START;
    for (uint32_t i = 0; heard.kind != GW_EV_STORED; i++) {
        p->disk_full_until_ns = (full >> i / (SIM_CHUNKS / 2) & 1) != 0 ? UINT64_MAX : 0;
        cr_assert(gw_sim_step(c->engine, UINT64_MAX));
    }
}

Test(cluster, what_meets_a_full_disk_at_any_time_is_not_durable) {
    start(0, 1);
    for (uint32_t full = 0; full < 8; full++) {
        save(&c->peers[0], full + 1, 7, full);
        cr_expect_eq(heard.outcome, full == 0 ? GW_DONE : GW_FAILED, "%u", full);
    }
}

static void pass_ms(uint64_t ms) {
    uint64_t until_ns = sim_now(c) + ms * SIM_MS;
    while (gw_sim_step(c->engine, until_ns)) {
    }
}

/* A part of the save comes to wait before a pause, the rest during it. */
Test(cluster, what_waits_for_a_disk_that_crawls_is_done_in_its_order_across_a_pause) {
    sim_peer *p = &c->peers[0];
    start(0, 1);
    for (uint64_t before_ms = 0; before_ms < 200; before_ms += 5) {
        static const uint32_t chunks[SIM_CHUNKS] = {0, 1, 2, 3, 4, 5};
        const gw_action action = {
            .kind = GW_ACT_SAVE, .step = before_ms + 1, .save.chunks = chunks, .save.count = SIM_CHUNKS};
        p->m.has_state = true;
        p->m.step = action.step;
        sim_disk_crawl(c, p, SIM_MS);
        sim_disk_action(c, p, &action);
        pass_ms(before_ms);
        p->paused_until_ns = sim_now(c) + 12000 * SIM_MS;
        heard.kind = GW_EV_START;
        while (heard.kind != GW_EV_STORED) cr_assert(gw_sim_step(c->engine, UINT64_MAX));
        cr_expect_eq(heard.outcome, GW_DONE, "%lu ms before the pause", before_ms);
    }
}

static void persist(sim_peer *p, uint8_t what) {
    const gw_action action = {
        .kind = GW_ACT_PERSIST, .token = 1, .persist.bytes = &what, .persist.length = 1};
    sim_record_persist(c, p, &action);
}

Test(cluster, of_two_records_that_wait_for_a_disk_across_a_pause_the_later_one_stays) {
    sim_peer *p = &c->peers[0];
    start(0, 1);
    for (uint64_t before_ms = 0; before_ms < 10; before_ms++) {
        pass_ms(1);
        sim_disk_hang(c, p, SIM_MS);
        persist(p, 1);
        pass_ms(before_ms);
        persist(p, 2);
        p->paused_until_ns = sim_now(c) + 300 * SIM_MS;
        pass_ms(1000);
        cr_assert_eq(p->disk.record.length, 1);
        cr_expect_eq(p->disk.record.bytes[0], 2, "%lu ms before the pause", before_ms);
        cr_expect_eq(p->m.records_open, 0);
    }
}

/* A leader whose disk hangs asks for no chunk, and computes the root from what the others report. */
Test(cluster, a_manifest_may_be_of_what_the_others_tell_of_the_state) {
    start(0, 2);
    c->states[4] = 8;
    for (uint64_t state = 8; state < 10; state++) {
        save(&c->peers[0], 2, 7, 0); /* the previous checkpoint */
        save(&c->peers[1], 4, state, 0);
        gw_action manifest = {
            .kind = GW_ACT_MANIFEST, .step = 4, .manifest.hash_only = true, .manifest.count = SIM_CHUNKS};
        manifest.manifest.hashes = heard.chunks;
        sim_disk_action(c, &c->peers[0], &manifest);
        cr_expect_eq(result.failed, state != c->states[4], "%s", result.why);
    }
}

/* Checkpoints. */

typedef enum fate { STAYS, DIES, GOES_ON } fate;

/* Peers 0 and 1 have voted for a view that only peer 0 installs; peer 0 goes on from step 0, and only peer
 * 1 has the checkpoint of step 4 that was reported to be complete. */
static bool is_undone(fate of) {
    const uint32_t members[] = {0, 1};
    const sim_load_request load = {.kind = GW_LOAD_INIT};
    anew();
    start(0, 2);
    put_checkpoint(1, 4, 7);
    judges->kept.complete[judges->kept.complete_count++] =
        (sim_complete){.step = 4, .state = 7, .root = sim_root(4, 7)};
    c->peers[0].m.fence = view_of(3, members, 2);
    c->peers[1].m.fence = view_of(of == GOES_ON ? 4 : 2, members, 2);
    if (of == DIES) sim_crash(c, &c->peers[1]);
    SIM_NOTIFY(c, state_wanted, &c->peers[0], &load);
    return result.failed;
}

Test(cluster, who_has_ended_or_gone_on_brings_nothing_into_a_view_that_is_installed_late) {
    cr_expect(is_undone(STAYS));
    cr_expect_not(is_undone(DIES));
    cr_expect_not(is_undone(GOES_ON));
}

/* Sets the number of copies of one chunk to `copies`. */
static bool may_be_complete(uint32_t copies) {
    const gw_hash root = sim_root(4, 7);
    anew();
    start(0, 3);
    for (uint32_t i = 1; i < 3; i++) {
        put_checkpoint(i, 4, 7);
        if (copies < i) c->peers[i].disk.saved[0].chunks.words[0] &= ~UINT64_C(8);
    }
    SIM_NOTIFY(c, checkpoint_told, &c->peers[0], 4, &root);
    return !result.failed;
}

/* Others went on without the peer, and its last view went on with it: one copy of what it recorded must be
 * left. */
Test(cluster, who_is_out_of_its_view_may_hear_late_that_a_checkpoint_is_complete) {
    cr_expect(may_be_complete(2));
    cr_expect(may_be_complete(1));
    cr_expect_not(may_be_complete(0));
}

/* Sums. */

Test(cluster, a_sum_of_other_states_is_found_as_it_is_applied) {
    const gw_action apply = {.kind = GW_ACT_APPLY, .step = 2};
    for (int way = 0; way < 2; way++) {
        anew();
        sim_memory *m = &c->peers[0].m;
        m->has_state = true;
        m->step = 2;
        m->state = 8;
        m->sum = (sim_sum){.there = true, .step = 2, .state = way == 0 ? 9 : 8, .mixed = way == 1};
        sim_apply(c, &c->peers[0], &apply);
        cr_assert_not_null(strstr(result.why, "that was computed from other states"));
    }
}

/* Shown states. */

/* Peer 0 shows another state of step 0 than was shown, while peer 1, about which something is reported,
 * holds the shown one. */
static bool is_known(bool own_fault) {
    anew();
    options.majority = options.fast = 1;
    start(0, 2);
    SIM_NOTIFY(c, bits_wrong, &c->peers[own_fault], SIM_WRONG_STATE); /* so that it may be blamed */
    for (uint32_t i = 0; i < 2; i++) {
        c->peers[i].m.has_state = true;
        c->peers[i].m.step = 1;
        c->peers[i].m.state = 8 - i;
    }
    judges->shown.state[1] = 7;
    blamed = &c->peers[own_fault].id;
    const gw_event event = {.kind = GW_EV_TIMER};
    sim_event(c, &c->peers[1], &event);
    blamed = NULL;
    SIM_NOTIFY(c, state_shown, &c->peers[0], 0, sim_fingerprint(8));
    return result.failed;
}

Test(cluster, who_was_found_to_compute_wrong_knows_nothing_of_what_was_shown) {
    cr_expect(is_known(false), "another peer that was found wrong changes nothing");
    cr_expect_not(is_known(true));
    cr_expect_eq(result.forgotten, 1);
}

/* Peers that meet. */

static bool is_known_at(const gw_addr *addrs, uint32_t count, uint32_t peer) {
    const gw_addr addr = gw_sim_addr(peer);
    for (uint32_t i = 0; i < count; i++)
        if (gw_addr_equal(&addrs[i], &addr)) return true;
    return false;
}

Test(cluster, a_peer_remembers_whom_it_was_in_a_view_with) {
    const uint32_t members[] = {0, 2, 4};
    start(0, PEERS);
    const gw_view view = view_of(1, members, 3);
    installed = &view;
    const gw_event event = {.kind = GW_EV_TIMER};
    sim_event(c, &c->peers[2], &event);
    installed = NULL;
    sim_crash(c, &c->peers[2]);
    sim_start(c, &c->peers[2]);
    cr_assert_eq(configured.known_count, 2);
    cr_expect(is_known_at(configured.known, 2, 0));
    cr_expect(is_known_at(configured.known, 2, 4));
}

/* If the seeds are gone for good, a peer in no view looks for others, which it may never have met. */
static void expect_seeds(uint32_t gone, uint32_t first, uint32_t second) {
    anew();
    start(0, PEERS);
    for (uint32_t i = 0; i < gone; i++) {
        c->peers[i].gone = true;
        sim_crash(c, &c->peers[i]);
    }
    sim_faults_end(c);
    while (gw_sim_step(c->engine, UINT64_MAX)) {
    }
    for (uint32_t i = gone; i < PEERS; i++) cr_expect_not_null(c->peers[i].brain);
    sim_crash(c, &c->peers[PEERS - 1]);
    sim_start(c, &c->peers[PEERS - 1]);
    cr_expect_eq(configured.seed_count, SIM_SEEDS);
    cr_expect(is_known_at(configured.seeds, SIM_SEEDS, first));
    cr_expect(is_known_at(configured.seeds, SIM_SEEDS, second));
    cr_expect_eq(c->peers[PEERS - 2].boot, gone < SIM_SEEDS ? 1 : 2, "a peer that waits is started again");
}

Test(cluster, living_seeds_are_named_where_all_are_gone_for_good) {
    expect_seeds(0, 0, 1);
    expect_seeds(1, 0, 1);
    expect_seeds(2, 2, 3);
}

/* Poison. */

static void begin(uint32_t peer, uint64_t step, uint32_t shard) {
    sim_sum *accumulator = &c->peers[peer].m.accumulator;
    *accumulator = (sim_sum){.there = true, .step = step, .shards = 4, .times = calloc(4, 1)};
    cr_assert_not_null(accumulator->times);
    accumulator->times[shard] = 1;
}

/* Peer 4 ends, and reports that this shard is poison. */
static bool is_poison(uint32_t shard, uint32_t step) {
    sim_peer *p = &c->peers[4];
    p->finish = GW_FINISH_FAILED;
    snprintf(p->finish_text, sizeof p->finish_text, "shard %u of step %u is poison", shard, step);
    return sim_names_poison(judges, p);
}

/* Three peers that had begun a shard end when the power fails. */
Test(cluster, lives_that_a_power_loss_ends_make_a_shard_poison) {
    options.power_ms = 100;
    start(0, 3);
    for (uint32_t i = 0; i < 3; i++) begin(i, 5, 2);
    cr_expect_not(is_poison(2, 5));
    sim_faults_plan(c);
    while (result.faults[GW_SIM_POWER_LOSS] == 0) cr_assert(gw_sim_step(c->engine, UINT64_MAX));
    cr_expect(is_poison(2, 5));
    cr_expect_not(is_poison(3, 5), "no peer had begun this shard");
    cr_expect_not(is_poison(2, 7), "no peer died at this shard");
}

/* Two peers that had begun a shard have died, and as many others, but not in this step. */
Test(cluster, lives_that_ended_at_other_steps_make_none) {
    start(0, 4);
    for (uint32_t i = 0; i < 4; i++) begin(i, i < 2 ? 5 : 7, i < 2 ? 2 : 3);
    for (uint32_t i = 0; i < 4; i++) sim_crash(c, &c->peers[i]);
    cr_expect_not(is_poison(2, 5));
    cr_expect_not(is_poison(3, 7));
    start(0, 1);
    begin(0, 5, 3);
    sim_crash(c, &c->peers[0]);
    cr_expect(is_poison(2, 5), "it may have computed that one as well");
    cr_expect_not(is_poison(3, 5), "the others had begun that shard at another step");
}
