/* What a peer is made from, and what it tells of itself. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/state.h" /* how many it remembers */
#include "core/state/placement.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 100000 };

static gw_err err;

static void expect_refused(const gw_peer_config *config, gw_code code, const char *part) {
    memset(&err, 0, sizeof err);
    cr_assert_null(gw_peer_create(config, &err), "taken, expected: %s", part);
    cr_assert_eq(err.code, code, "%s", err.text);
    cr_assert(strstr(err.text, part) != NULL, "'%s' does not say '%s'", err.text, part);
}

Test(peer_config, what_makes_no_sense_is_refused_by_name) {
    flock f;
    flock_open(&f, 1, 1, 10, GW_QUORUM_ANY);
    const gw_peer_config good = f.peers[0].config;
    gw_peer_config c = good;
    c.identity = NULL;
    expect_refused(&c, GW_E_USAGE, "identity");
    c = good;
    c.shards = NULL;
    expect_refused(&c, GW_E_USAGE, "shards");
    c = good;
    c.id = (gw_peer_id){0};
    expect_refused(&c, GW_E_USAGE, "id");
    c = good;
    c.peers = 0;
    expect_refused(&c, GW_E_USAGE, "--peers: 0");
    c.peers = GW_MAX_MEMBERS + 1;
    expect_refused(&c, GW_E_USAGE, "--peers: 257");
    c = good;
    c.fast = true;
    expect_refused(&c, GW_E_USAGE, "--quorum majority");
    c = good;
    c.state_chunks = GW_MAX_CHUNKS + 1;
    expect_refused(&c, GW_E_USAGE, "chunks of 4 MiB");
    c = good;
    c.verify = GW_VERIFY_WHOLE + 1;
    expect_refused(&c, GW_E_USAGE, "--verify");
    c = good;
    c.deal_slack = 1001;
    expect_refused(&c, GW_E_USAGE, "--deal");
    c = good;
    c.replicas = 0;
    expect_refused(&c, GW_E_USAGE, "--replicas");
    c.replicas = GW_MAX_REPLICAS + 1;
    expect_refused(&c, GW_E_USAGE, "--replicas");
    c = good;
    c.keep = 0;
    expect_refused(&c, GW_E_USAGE, "--keep");
    c = good;
    c.addr_count = GW_MAX_ADDRS + 1;
    expect_refused(&c, GW_E_LIMIT, "addresses");
    flock_close(&f);
}

/* The record of a run by majority, of a vote and of a loss. */
static void make_record(flock *f) {
    flock_open(f, 3, 3, 20, GW_QUORUM_MAJORITY);
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    cr_assert_gt(f->peers[0].record_length, 0);
}

Test(peer_config, a_damaged_record_is_refused_wherever_it_ends) {
    flock f;
    make_record(&f);
    gw_peer_config c = f.peers[0].config;
    c.inventory_count = 0;
    c.record = f.peers[0].record;
    for (c.record_length = 1; c.record_length < f.peers[0].record_length; c.record_length++)
        expect_refused(&c, GW_E_CORRUPT, "damaged at byte");
    gw_peer *peer = gw_peer_create(&c, &err);
    cr_assert_not_null(peer, "%s", err.text);
    gw_peer_destroy(peer);
    f.peers[0].record[0]--;
    expect_refused(&c, GW_E_CORRUPT, "go on with the build that wrote it");
    flock_close(&f);
}

Test(peer_config, a_record_keeps_losses_until_they_are_to_be_forgotten) {
    flock f;
    flock_open(&f, 1, 1, 20, GW_QUORUM_ANY);
    f.peers[0].fell = (gw_shard_death){.id = {{9}}, .boot = 1, .step = 3, .shard = 4};
    flock_start(&f, 0);
    cr_assert(!flock_run(&f, NULL, 20));
    size_t before = f.peers[0].record_length;
    cr_assert_gt(before, 0, "losses are made durable");
    flock_kill(&f, 0);
    f.peers[0].fell = (gw_shard_death){0};
    f.peers[0].config.forget_losses = true;
    flock_start(&f, 0);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[0].finish, GW_FINISH_DONE, "%s", f.peers[0].finish_text);
    cr_assert_lt(f.peers[0].record_length, before);
    flock_close(&f);
}

/* What it promised for one job would let it found another without those who must be there. */
Test(peer_config, a_record_of_another_job_is_refused) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        flock f;
        make_record(&f);
        gw_peer_config c = f.peers[0].config;
        c.inventory_count = 0;
        c.record = f.peers[0].record;
        c.record_length = f.peers[0].record_length;
        c.quorum = (gw_quorum)quorum;
        c.identity = "job=another\n";
        expect_refused(&c, GW_E_CORRUPT, "another job's");
        flock_close(&f);
    }
}

/* ---- who it is made to find ---- */

Test(peer_config, peers_met_by_an_earlier_life_are_tried_like_seeds) {
    flock f;
    flock_open(&f, 2, 2, 20, GW_QUORUM_ANY);
    f.peers[1].config.seed_count = 0;
    f.peers[1].config.known[0] = f.peers[0].config.addrs[0];
    f.peers[1].config.known_count = 1;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

/* Their names lead somewhere only later: until then nobody begins alone. */
Test(peer_config, seeds_that_are_told_later_are_joined) {
    flock f;
    flock_open(&f, 2, 1, 100000, GW_QUORUM_ANY);
    f.peers[1].config.seed_count = 0;
    f.peers[1].config.joins = true;
    flock_start_all(&f);
    flock_run_for(&f, f.peers[1].config.join_timeout_ns / 2);
    cr_assert_eq(flock_status(&f, 1).views_installed, 0);
    flock_tell(&f, 1,
               (gw_event){.kind = GW_EV_SEEDS, .seeds.addrs = f.peers[0].config.addrs, .seeds.count = 1});
    flock_run_for(&f, f.peers[1].config.join_timeout_ns / 4);
    cr_expect(flock_in_view_of(&f, 0, 2) && flock_in_view_of(&f, 1, 2));
    cr_expect_eq(flock_said(&f, 1, "beginning alone"), 0);
    flock_close(&f);
}

/* The routes to seeds whose names have been looked up decide which addresses a peer tells others first. */
Test(peer_config, own_addresses_that_come_with_the_seeds_are_told_to_others) {
    flock f;
    flock_open(&f, 2, 1, 100000, GW_QUORUM_ANY);
    const gw_addr own[] = {f.peers[1].config.addrs[0], {.family = 4, .ip = {10, 7, 0, 5}, .port = 7117}};
    f.peers[1].config.seed_count = 0;
    f.peers[1].config.joins = true;
    flock_start_all(&f);
    flock_tell(&f, 1,
               (gw_event){.kind = GW_EV_SEEDS,
                          .seeds.addrs = f.peers[0].config.addrs,
                          .seeds.count = 1,
                          .seeds.own = own,
                          .seeds.own_count = 2});
    flock_run_for(&f, f.peers[1].config.join_timeout_ns / 4);
    cr_assert(flock_in_view_of(&f, 0, 2) && flock_in_view_of(&f, 1, 2));
    cr_assert_eq(f.peers[1].brain->config.addr_count, 2);
    cr_assert(gw_addr_equal(&f.peers[1].brain->config.addrs[1], &own[1]));
    flock_close(&f);
}

static void tell_unmet(flock *f, uint32_t i, const char *why, bool for_good) {
    flock_tell(f, i, (gw_event){.kind = GW_EV_UNMET, .text = why, .unmet.for_good = for_good});
}

/* All other nodes may be down, and one must be the first to begin. Where a seed is there and cannot be met, a peer does
 * not compute alone what others compute, nor wait for --peers for ever. */
Test(peer_config, who_knows_that_a_seed_is_there_and_cannot_meet_it_does_not_begin_alone) {
    for (uint32_t peers = 1; peers <= 2; peers++) {
        flock f;
        flock_open(&f, 3, peers, 100000, GW_QUORUM_ANY);
        uint64_t timeout_ns = f.peers[1].config.join_timeout_ns;
        flock_start(&f, 1);
        tell_unmet(&f, 1, "nobody listens at the seed", false);
        tell_unmet(&f, 1, "the seed turns this peer away: wrong key", true);
        flock_run_for(&f, timeout_ns / 2);
        cr_expect_gt(flock_said(&f, 1, "wrong key: this peer ends"), 0);
        cr_assert_not(f.peers[1].finished);
        cr_assert(flock_run(&f, NULL, 100000), "it ends");
        cr_expect_eq(f.peers[1].finish, GW_FINISH_DENIED);
        cr_expect_not_null(strstr(f.peers[1].finish_text, "wrong key"), "%s", f.peers[1].finish_text);
        flock_start(&f, 2);
        tell_unmet(&f, 2, "the seed turns this peer away: wrong key", true);
        tell_unmet(&f, 2, "nobody listens at the seed", false);
        flock_run_for(&f, timeout_ns + timeout_ns / 2);
        cr_expect_eq(flock_in_view_of(&f, 2, 1), peers == 1);
        cr_expect_eq(flock_said(&f, 2, "as nobody listens at the seed: beginning alone"), peers == 1);
        flock_close(&f);
    }
}

/* It does not count as a seed that does not answer. */
Test(peer_config, a_seed_that_is_told_of_at_the_last_moment_has_time_to_answer) {
    flock f;
    flock_open(&f, 2, 1, 100000, GW_QUORUM_ANY);
    uint64_t timeout_ns = f.peers[1].config.join_timeout_ns;
    f.peers[1].config.seed_count = 0;
    f.peers[1].config.joins = true;
    flock_start(&f, 1);
    flock_run_for(&f, timeout_ns - 500000000);
    flock_tell(&f, 1,
               (gw_event){.kind = GW_EV_SEEDS, .seeds.addrs = f.peers[0].config.addrs, .seeds.count = 1});
    flock_run_for(&f, 1000000000);
    cr_assert_eq(flock_status(&f, 1).views_installed, 0);
    flock_start(&f, 0);
    flock_run_for(&f, 1500000000);
    cr_expect(flock_in_view_of(&f, 0, 2) && flock_in_view_of(&f, 1, 2));
    cr_expect_eq(flock_said(&f, 1, "beginning alone"), 0);
    flock_close(&f);
}

Test(peer_config, without_an_address_of_a_seed_it_begins_alone_in_the_end) {
    flock f;
    flock_open(&f, 1, 1, 20, GW_QUORUM_ANY);
    f.peers[0].config.joins = true;
    flock_start_all(&f);
    flock_run_for(&f, f.peers[0].config.join_timeout_ns / 2);
    cr_assert_eq(flock_status(&f, 0).views_installed, 0);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 1);
    cr_expect_eq(flock_said(&f, 0, "no name of a seed could be resolved for"), 1);
    flock_close(&f);
}

/* Two that began alone; then a seed of one has moved to where the other is. */
Test(peer_config, a_seed_that_has_moved_is_found_where_it_is_now) {
    flock f;
    flock_open(&f, 2, 1, 100000, GW_QUORUM_ANY);
    f.peers[1].config.seeds[0] = (gw_addr){.family = 4, .ip = {10, 0, 0, 9}, .port = 1};
    flock_start_all(&f);
    flock_run_for(&f, 2 * f.peers[1].config.join_timeout_ns);
    cr_assert(flock_in_view_of(&f, 0, 1) && flock_in_view_of(&f, 1, 1));
    const gw_addr *moved = f.peers[0].config.addrs;
    flock_tell(&f, 1, (gw_event){.kind = GW_EV_SEEDS, .seeds.addrs = moved, .seeds.count = 1});
    flock_run_for(&f, f.peers[1].config.join_timeout_ns);
    cr_expect(flock_in_view_of(&f, 0, 2) && flock_in_view_of(&f, 1, 2));
    flock_close(&f);
}

Test(peer_config, more_addresses_than_fit_do_no_harm) {
    flock f;
    flock_open(&f, 2, 2, 20, GW_QUORUM_ANY);
    gw_peer_config *c = &f.peers[1].config;
    for (uint32_t i = 1; i < GW_MAX_SEEDS; i++)
        c->seeds[i] = (gw_addr){.family = 4, .ip = {10, 9, 0, (uint8_t)i}, .port = 1};
    c->seed_count = GW_MAX_SEEDS;
    c->known_count = GW_MAX_KNOWN;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

/* Virtual time from when a member falls silent until the others have another view. */
static uint64_t time_to_notice(uint64_t probe_interval_ns, uint64_t time_scale_percent) {
    flock f;
    flock_open(&f, 3, 3, 20000, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) {
        f.peers[i].config.probe_interval_ns = probe_interval_ns;
        f.peers[i].config.time_scale_percent = time_scale_percent;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t silent = (flock_leader(&f) + 1) % 3, other = (flock_leader(&f) + 2) % 3;
    flock_stop(&f, silent);
    uint64_t began = f.now, views = flock_status(&f, other).views_installed;
    for (int n = 0; flock_status(&f, other).views_installed == views; n++) {
        cr_assert_lt(n, MOST_EVENTS);
        cr_assert(!flock_run(&f, NULL, 1));
    }
    uint64_t took = f.now - began;
    flock_close(&f);
    return took;
}

Test(peer_config, probing_more_often_finds_the_silent_sooner_and_a_time_scale_later) {
    uint64_t usual = time_to_notice(0, 0), often = time_to_notice(50000000, 0), slow = time_to_notice(0, 300);
    cr_assert_lt(often, usual / 2);
    cr_assert_gt(slow, 2 * usual);
}

/* ---- what it tells ---- */

Test(peer_config, tells_of_members_and_strangers_and_of_nobody_beyond) {
    flock f;
    flock_open(&f, 2, 2, 20, GW_QUORUM_ANY);
    flock_start_all(&f);
    gw_peer_contact_info info;
    cr_assert(gw_peer_contact_at(f.peers[0].brain, 0, &info));
    cr_assert(!info.member && !info.leader && info.linked, "before there is a view");
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t members = 0, leaders = 0, index = 0;
    for (; gw_peer_contact_at(f.peers[0].brain, index, &info); index++) {
        members += info.member;
        leaders += info.leader;
        cr_assert_str_eq(info.state, "alive");
        cr_assert(info.linked);
        cr_assert_eq(info.addr.family, 4);
    }
    cr_assert_eq(index, 2);
    cr_assert_eq(members, 2);
    cr_assert_eq(leaders, 1);
    flock_close(&f);
}

Test(peer_config, a_peer_that_is_through_wants_nothing_and_does_nothing) {
    flock f;
    flock_open(&f, 1, 1, 3, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 1);
    cr_assert_eq(gw_peer_deadline(f.peers[0].brain), UINT64_MAX);
    const gw_event_kind kinds[] = {GW_EV_TIMER, GW_EV_STOP, GW_EV_LEAVE, GW_EV_FORCE_VIEW,
                                   GW_EV_SHARD_FAILED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        gw_actions actions = {0};
        gw_event event = {.kind = kinds[i]};
        gw_peer_step(f.peers[0].brain, &event, f.now, &actions);
        cr_assert_eq(actions.count, 0, "event %d", kinds[i]);
        gw_actions_free(&actions);
    }
    cr_assert_str_eq(flock_status(&f, 0).phase, "finished");
    flock_close(&f);
}

/* ---- whom it remembers ---- */

enum { MOST_BYTES = 2048 };

typedef struct visitor { /* somebody who comes and goes: gossip is all that is heard of it */
    gw_peer *host;
    gw_gossip *gossip;
    gw_addr addr, host_addr;
    uint64_t now;
    uint8_t answer[MOST_BYTES]; /* the host's last one that has not been heard yet */
    size_t answer_bytes;
} visitor;

static void tell_host(visitor *v, gw_event event) {
    gw_actions actions = {0};
    gw_peer_step(v->host, &event, v->now, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        const gw_action *a = &actions.list[i];
        if (a->kind != GW_ACT_DATAGRAM || !gw_addr_equal(&a->datagram.to, &v->addr)) continue;
        cr_assert_leq(a->datagram.length, (size_t)MOST_BYTES);
        memcpy(v->answer, a->datagram.bytes, a->datagram.length);
        v->answer_bytes = a->datagram.length;
    }
    gw_actions_free(&actions);
}

static void hear_answer(visitor *v) {
    uint8_t bytes[MOST_BYTES];
    size_t length = v->answer_bytes;
    memcpy(bytes, v->answer, length);
    v->answer_bytes = 0;
    if (length > 0) gw_gossip_datagram(v->gossip, &v->host_addr, bytes, length, v->now);
}

static void visitor_sends(void *context, const gw_addr *to, const void *bytes, size_t length) {
    visitor *v = context;
    if (gw_addr_equal(to, &v->host_addr))
        tell_host(v, (gw_event){.kind = GW_EV_DATAGRAM,
                                .datagram.from = v->addr,
                                .datagram.bytes = bytes,
                                .datagram.length = length});
}

static void visitor_hears(void *context, const gw_gossip_event *event) {
    (void)context;
    (void)event;
}

static void visit(visitor *v, const gw_peer_config *host, uint32_t number) {
    gw_gossip_config c = {.incarnation = {.boot = 1, .nonce = number},
                          .id = {{0xFF, (uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16)}},
                          .cluster = host->cluster,
                          .seeds = &host->addrs[0],
                          .seed_count = 1,
                          .timing = gw_gossip_timing_default(),
                          .rng_seed = number,
                          .sink = {v, visitor_sends, visitor_hears}};
    v->addr = c.addr[0] =
        (gw_addr){.family = 4, .ip = {10, 0, 0, 1}, .port = (uint16_t)(2000 + number % 60000)};
    c.addr_count = 1;
    cr_assert(gw_gossip_create(&c, &v->gossip, &err), "%s", err.text);
    gw_gossip_start(v->gossip, v->now);
    for (int i = 0; i < 4; i++) {
        gw_gossip_tick(v->gossip, v->now);
        hear_answer(v);
        v->now += 10000000;
    }
    gw_gossip_leave(v->gossip, v->now);
    gw_gossip_destroy(v->gossip);
    tell_host(v, (gw_event){.kind = GW_EV_LINK_DOWN, .peer = c.id, .link.end = GW_LINK_REFUSED});
}

Test(peer_config, who_has_gone_for_long_is_forgotten) {
    flock f;
    flock_open(&f, 1, 1, UINT64_MAX - 1, GW_QUORUM_ANY);
    flock_start(&f, 0);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    visitor v = {.host = f.peers[0].brain, .host_addr = f.peers[0].config.addrs[0], .now = f.now};
    uint32_t most = 0;
    for (uint32_t number = 0; number < 10000; number++) {
        visit(&v, &f.peers[0].config, number);
        for (int tick = 0; tick < 5; tick++) { /* gossip forgets one in a while */
            v.now += 2000000000;
            tell_host(&v, (gw_event){.kind = GW_EV_TIMER});
        }
        if (v.host->members.contact_count > most) most = v.host->members.contact_count;
    }
    cr_assert_gt(most, 50, "they were met");
    cr_assert_leq(most, 256, "%u", most);
    flock_close(&f);
}

static gw_peer_contact_info third; /* as the first of them knows it */

static bool is_known(const flock *f, uint64_t boot) {
    for (uint32_t i = 0; gw_peer_contact_at(f->peers[0].brain, i, &third); i++)
        if (gw_peer_id_equal(&third.id, &f->peers[2].config.id)) return third.incarnation.boot == boot;
    return false;
}

static bool its_step_is_known(const flock *f) {
    return is_known(f, 1) && third.step > 0;
}

static bool its_second_life_is_known(const flock *f) {
    return is_known(f, 2);
}

/* A shard at which the last one gave up, say. */
Test(peer_config, a_new_life_is_not_taken_for_what_the_last_one_told) {
    flock f;
    flock_open(&f, 3, 3, 200, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = 100000000;
    flock_start_all(&f);
    cr_assert(flock_run(&f, its_step_is_known, MOST_EVENTS));
    flock_kill(&f, 2);
    f.blobs_lost = &f.peers[2].config.id;
    flock_start(&f, 2);
    cr_assert(flock_run(&f, its_second_life_is_known, MOST_EVENTS));
    cr_assert_eq(third.step, 0);
    cr_assert_eq(third.checkpoint_step, UINT64_MAX);
    flock_close(&f);
}

/* ---- a job begun anew ---- */

static bool somebody_saved(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].saved_step >= 4) return true;
    return false;
}

Test(peer_config, fresh_ignores_checkpoints) {
    for (int fresh = 0; fresh < 2; fresh++) {
        flock f;
        flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
        f.checkpoint_steps = 2;
        flock_start_all(&f);
        cr_assert(flock_run(&f, somebody_saved, MOST_EVENTS));
        for (uint32_t i = 0; i < 3; i++) {
            flock_kill(&f, i);
            f.peers[i].config.fresh = fresh;
            f.peers[i].computed = 0;
        }
        flock_start_all(&f);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 3);
        uint32_t computed = 0;
        for (uint32_t i = 0; i < 3; i++) computed += f.peers[i].computed;
        cr_assert_eq(computed >= 20 * FLOCK_SHARDS, fresh, "%u shards", computed);
        flock_close(&f);
    }
}

Test(peer_config, a_state_without_chunks_has_checkpoints_too) {
    flock f;
    flock_open(&f, 2, 2, 10, GW_QUORUM_MAJORITY);
    f.checkpoint_steps = 3;
    for (uint32_t i = 0; i < 2; i++) f.peers[i].config.state_chunks = 0;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    cr_assert_gt(f.peers[0].checkpoints, 2);
    flock_close(&f);
}

Test(peer_config, checkpoints_by_the_clock_come_by_the_clock) {
    flock f;
    flock_open(&f, 2, 2, 2000, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].config.checkpoint_ns = UINT64_C(1000000000);
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    uint64_t seconds = f.now / UINT64_C(1000000000);
    cr_assert(f.peers[0].checkpoints >= seconds / 2 && f.peers[0].checkpoints <= seconds + 2, "%u in %lu s",
              f.peers[0].checkpoints, seconds);
    flock_close(&f);
}

/* ---- the job's end, found on the disk ---- */

/* Checkpoints in any order; the newest is of the last step. */
Test(peer_config, a_job_that_ended_on_this_disk_has_ended) {
    flock f;
    flock_open(&f, 1, 1, 20, GW_QUORUM_ANY);
    gw_inventory inventory[3];
    const uint64_t steps[] = {4, 20, 8};
    for (int i = 0; i < 3; i++) {
        inventory[i] =
            (gw_inventory){.step = steps[i], .root = {{(uint8_t)(i + 1)}}, .fingerprint = 1 + steps[i]};
        inventory[i].chunks = gw_set_of(FLOCK_CHUNKS);
    }
    gw_peer_config c = f.peers[0].config;
    c.incarnation = (gw_incarnation){.boot = 1, .nonce = 1};
    c.inventory = inventory;
    c.inventory_count = 3;
    c.seeds[0] = (gw_addr){.family = 4, .ip = {10, 0, 0, 9}, .port = 1};
    c.seed_count = 1; /* which never answers */
    c.join_timeout_ns = 2 * c.resume_timeout_ns;
    gw_peer *peer = gw_peer_create(&c, &err);
    cr_assert_not_null(peer, "%s", err.text);
    gw_event event = {.kind = GW_EV_START};
    bool done = false;
    uint64_t now = 1;
    for (int n = 0; n < 2000 && !done; n++) {
        gw_actions actions = {0};
        gw_peer_step(peer, &event, now, &actions);
        for (uint32_t i = 0; i < actions.count; i++) {
            if (actions.list[i].kind != GW_ACT_FINISH) continue;
            cr_assert_eq(actions.list[i].finish.result, GW_FINISH_DONE, "%s", actions.list[i].finish.text);
            cr_assert_eq(actions.list[i].step, 20);
            cr_assert(gw_hash_equal(&actions.list[i].finish.root, &inventory[1].root));
            done = true;
        }
        gw_actions_free(&actions);
        event.kind = GW_EV_TIMER;
        if (!done) now = gw_peer_deadline(peer);
    }
    cr_assert(done);
    gw_peer_destroy(peer);
    for (int i = 0; i < 3; i++) gw_set_free(&inventory[i].chunks);
    flock_close(&f);
}
