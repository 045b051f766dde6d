/* The rules of membership, one peer at a time: what it sends and says when it is told something. */
#include "tests/core/gossip/world.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <string.h>

Test(gossip, refuses_bad_configurations) {
    gw_gossip_config config = {.timing = gw_gossip_timing_default()};
    gw_gossip *gossip = NULL;
    gw_err err;
    cr_assert(!gw_gossip_create(&config, &gossip, &err));
    config.id = self_id;
    config.seed_count = GW_GOSSIP_SEEDS + 1;
    cr_assert(!gw_gossip_create(&config, &gossip, &err));
    cr_assert_eq(err.code, GW_E_LIMIT);
    config.seed_count = 0;
    config.timing.period_ns = 0;
    cr_assert(!gw_gossip_create(&config, &gossip, &err));
}

Test(gossip, a_rumour_introduces_a_member) {
    gossip_world w;
    gossip_world_open(&w);
    gw_gossip_record a = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    gossip_hear_rumour(&w, &a);
    gossip_assert_last(&w, 0, 1, GW_GOSSIP_ALIVE, &alice);
    cr_assert(gw_addr_equal(&gw_gossip_find(w.gossip, &alice)->addr[0], &alices));
    cr_assert_null(gw_gossip_find(w.gossip, &bob), "the teller is not known by its header alone");
    cr_assert_eq(w.packet[(w.sent - 1) % GOSSIP_KEPT].type, GW_GOSSIP_DIGEST,
                 "a stranger is asked who it is");
    gw_gossip_destroy(w.gossip);
}

Test(gossip, answers_a_ping_meant_for_it_only) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_gossip_packet ping = {.type = GW_GOSSIP_PING, .sender = bob, .seq = 77, .target = self_id};
    ping.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    gossip_hear(&w, ping, &bobs, NULL);
    const gw_gossip_packet *last = &w.packet[(w.sent - 1) % GOSSIP_KEPT];
    cr_assert_eq(last->type, GW_GOSSIP_ACK);
    cr_assert_eq(last->seq, 77);
    cr_assert(gw_addr_equal(&w.to[(w.sent - 1) % GOSSIP_KEPT], &bobs));
    uint32_t before = w.sent;
    ping.target = alice;
    gossip_hear(&w, ping, &bobs, NULL);
    cr_assert_eq(w.sent, before);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_silent_member_is_suspected_then_dead_then_back) {
    gossip_world w;
    gossip_world_open(&w);
    gw_gossip_record a = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    gossip_hear_rumour(&w, &a);
    gossip_run(&w, 700 * GOSSIP_MS);
    gossip_assert_last(&w, 0, 2, GW_GOSSIP_SUSPECT, &alice);
    gossip_run(&w, 3 * GOSSIP_SECOND);
    gossip_assert_last(&w, 2, 1, GW_GOSSIP_DEAD, &alice);
    cr_assert(!w.event[2].proven);
    gw_gossip_record back = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 1);
    gossip_hear_rumour(&w, &back);
    gossip_assert_last(&w, 3, 1, GW_GOSSIP_ALIVE, &alice);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, precedence_is_by_refutation_then_state) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    const struct {
        gw_gossip_state told;
        uint32_t refutation;
        gw_gossip_state then;
    } story[] = {
        {GW_GOSSIP_IS_SUSPECT, 0, GW_GOSSIP_IS_SUSPECT}, {GW_GOSSIP_IS_ALIVE, 0, GW_GOSSIP_IS_SUSPECT},
        {GW_GOSSIP_IS_ALIVE, 1, GW_GOSSIP_IS_ALIVE},     {GW_GOSSIP_IS_SUSPECT, 0, GW_GOSSIP_IS_ALIVE},
        {GW_GOSSIP_IS_DEAD, 0, GW_GOSSIP_IS_ALIVE},      {GW_GOSSIP_IS_DEAD, 1, GW_GOSSIP_IS_DEAD},
        {GW_GOSSIP_IS_SUSPECT, 1, GW_GOSSIP_IS_DEAD},    {GW_GOSSIP_IS_SUSPECT, 2, GW_GOSSIP_IS_SUSPECT},
        {GW_GOSSIP_IS_ALIVE, 3, GW_GOSSIP_IS_ALIVE},     {GW_GOSSIP_IS_LEFT, 3, GW_GOSSIP_IS_LEFT},
        {GW_GOSSIP_IS_DEAD, 3, GW_GOSSIP_IS_LEFT},
    };
    for (size_t i = 0; i < sizeof story / sizeof *story; i++) {
        gw_gossip_record record = gossip_about(&alice, &alices, story[i].told, 1, story[i].refutation);
        record.accuser = bob;
        gossip_hear_rumour(&w, &record);
        cr_assert_eq(gossip_state_of(&w, &alice), story[i].then, "line %zu", i);
    }
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_newer_boot_is_the_older_lifes_death) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    uint32_t before = w.told;
    gw_gossip_record again = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 2, 0);
    gossip_hear_rumour(&w, &again);
    gossip_assert_last(&w, before, 2, GW_GOSSIP_ALIVE, &alice);
    cr_assert_eq(w.event[before % GOSSIP_KEPT].kind, GW_GOSSIP_DEAD);
    cr_assert_eq(w.event[before % GOSSIP_KEPT].incarnation.boot, 1);
    cr_assert_eq(w.event[(before + 1) % GOSSIP_KEPT].incarnation.boot, 2);
    gw_gossip_record late = gossip_about(&alice, &alices, GW_GOSSIP_IS_DEAD, 1, 9);
    gossip_hear_rumour(&w, &late);
    cr_assert_eq(gossip_state_of(&w, &alice), GW_GOSSIP_IS_ALIVE);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_header_alone_shows_a_restart) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_gossip_packet packet = {.type = GW_GOSSIP_RUMOURS, .sender = alice};
    packet.incarnation = (gw_incarnation){.boot = 2, .nonce = 20};
    gossip_hear(&w, packet, &bobs, NULL); /* from another address than before */
    cr_assert_eq(gw_gossip_find(w.gossip, &alice)->incarnation.boot, 2);
    cr_assert(gw_addr_equal(&gw_gossip_find(w.gossip, &alice)->addr[0], &bobs));
    gw_gossip_destroy(w.gossip);
}

Test(gossip, refutes_what_is_said_of_itself) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_gossip_record accusation = gossip_about(&self_id, NULL, GW_GOSSIP_IS_SUSPECT, 5, 7);
    accusation.accuser = bob;
    uint32_t before = w.sent;
    gossip_hear_rumour(&w, &accusation);
    cr_assert_eq(gw_gossip_self(w.gossip)->incarnation.refutation, 8);
    cr_assert_gt(w.sent, before);
    cr_assert(gw_addr_equal(&w.to[before % GOSSIP_KEPT], &bobs), "the accuser hears it first");
    cr_assert(gw_peer_id_equal(&w.record[before % GOSSIP_KEPT].id, &self_id));
    cr_assert_eq(w.record[before % GOSSIP_KEPT].incarnation.refutation, 8);
    gw_gossip_destroy(w.gossip);
}

/* By datagrams before a tick, and by a tick before datagrams. */
Test(gossip, who_stood_still_asks_for_patience) {
    for (int ticked = 0; ticked < 2; ticked++) {
        for (int late = 0; late < 2; late++) {
            gossip_world w;
            gossip_world_open(&w);
            gossip_meet_alice_and_bob(&w);
            uint64_t timeout_ns = gw_gossip_timing_default().ping_timeout_ns;
            w.now_ns = gw_gossip_next_deadline(w.gossip) + (late ? timeout_ns + 1 : timeout_ns);
            if (ticked) gw_gossip_tick(w.gossip, w.now_ns);
            gw_gossip_record accusation = gossip_about(&self_id, NULL, GW_GOSSIP_IS_SUSPECT, 5, 7);
            accusation.accuser = bob;
            gossip_hear_rumour(&w, &accusation);
            cr_assert_eq(gw_gossip_self(w.gossip)->incarnation.refutation, late ? 7 + GW_GOSSIP_PATIENCE : 8);
            gossip_run(&w, gw_gossip_timing_default().suspicion_ns);
            accusation.incarnation.refutation = 20;
            gossip_hear_rumour(&w, &accusation);
            cr_assert_eq(gw_gossip_self(w.gossip)->incarnation.refutation, 21, "it was long ago");
            gw_gossip_destroy(w.gossip);
        }
    }
}

Test(gossip, a_suspect_is_told_so) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_gossip_record accusation = gossip_about(&alice, &alices, GW_GOSSIP_IS_SUSPECT, 1, 0);
    accusation.accuser = bob;
    gossip_hear_rumour(&w, &accusation);
    gw_gossip_packet ping = {.type = GW_GOSSIP_PING, .sender = alice, .seq = 1, .target = self_id};
    ping.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    gossip_hear(&w, ping, &alices, NULL);
    const gw_gossip_record *first = &w.record[(w.sent - 1) % GOSSIP_KEPT];
    cr_assert_eq(w.packet[(w.sent - 1) % GOSSIP_KEPT].type, GW_GOSSIP_ACK);
    cr_assert(gw_peer_id_equal(&first->id, &alice));
    cr_assert_eq(first->state, GW_GOSSIP_IS_SUSPECT);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, accusations_of_strangers_are_kept_and_relayed) {
    gossip_world w;
    gossip_world_open(&w);
    gw_gossip_record b = gossip_about(&bob, &bobs, GW_GOSSIP_IS_ALIVE, 1, 0);
    gossip_hear_rumour(&w, &b);
    gw_gossip_record accusation = gossip_about(&alice, &alices, GW_GOSSIP_IS_DEAD, 1, 0);
    uint32_t told = w.told, sent = w.sent;
    gossip_hear_rumour(&w, &accusation);
    gossip_assert_last(&w, told, 1, GW_GOSSIP_DEAD, &alice);
    gossip_run(&w, 100 * GOSSIP_MS);
    bool relayed = false;
    for (uint32_t i = sent; i < w.sent; i++)
        relayed |= w.records[i % GOSSIP_KEPT] > 0 && gw_peer_id_equal(&w.record[i % GOSSIP_KEPT].id, &alice);
    cr_assert(relayed);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_rumoured_death_of_someone_just_heard_is_checked_first) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_gossip_packet packet = {.type = GW_GOSSIP_RUMOURS, .sender = alice};
    packet.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    gossip_hear(&w, packet, &alices, NULL);
    gw_gossip_record rumour = gossip_about(&alice, &alices, GW_GOSSIP_IS_DEAD, 1, 0);
    uint32_t before = w.sent;
    gossip_hear_rumour(&w, &rumour);
    cr_assert_eq(gossip_state_of(&w, &alice), GW_GOSSIP_IS_ALIVE);
    cr_assert_eq(w.record[before % GOSSIP_KEPT].state, GW_GOSSIP_IS_DEAD, "alice is told");
    cr_assert_eq(w.packet[(before + 1) % GOSSIP_KEPT].type, GW_GOSSIP_PING, "and probed");
    rumour.proven = true;
    gossip_hear_rumour(&w, &rumour);
    cr_assert_eq(gossip_state_of(&w, &alice), GW_GOSSIP_IS_DEAD, "proof is believed");
    gw_gossip_destroy(w.gossip);
}

Test(gossip, proof_of_death_is_spread_at_once) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    uint32_t told = w.told, sent = w.sent;
    gw_incarnation other = {.boot = 9, .nonce = 9}, life = {.boot = 1, .nonce = 10};
    gw_gossip_confirm_dead(w.gossip, &alice, &other, w.now_ns);
    cr_assert_eq(w.told, told, "another life");
    gw_gossip_confirm_dead(w.gossip, &alice, &life, w.now_ns);
    gossip_assert_last(&w, told, 1, GW_GOSSIP_DEAD, &alice);
    cr_assert(w.event[told % GOSSIP_KEPT].proven);
    cr_assert_gt(w.sent, sent);
    cr_assert_eq(w.gossip->live, 2);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, two_processes_of_one_identity_are_named) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    uint32_t before = w.told;
    gw_gossip_record clone = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    clone.incarnation.nonce = 11;
    gossip_hear_rumour(&w, &clone);
    gossip_hear_rumour(&w, &clone);
    gossip_assert_last(&w, before, 1, GW_GOSSIP_CLONED, &alice);
    cr_assert_eq(w.event[before % GOSSIP_KEPT].incarnation.nonce, 10);
    cr_assert_eq(w.event[before % GOSSIP_KEPT].other.nonce, 11);
    gw_gossip_record mine = gossip_about(&self_id, &alices, GW_GOSSIP_IS_ALIVE, 6, 0);
    gossip_hear_rumour(&w, &mine);
    gossip_hear_rumour(&w, &mine);
    gossip_assert_last(&w, before, 2, GW_GOSSIP_CLONED, &self_id);
    gw_gossip_destroy(w.gossip);
}

/* It is among its own seeds, and was started again before what it had sent to itself arrived. */
Test(gossip, what_an_earlier_life_sent_to_itself_is_no_other_process) {
    gossip_world w;
    gossip_world_open(&w);
    uint32_t before = w.told;
    const gw_addr own = w.gossip->self->public.addr[0];
    gw_gossip_packet packet = {.type = GW_GOSSIP_RUMOURS, .sender = self_id};
    packet.incarnation = (gw_incarnation){.boot = w.gossip->self->public.incarnation.boot - 1, .nonce = 77};
    gossip_hear(&w, packet, &own, NULL);
    cr_assert_eq(w.told, before);
    gossip_hear(&w, packet, &alices, NULL);
    gossip_assert_last(&w, before, 1, GW_GOSSIP_CLONED, &self_id);
    gw_gossip_destroy(w.gossip);
}

enum {
    ASK = 2 /* datagrams to a seed: an introduction in the present version, and a digest in the one before */
};

/* Where the one seed that is left is drawn by lot, it may be missed for as long as anybody looks. */
Test(gossip, who_has_company_asks_one_seed_after_the_other) {
    enum { SEEDS = 16 };
    gw_addr seeds[SEEDS];
    for (uint8_t i = 0; i < SEEDS; i++)
        seeds[i] = (gw_addr){.family = 4, .ip = {10, 9, 0, (uint8_t)(i + 1)}, .port = 1000};
    gossip_world w = {.now_ns = GOSSIP_SECOND};
    gw_gossip_config config = gossip_config(&w);
    config.seeds = seeds;
    config.seed_count = SEEDS;
    gw_err err;
    cr_assert(gw_gossip_create(&config, &w.gossip, &err));
    gw_gossip_start(w.gossip, w.now_ns);
    gossip_meet_alice_and_bob(&w);
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t asked[SEEDS] = {0};
        for (uint32_t i = 0; i < SEEDS; i++) {
            uint32_t before = w.sent;
            gw_gossip_try_seeds(w.gossip, w.now_ns);
            cr_assert_eq(w.sent, before + ASK);
            for (uint32_t k = 0; k < SEEDS; k++)
                asked[k] += gw_addr_equal(&w.to[before % GOSSIP_KEPT], &seeds[k]);
        }
        for (uint32_t k = 0; k < SEEDS; k++) cr_assert_eq(asked[k], 1, "seed %u: %u times", k, asked[k]);
    }
    gw_gossip_destroy(w.gossip);
}

Test(gossip, other_seeds_are_asked_instead_and_new_ones_at_once) {
    gw_addr seeds[3];
    for (uint8_t i = 0; i < 3; i++) seeds[i] = (gw_addr){.family = 4, .ip = {10, 9, 0, i}, .port = 1000};
    gossip_world w = {.now_ns = GOSSIP_SECOND};
    gw_gossip_config config = gossip_config(&w);
    gw_err err;
    cr_assert(gw_gossip_create(&config, &w.gossip, &err));
    gw_gossip_start(w.gossip, w.now_ns);
    gossip_meet_alice_and_bob(&w);
    uint32_t before = w.sent;
    gw_gossip_seek(w.gossip, seeds, 2, w.now_ns);
    gw_gossip_tick(w.gossip, w.now_ns);
    cr_assert_eq(w.sent, before + ASK);
    cr_assert(gw_addr_equal(&w.to[before % GOSSIP_KEPT], &seeds[0]));
    gw_gossip_seek(w.gossip, seeds, 3, w.now_ns); /* of which the last is new */
    gw_gossip_tick(w.gossip, w.now_ns);
    cr_assert(gw_addr_equal(&w.to[(before + ASK) % GOSSIP_KEPT], &seeds[2]));
    gw_gossip_seek(w.gossip, &seeds[1], 1, w.now_ns); /* which is known: it has time */
    gw_gossip_tick(w.gossip, w.now_ns);
    cr_assert_eq(w.sent, before + 2 * ASK);
    for (uint32_t i = 0; i < 3; i++) gw_gossip_try_seeds(w.gossip, w.now_ns);
    for (uint32_t i = 2 * ASK; i < 5 * ASK; i++)
        cr_assert(gw_addr_equal(&w.to[(before + i) % GOSSIP_KEPT], &seeds[1]));
    gw_gossip_destroy(w.gossip);
}

Test(gossip, own_addresses_that_are_known_later_are_told_to_others) {
    const gw_addr own = {.family = 4, .ip = {10, 7, 0, 5}, .port = 7117};
    gossip_world w = {0};
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    for (uint32_t i = 0; i < 200 && w.gossip->rumours[GW_NEWS].count > 0; i++) /* else they come first */
        gw_gossip_rumour_round(w.gossip, w.now_ns);
    gw_gossip_set_addresses(w.gossip, &own, 1, w.now_ns);
    cr_assert(gw_gossip_self(w.gossip)->addr_count == 1 &&
              gw_addr_equal(&gw_gossip_self(w.gossip)->addr[0], &own));
    uint32_t before = w.sent, told = 0;
    gossip_run(&w, 2 * GOSSIP_SECOND);
    for (uint32_t i = before; i < w.sent && i < before + GOSSIP_KEPT; i++) {
        const gw_gossip_record *record = &w.record[i % GOSSIP_KEPT];
        told += w.records[i % GOSSIP_KEPT] > 0 && gw_peer_id_equal(&record->id, &self_id) &&
                record->addr_count == 1 && gw_addr_equal(&record->addr[0], &own);
    }
    cr_assert_gt(told, 0);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, without_seeds_none_is_asked_any_more) {
    gw_addr seed = {.family = 4, .ip = {10, 9, 0, 1}, .port = 1000};
    gossip_world w = {.now_ns = GOSSIP_SECOND};
    gw_gossip_config config = gossip_config(&w);
    config.seeds = &seed;
    config.seed_count = 1;
    gw_err err;
    cr_assert(gw_gossip_create(&config, &w.gossip, &err));
    gw_gossip_start(w.gossip, w.now_ns);
    gossip_run(&w, 60 * GOSSIP_SECOND);
    uint32_t before = w.sent;
    cr_assert_gt(before, 0);
    gw_gossip_seek(w.gossip, NULL, 0, w.now_ns);
    gossip_run(&w, 60 * GOSSIP_SECOND);
    cr_assert_eq(w.sent, before);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_hint_probes_at_once) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    uint32_t before = w.sent;
    gw_gossip_suspect_hint(w.gossip, &alice, w.now_ns);
    cr_assert_eq(w.sent, before + 1);
    cr_assert_eq(w.packet[before % GOSSIP_KEPT].type, GW_GOSSIP_PING);
    cr_assert(gw_addr_equal(&w.to[before % GOSSIP_KEPT], &alices));
    gw_gossip_destroy(w.gossip);
}

/* How long after the other of the two it is suspected that alice is, when both are asked now and are silent.
 */
static uint64_t alice_is_waited_for_longer(gossip_world *w) {
    gw_gossip_suspect_hint(w->gossip, &alice, w->now_ns);
    gw_gossip_suspect_hint(w->gossip, &bob, w->now_ns);
    while (gossip_state_of(w, &bob) != GW_GOSSIP_IS_SUSPECT) gossip_run(w, GOSSIP_MS);
    uint64_t bob_ns = w->now_ns;
    while (gossip_state_of(w, &alice) != GW_GOSSIP_IS_SUSPECT) gossip_run(w, GOSSIP_MS);
    return w->now_ns - bob_ns;
}

static void refute_suspicions(gossip_world *w, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        gw_gossip_record suspect = gossip_about(&alice, &alices, GW_GOSSIP_IS_SUSPECT, 1, i);
        gw_gossip_record refuted = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, i + 1);
        suspect.accuser = self_id; /* so that it does not ask alice as a witness */
        gossip_hear_rumour(w, &suspect);
        gossip_hear_rumour(w, &refuted);
    }
}

Test(gossip, who_refutes_suspicions_is_waited_for_longer) {
    for (uint32_t times = 0; times < 6; times++) {
        gossip_world w;
        gossip_world_open(&w);
        gossip_meet_alice_and_bob(&w);
        gw_gossip_timing timing = gw_gossip_timing_default();
        refute_suspicions(&w, times);
        uint32_t patience = times < GW_GOSSIP_PATIENCE ? times : GW_GOSSIP_PATIENCE;
        cr_assert_eq(alice_is_waited_for_longer(&w), patience * timing.probe_timeout_ns);
        gw_gossip_destroy(w.gossip);
    }
}

/* The refutation often overtakes the suspicion. */
Test(gossip, refutations_count_where_the_suspicions_were_not_heard) {
    for (uint32_t refutation = 0; refutation < 6; refutation++) {
        gossip_world w;
        gossip_world_open(&w);
        gossip_meet_alice_and_bob(&w);
        gw_gossip_timing timing = gw_gossip_timing_default();
        gw_gossip_record refuted = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, refutation);
        gossip_hear_rumour(&w, &refuted);
        uint32_t patience = refutation < GW_GOSSIP_PATIENCE ? refutation : GW_GOSSIP_PATIENCE;
        cr_assert_eq(alice_is_waited_for_longer(&w), patience * timing.probe_timeout_ns);
        gw_gossip_destroy(w.gossip);
    }
}

/* Each suspicion of a slow peer is told to all: they come as rarely for each as in a small flock. */
Test(gossip, a_large_flock_remembers_for_longer_who_was_slow) {
    enum { OTHERS = 200 };
    uint64_t forgotten_ns = (OTHERS + 3) * GW_GOSSIP_STEADY_MEMBER_NS;
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        gossip_world w;
        gossip_world_open(&w);
        gossip_meet_alice_and_bob(&w);
        for (uint8_t i = 0; i < OTHERS; i++) {
            gw_peer_id id = {{'o', i}};
            gw_gossip_record other = gossip_about(&id, NULL, GW_GOSSIP_IS_ALIVE, 1, 0);
            gossip_hear_rumour(&w, &other);
        }
        refute_suspicions(&w, GW_GOSSIP_PATIENCE);
        w.now_ns += forgotten ? forgotten_ns + 1 : forgotten_ns - GOSSIP_SECOND;
        gw_gossip_tick(w.gossip, w.now_ns);
        uint64_t longer_ns = GW_GOSSIP_PATIENCE * gw_gossip_timing_default().probe_timeout_ns;
        cr_assert_eq(alice_is_waited_for_longer(&w), forgotten ? 0 : longer_ns);
        gw_gossip_destroy(w.gossip);
    }
}

/* Otherwise each newcomer to a flock would suspect all its slow members anew. */
Test(gossip, refutations_of_strangers_count) {
    for (uint32_t refutation = 0; refutation < 6; refutation++) {
        gossip_world w;
        gossip_world_open(&w);
        gw_gossip_record b = gossip_about(&bob, &bobs, GW_GOSSIP_IS_ALIVE, 1, 0);
        gw_gossip_record a = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, refutation);
        gossip_hear_rumour(&w, &b);
        gossip_hear_rumour(&w, &a);
        uint32_t patience = refutation < GW_GOSSIP_PATIENCE ? refutation : GW_GOSSIP_PATIENCE;
        cr_assert_eq(alice_is_waited_for_longer(&w), patience * gw_gossip_timing_default().probe_timeout_ns);
        gw_gossip_destroy(w.gossip);
    }
}

Test(gossip, who_was_slow_once_is_not_waited_for_for_ever) {
    for (int restarted = 0; restarted < 2; restarted++) {
        gossip_world w;
        gossip_world_open(&w);
        gossip_meet_alice_and_bob(&w);
        refute_suspicions(&w, GW_GOSSIP_PATIENCE);
        if (restarted) {
            gw_gossip_record next = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 2, 0);
            gossip_hear_rumour(&w, &next);
        } else {
            w.now_ns += 3 * GW_GOSSIP_STEADY_MEMBER_NS + 1;
            gw_gossip_tick(w.gossip, w.now_ns);
        }
        cr_assert_eq(alice_is_waited_for_longer(&w), 0);
        gw_gossip_destroy(w.gossip);
    }
}

Test(gossip, a_gap_in_its_own_loop_buries_nobody) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gossip_run(&w, 900 * GOSSIP_MS);
    cr_assert_eq(gossip_state_of(&w, &alice), GW_GOSSIP_IS_SUSPECT);
    uint32_t before = w.told;
    w.now_ns += 60 * GOSSIP_SECOND;
    gw_gossip_tick(w.gossip, w.now_ns);
    gossip_run(&w, 500 * GOSSIP_MS);
    cr_assert_eq(w.told, before);
    gw_gossip_stats stats;
    gw_gossip_stats_read(w.gossip, &stats);
    cr_assert_eq(stats.gaps, 1);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, only_the_latest_blob_is_told_and_not_too_often) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    for (uint8_t i = 0; i < 100; i++) {
        gw_gossip_set_meta(w.gossip, &i, 1, w.now_ns);
        gossip_run(&w, 10 * GOSSIP_MS);
    }
    gossip_run(&w, 200 * GOSSIP_MS);
    const gw_gossip_member *self = gw_gossip_self(w.gossip);
    cr_assert_eq(self->meta[0], 99);
    cr_assert_leq(self->meta_version, 12);
    cr_assert_eq(self->incarnation.refutation, 0);
    gw_gossip_record news = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    news.has_meta = true;
    news.meta_version = 4;
    news.meta_bytes = 2;
    news.meta = (const uint8_t *)"ok";
    uint32_t before = w.told;
    gossip_hear_rumour(&w, &news);
    gossip_assert_last(&w, before, 1, GW_GOSSIP_META, &alice);
    cr_assert_arr_eq(gw_gossip_find(w.gossip, &alice)->meta, "ok", 2);
    news.meta_version = 3;
    gossip_hear_rumour(&w, &news);
    cr_assert_eq(w.told, before + 1, "an older blob");
    gw_gossip_destroy(w.gossip);
}

Test(gossip, leaving_is_told_and_ends_probing) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gossip_run(&w, 250 * GOSSIP_MS); /* until the news of them is old */
    uint32_t before = w.sent;
    gw_gossip_leave(w.gossip, w.now_ns);
    cr_assert_gt(w.sent, before);
    cr_assert_eq(w.record[before % GOSSIP_KEPT].state, GW_GOSSIP_IS_LEFT);
    gw_gossip_record accusation = gossip_about(&self_id, NULL, GW_GOSSIP_IS_DEAD, 5, 0);
    gossip_hear_rumour(&w, &accusation);
    cr_assert_eq(gw_gossip_self(w.gossip)->incarnation.refutation, 0);
    gossip_run(&w, 2 * GOSSIP_SECOND);
    gw_gossip_stats stats;
    gw_gossip_stats_read(w.gossip, &stats);
    uint64_t probes = stats.probes;
    gossip_run(&w, 10 * GOSSIP_SECOND);
    gw_gossip_stats_read(w.gossip, &stats);
    cr_assert_eq(stats.probes, probes);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, foreign_and_malformed_datagrams_change_nothing) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    uint32_t told = w.told, sent = w.sent;
    gw_rng rng = gw_rng_seeded(9);
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[200];
        size_t length = gw_rng_below(&rng, sizeof bytes);
        for (size_t b = 0; b < length; b++) bytes[b] = (uint8_t)gw_rng_next(&rng);
        if (length > 2 && i % 2 == 0) bytes[0] = 1;
        if (length > 2) bytes[1] = (uint8_t)(1 + i % 7);
        gw_gossip_datagram(w.gossip, &bobs, bytes, length, w.now_ns);
    }
    cr_assert_eq(w.told, told);
    cr_assert_eq(w.sent, sent);
    gw_gossip_stats stats;
    gw_gossip_stats_read(w.gossip, &stats);
    cr_assert_eq(stats.foreign + stats.malformed, 20000);
    gw_gossip_destroy(w.gossip);
}

/* Datagrams that parse, with random contents: whatever they say, the tables stay whole. */
Test(gossip, random_records_break_no_invariant) {
    gossip_world w;
    gossip_world_open(&w);
    gw_rng rng = gw_rng_seeded(10);
    for (int i = 0; i < 20000; i++) {
        gw_peer_id ids[12];
        for (uint8_t n = 0; n < 12; n++) ids[n] = n == 0 ? self_id : (gw_peer_id){{'p', n}};
        gw_addr addr = alices;
        addr.ip[3] = (uint8_t)gw_rng_below(&rng, 16);
        gw_gossip_record record =
            gossip_about(&ids[gw_rng_below(&rng, 12)], gw_rng_below(&rng, 2) ? &addr : NULL,
                         (gw_gossip_state)gw_rng_below(&rng, 4), 1 + gw_rng_below(&rng, 6),
                         (uint32_t)gw_rng_below(&rng, 3));
        record.accuser = ids[gw_rng_below(&rng, 12)];
        record.proven = gw_rng_below(&rng, 8) == 0;
        gw_gossip_packet packet = {.type = (uint8_t)(1 + gw_rng_below(&rng, 7)),
                                   .sender = ids[gw_rng_below(&rng, 12)],
                                   .seq = (uint32_t)gw_rng_below(&rng, 100),
                                   .target = ids[gw_rng_below(&rng, 12)],
                                   .addr = addr,
                                   .buckets = 4};
        packet.incarnation = (gw_incarnation){.boot = 1 + gw_rng_below(&rng, 6), .nonce = 10};
        packet.incarnation.nonce *= packet.incarnation.boot;
        gossip_hear(&w, packet, &addr, &record);
        gossip_run(&w, gw_rng_below(&rng, 30) * GOSSIP_MS);
        uint32_t live = 0;
        for (uint32_t m = 0; m < gw_gossip_count(w.gossip); m++)
            live += gw_gossip_at(w.gossip, m)->state <= GW_GOSSIP_IS_SUSPECT;
        cr_assert_eq(live, w.gossip->live);
    }
    gw_gossip_destroy(w.gossip);
}
