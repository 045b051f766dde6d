/* Gossip under virtual time: joins, detection, partitions, slow peers, mass restarts. */
#include "net/secure/packet.h"
#include "tools/sim/gossip/flock.h"
#include "tools/sim/gossip/measure.h"

#include <criterion/criterion.h>

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

static uint64_t all_pairs(const gw_flock *flock) {
    uint64_t running = gw_flock_running(flock);
    return running * (running - 1);
}

static void assert_all_alive(const gw_flock *flock) {
    cr_assert_eq(gw_flock_pairs(flock, GW_GOSSIP_IS_ALIVE), all_pairs(flock));
}

static void start_all(gw_flock *flock, uint32_t seeds) {
    for (uint32_t i = 0; i < flock->count; i++) gw_flock_start(flock, i, seeds);
}

Test(flock, everybody_learns_of_everybody_from_one_seed) {
    gw_flock flock;
    gw_flock_open(&flock, 200, 1);
    start_all(&flock, 1);
    gw_flock_run(&flock, 10 * SECOND);
    assert_all_alive(&flock);
    cr_assert_eq(flock.false_deaths, 0);
    gw_flock_close(&flock);
}

Test(flock, seeds_may_come_up_later) {
    gw_flock flock;
    gw_flock_open(&flock, 6, 2);
    for (uint32_t i = 1; i < 6; i++) gw_flock_start(&flock, i, 1);
    gw_flock_run(&flock, 30 * SECOND);
    cr_assert_eq(gw_flock_pairs(&flock, GW_GOSSIP_IS_ALIVE), 0);
    gw_flock_start(&flock, 0, 1);
    gw_flock_run(&flock, 5 * SECOND);
    assert_all_alive(&flock);
    gw_flock_close(&flock);
}

/* Time is virtual, so this is a property of the protocol and not of the machine. */
static void silent_peer(uint32_t peers, uint64_t seed) {
    gw_flock flock;
    gw_flock_open(&flock, peers, seed);
    start_all(&flock, 1);
    gw_flock_run(&flock, 10 * SECOND);
    uint32_t victim = peers - 1;
    gw_flock_freeze(&flock, victim, UINT64_MAX);
    gw_flock_run(&flock, 3 * SECOND);
    cr_assert_eq(flock.peers[victim].known_dead_by, peers - 1, "%u peers, seed %lu: known by %u", peers, seed,
                 flock.peers[victim].known_dead_by);
    cr_assert_eq(flock.false_deaths, 0);
    gw_flock_close(&flock);
}

Test(flock, a_silent_peer_is_dead_to_all_within_three_seconds) {
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (uint32_t peers = 2; peers <= 6; peers++) silent_peer(peers, seed);
    silent_peer(50, 1);
}

Test(flock, a_crash_among_a_thousand_is_known_to_all_within_three_seconds) {
    enum { PEERS = 1000, CRASHES = 10 };
    gw_flock flock;
    gw_flock_open(&flock, PEERS, 3);
    gw_flock_start_together(&flock);
    gw_flock_run(&flock, 4 * SECOND);
    for (uint32_t i = 0; i < CRASHES; i++) gw_flock_crash(&flock, i * 97);
    gw_flock_run(&flock, 3 * SECOND);
    for (uint32_t i = 0; i < CRASHES; i++) cr_assert_eq(flock.peers[i * 97].known_dead_by, PEERS - CRASHES);
    cr_assert_eq(flock.false_deaths, 0);
    assert_all_alive(&flock);
    gw_flock_close(&flock);
}

static void partition(uint32_t peers, bool one_way, uint64_t seed) {
    gw_flock flock;
    gw_flock_open(&flock, peers, seed);
    start_all(&flock, 1);
    gw_flock_run(&flock, 10 * SECOND);
    for (uint32_t i = 0; i < peers / 2; i++) flock.network.group[i] = 1;
    flock.network.cut[0][1] = true;
    flock.network.cut[1][0] = !one_way;
    gw_flock_run(&flock, 20 * SECOND);
    uint64_t across = 2 * (uint64_t)(peers / 2) * (peers - peers / 2);
    if (!one_way) cr_assert_eq(gw_flock_pairs(&flock, GW_GOSSIP_IS_DEAD), across);
    gw_sim_network_heal(&flock.network);
    gw_flock_run(&flock, 15 * SECOND);
    assert_all_alive(&flock);
    gw_flock_close(&flock);
}

Test(flock, partitions_heal_by_themselves) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
        partition(2, false, seed);
        partition(5, false, seed);
        partition(5, true, seed);
    }
    partition(100, false, 1);
    partition(100, true, 2);
}

Test(flock, peers_that_stand_still_for_hundreds_of_milliseconds_are_not_buried) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
        gw_flock flock;
        gw_flock_open(&flock, 8, seed);
        start_all(&flock, 1);
        gw_flock_run(&flock, 5 * SECOND);
        for (uint32_t i = 0; i < 8; i++) gw_flock_slow(&flock, i);
        gw_flock_run(&flock, 300 * SECOND);
        cr_assert_eq(flock.false_deaths, 0, "seed %lu: %lu buried alive, %lu suspected", seed,
                     flock.false_deaths, flock.false_suspicions);
        gw_flock_close(&flock);
    }
}

Test(flock, a_frozen_peer_comes_back_and_buries_nobody) {
    gw_flock flock;
    gw_flock_open(&flock, 10, 4);
    start_all(&flock, 1);
    gw_flock_run(&flock, 5 * SECOND);
    gw_flock_freeze(&flock, 3, 20 * SECOND);
    gw_flock_run(&flock, 20 * SECOND - 1);
    uint64_t buried = flock.false_deaths; /* deaths of the frozen peer, as seen by the other nine */
    cr_assert_eq(buried, 9);
    gw_flock_run(&flock, 10 * SECOND);
    assert_all_alive(&flock);
    cr_assert_eq(flock.false_deaths, buried);
    gw_flock_close(&flock);
}

Test(flock, a_mass_restart_leaves_nobody_behind) {
    enum { PEERS = 100 };
    gw_flock flock;
    gw_flock_open(&flock, PEERS, 5);
    start_all(&flock, 3);
    gw_flock_run(&flock, 10 * SECOND);
    for (uint32_t i = 3; i < PEERS; i += 2) gw_flock_crash(&flock, i);
    gw_flock_run(&flock, 300 * MS); /* faster than the detection of deaths */
    for (uint32_t i = 3; i < PEERS; i += 2) gw_flock_start(&flock, i, 3);
    gw_flock_run(&flock, 10 * SECOND);
    assert_all_alive(&flock);
    gw_flock_close(&flock);
}

Test(flock, loss_and_duplication_do_not_bury_the_living) {
    gw_flock flock;
    gw_flock_open(&flock, 50, 6);
    flock.network.weather =
        (gw_sim_weather){.drop = 0.05, .duplicate = 0.05, .delay_least_ns = 50000, .delay_most_ns = 20 * MS};
    start_all(&flock, 2);
    gw_flock_run(&flock, 120 * SECOND);
    assert_all_alive(&flock);
    cr_assert_eq(flock.false_deaths, 0);
    gw_flock_close(&flock);
}

Test(flock, at_rest_a_peer_sends_less_than_a_kilobyte_a_second) {
    gw_gossip_figures figures;
    gw_gossip_measure(&(gw_gossip_trial){.peers = 1000, .crashes = 3, .seed = 1}, &figures);
    cr_assert_lt(figures.bytes_per_s, 1000, "%f", figures.bytes_per_s);
    cr_assert_gt(figures.bytes_per_s, figures.datagrams_per_s * GW_PACKET_OVERHEAD, "the seal counts");
    cr_assert_lt(figures.all_worst_s, 3.0); /* virtual seconds */
    cr_assert_float_eq(figures.asked.bytes_per_s, 1000, 1e-9, "the limit for that many peers");
    cr_assert(gw_gossip_figures_good(&figures));
    cr_assert_eq(figures.unnoticed, 0);
    cr_assert_eq(figures.false_deaths, 0);
}

Test(flock, one_in_a_hundred_that_is_slow_is_not_buried) {
    gw_gossip_figures figures;
    gw_gossip_measure(&(gw_gossip_trial){.peers = 1000, .slow = 10, .crashes = 3, .seed = 2}, &figures);
    cr_assert_lt(figures.all_worst_s, 3.0);
    cr_assert_eq(figures.unnoticed, 0);
    cr_assert_eq(figures.false_deaths, 0);
    cr_assert_gt(figures.false_suspicions, 0, "some peers are slow");
    cr_assert_leq(figures.false_suspicions, 1000 * 10 * 3 / 2, "each of the ten is suspected about once");
    cr_assert_lt(figures.quick_worst_s, figures.all_worst_s, "slow peers learn of it later");
    cr_assert_lt(figures.bytes_per_s, 1000, "%f", figures.bytes_per_s);
    cr_assert_gt(figures.bytes_per_s, figures.datagrams_per_s * GW_PACKET_OVERHEAD, "the seal counts");
}

static bool good_with(gw_gossip_figures figures, gw_gossip_asked asked) {
    figures.asked = asked;
    return gw_gossip_figures_good(&figures);
}

Test(flock, a_measurement_that_misses_what_is_asked_is_not_good) {
    for (uint32_t slow = 0; slow <= 1; slow++) {
        gw_gossip_figures f;
        gw_gossip_measure(&(gw_gossip_trial){.peers = 100, .slow = slow, .crashes = 2, .seed = 4}, &f);
        double known_s = slow > 0 ? f.quick_worst_s : f.all_worst_s;
        cr_assert_float_eq(f.asked.known_s, 3, 1e-9);
        cr_assert_float_eq(f.asked.bytes_per_s, 2000, 1e-9);
        cr_assert(gw_gossip_figures_good(&f));
        cr_assert(good_with(f, (gw_gossip_asked){known_s + 0.001, f.bytes_per_s + 1}));
        cr_assert(!good_with(f, (gw_gossip_asked){known_s - 0.001, f.bytes_per_s + 1}));
        cr_assert(!good_with(f, (gw_gossip_asked){known_s + 0.001, f.bytes_per_s - 1}));
    }
}

/* These trials ask other questions than how soon and by how much on a usual network. */
Test(flock, of_a_bad_network_or_many_slow_peers_no_speed_is_asked) {
    const gw_gossip_trial other[] = {
        {.peers = 20, .crashes = 1, .weather = {.drop = 0.01}},
        {.peers = 20, .crashes = 1, .weather = {.delay_least_ns = MS, .delay_most_ns = 9 * MS}},
        {.peers = 20, .crashes = 1, .slow = 1},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        gw_gossip_figures f;
        gw_gossip_measure(&other[i], &f);
        cr_assert(f.asked.known_s == 0 && f.asked.bytes_per_s == 0, "%zu", i);
        f.bytes_per_s = f.all_worst_s = f.quick_worst_s = 1e6;
        cr_assert(gw_gossip_figures_good(&f), "%zu", i);
    }
}

Test(flock, a_bad_network_hides_no_crash_and_buries_nobody) {
    gw_gossip_figures figures;
    gw_gossip_measure(&(gw_gossip_trial){.peers = 100,
                                         .crashes = 5,
                                         .seed = 3,
                                         .weather = {.drop = 0.05,
                                                     .duplicate = 0.02,
                                                     .garble = 0.01,
                                                     .tail = 0.01,
                                                     .delay_least_ns = MS / 2,
                                                     .delay_most_ns = 5 * MS}},
                      &figures);
    cr_assert(gw_gossip_figures_good(&figures));
    cr_assert_lt(figures.all_worst_s, 5.0);
    cr_assert_gt(figures.dropped, figures.sent / 25);
    cr_assert_gt(figures.duplicated, figures.sent / 100);
    cr_assert_gt(figures.garbled, figures.sent / 200);
    cr_assert_eq(figures.forged, 0);
}

/* Peers that are cut off are declared dead; when all faults are healed, all peers know all again. */
Test(flock, cuts_of_every_kind_heal) {
    gw_flock_cuts all = {.over = true};
    uint64_t deaths = 0;
    uint32_t parted_at_last = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        gw_gossip_figures figures;
        gw_gossip_measure(
            &(gw_gossip_trial){
                .peers = 40,
                .crashes = 1,
                .seed = seed,
                .cuts = {.partition_ms = 3000, .blind_ms = 2000, .clog_ms = 300, .flap_permille = 500},
                .cuts_ms = 60000},
            &figures);
        cr_assert(gw_gossip_figures_good(&figures), "seed %lu: %f", seed, figures.whole_s);
        cr_assert_eq(figures.false_deaths, 0, "there were none before");
        parted_at_last += figures.whole_s > 0;
        deaths += figures.cut_deaths;
        all.partitions += figures.cuts.partitions;
        all.one_way += figures.cuts.one_way;
        all.flaps += figures.cuts.flaps;
        all.parted += figures.cuts.parted;
        all.clogged += figures.cuts.clogged;
    }
    cr_assert_gt(all.partitions, 15);
    cr_assert_gt(all.one_way, 10);
    cr_assert_gt(all.flaps, 10);
    cr_assert_gt(all.parted, 1000);
    cr_assert_gt(all.clogged, 400);
    cr_assert_gt(deaths, 1000);
    cr_assert_gt(parted_at_last, 2);
}

Test(flock, equal_seeds_give_equal_runs) {
    uint64_t sent[2], events[2];
    for (int i = 0; i < 2; i++) {
        gw_flock flock;
        gw_flock_open(&flock, 30, 7);
        flock.network.weather.drop = 0.1;
        start_all(&flock, 1);
        gw_flock_run(&flock, 20 * SECOND);
        sent[i] = flock.bytes_sent;
        events[i] = gw_sim_events_run(flock.engine);
        gw_flock_close(&flock);
    }
    cr_assert_eq(sent[0], sent[1]);
    cr_assert_eq(events[0], events[1]);
}
