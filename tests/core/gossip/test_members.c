/* Many members, members that are hardly known, and members that are forgotten: the tables behind the rules.
 */
#include "tests/core/gossip/world.h"

#include "core/gossip/codec.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <string.h>

static gw_peer_id stranger(uint32_t number) {
    gw_peer_id id;
    gw_blake2b(&number, sizeof number, id.bytes, sizeof id.bytes);
    return id;
}

static gw_addr strangers_address(uint32_t number) {
    return (gw_addr){.family = 4, .ip = {10, 1, (uint8_t)(number >> 8), (uint8_t)number}, .port = 1000};
}

/* Bob tells of strangers `first` to `last` - 1. */
static void hear_of(gossip_world *w, uint32_t first, uint32_t last, gw_gossip_state state) {
    for (uint32_t i = first; i < last; i++) {
        gw_peer_id id = stranger(i);
        gw_addr addr = strangers_address(i);
        gw_gossip_record record = gossip_about(&id, &addr, state, 1, 0);
        gossip_hear_rumour(w, &record);
    }
}

/* Lets time pass, and counts the packets of this type that are about `target` (NULL: anybody). */
static uint32_t run_and_count(gossip_world *w, uint64_t for_ns, gw_gossip_type type,
                              const gw_peer_id *target) {
    uint32_t found = 0;
    for (uint64_t until_ns = w->now_ns + for_ns; w->now_ns < until_ns;) {
        uint32_t before = w->sent;
        gossip_run(w, 5 * GOSSIP_MS);
        cr_assert_leq(w->sent - before, GOSSIP_KEPT);
        for (uint32_t i = before; i < w->sent; i++) {
            const gw_gossip_packet *packet = &w->packet[i % GOSSIP_KEPT];
            found += packet->type == type && (target == NULL || gw_peer_id_equal(&packet->target, target));
        }
    }
    return found;
}

Test(gossip_members, a_pace_that_makes_no_sense_is_refused) {
    gossip_world w = {0};
    const gw_gossip_config good = gossip_config(&w);
    gw_gossip_config bad[16];
    size_t count = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) bad[i] = good;
    bad[count++].timing.period_ns = 0;
    bad[count++].timing.ping_timeout_ns = 0;
    bad[count++].timing.probe_timeout_ns = good.timing.ping_timeout_ns;
    bad[count++].timing.suspicion_ns = 0;
    bad[count++].timing.rumour_ns = 0;
    bad[count++].timing.sync_ns = 0;
    bad[count++].timing.revive_ns = 0;
    bad[count++].timing.seed_ns = 9;
    bad[count++].timing.gap_ns = 0;
    bad[count++].timing.meta_bytes_per_s = 0;
    bad[count++].timing.fanout = 0;
    bad[count++].timing.confirmations = GW_GOSSIP_CONFIRMERS;
    bad[count++].addr_count = GW_GOSSIP_ADDRS + 1;
    for (size_t i = 0; i < count; i++) {
        gw_gossip *gossip = NULL;
        gw_err err = {0};
        cr_assert(!gw_gossip_create(&bad[i], &gossip, &err), "%zu", i);
        cr_assert_null(gossip);
        cr_assert(err.code == GW_E_INVALID || err.code == GW_E_LIMIT);
    }
    gw_gossip *gossip;
    gw_err err;
    cr_assert(gw_gossip_create(&good, &gossip, &err));
    gw_gossip_tick(gossip, 60 * GOSSIP_SECOND);
    cr_assert_eq(w.sent, 0, "not before it is started");
    gw_gossip_destroy(gossip);
}

Test(gossip_members, hints_about_itself_strangers_and_the_dead_do_nothing) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_gossip_record death = gossip_about(&alice, &alices, GW_GOSSIP_IS_DEAD, 1, 0);
    death.proven = true;
    gossip_hear_rumour(&w, &death);
    const gw_peer_id nobody = stranger(0), *about[] = {&self_id, &alice, &nobody};
    uint32_t sent = w.sent, told = w.told;
    for (int i = 0; i < 3; i++) {
        const gw_gossip_member *member = gw_gossip_find(w.gossip, about[i]);
        const gw_incarnation life = member == NULL ? (gw_incarnation){.boot = 1} : member->incarnation;
        gw_gossip_suspect_hint(w.gossip, about[i], w.now_ns);
        gw_gossip_confirm_dead(w.gossip, about[i], &life, w.now_ns);
    }
    cr_assert_eq(w.sent, sent);
    cr_assert_eq(w.told, told);
    cr_assert_eq(gossip_state_of(&w, &self_id), GW_GOSSIP_IS_ALIVE);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, good_bye_is_said_once_and_nobody_is_probed_after_it) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_gossip_leave(w.gossip, w.now_ns);
    uint32_t sent = w.sent;
    gw_gossip_leave(w.gossip, w.now_ns);
    gw_gossip_suspect_hint(w.gossip, &alice, w.now_ns);
    cr_assert_eq(w.sent, sent);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, a_blob_that_did_not_change_is_not_told_again_and_an_empty_one_is_one) {
    gossip_world w;
    gossip_world_open(&w);
    gw_gossip_set_meta(w.gossip, NULL, 0, w.now_ns);
    cr_assert_eq(gw_gossip_self(w.gossip)->meta_version, 1);
    static const struct {
        const char *blob;
        uint32_t version;
    } story[] = {{"", 1}, {"ab", 2}, {"ab", 2}, {"ac", 3}, {"", 4}, {"", 4}};
    for (size_t i = 0; i < sizeof story / sizeof *story; i++) {
        gossip_run(&w, 300 * GOSSIP_MS);
        gw_gossip_set_meta(w.gossip, story[i].blob, strlen(story[i].blob), w.now_ns);
        cr_assert_eq(gw_gossip_self(w.gossip)->meta_version, story[i].version, "line %zu", i);
        cr_assert_eq(gw_gossip_self(w.gossip)->meta_bytes, strlen(story[i].blob), "line %zu", i);
    }
    gw_gossip_set_meta(w.gossip, "ad", 2, w.now_ns);
    gw_gossip_set_meta(w.gossip, "ad", 2, w.now_ns); /* while the first waits for its turn */
    gossip_run(&w, 300 * GOSSIP_MS);
    cr_assert_eq(gw_gossip_self(w.gossip)->meta_version, 5);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, news_do_not_wait_for_the_bandwidth_that_blobs_wait_for) {
    gossip_world w = {.now_ns = GOSSIP_SECOND};
    gw_gossip_config config = gossip_config(&w);
    config.timing.meta_bytes_per_s = 100;
    gw_err err;
    cr_assert(gw_gossip_create(&config, &w.gossip, &err));
    gw_gossip_start(w.gossip, w.now_ns);
    gossip_meet_alice_and_bob(&w);
    gossip_run(&w, 250 * GOSSIP_MS); /* until the news of them is old */
    gw_gossip_set_meta(w.gossip, "blob", 4, w.now_ns);
    gossip_run(&w, 20 * GOSSIP_MS);
    uint64_t pause_ns = config.timing.rumour_ns;
    cr_assert_gt(w.gossip->rumour_due, w.now_ns + 2 * pause_ns);
    hear_of(&w, 0, 1, GW_GOSSIP_IS_ALIVE);
    cr_assert_leq(w.gossip->rumour_due, w.now_ns + pause_ns);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, datagrams_from_nowhere_are_malformed) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    const gw_addr nowhere[] = {{.family = 0, .port = 1000}, {.family = 4, .ip = {10, 0, 0, 9}, .port = 0}};
    gw_gossip_packet ping = {.type = GW_GOSSIP_PING, .sender = bob, .seq = 7, .target = self_id};
    ping.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    uint32_t sent = w.sent;
    for (int i = 0; i < 2; i++) gossip_hear(&w, ping, &nowhere[i], NULL);
    cr_assert_eq(w.sent, sent);
    gw_gossip_stats stats;
    gw_gossip_stats_read(w.gossip, &stats);
    cr_assert_eq(stats.malformed, 2);
    gw_gossip_destroy(w.gossip);
}

/* ---- probes ---- */

/* Hearsay of the later life names no address: the probe of the earlier one has nobody to ask about it. */
Test(gossip_members, a_probe_ends_with_the_life_that_it_was_of) {
    for (int gap = 0; gap < 2; gap++) {
        gossip_world w;
        gossip_world_open(&w);
        gossip_meet_alice_and_bob(&w);
        gw_gossip_suspect_hint(w.gossip, &alice, w.now_ns);
        gw_gossip_record later = gossip_about(&alice, NULL, GW_GOSSIP_IS_ALIVE, 2, 0);
        gossip_hear_rumour(&w, &later);
        if (gap) w.now_ns += 10 * GOSSIP_SECOND; /* this process stood still */
        uint32_t asked = run_and_count(&w, 2 * GOSSIP_SECOND, GW_GOSSIP_PING_REQ, &alice);
        cr_assert_eq(asked, 0);
        cr_assert_eq(gw_gossip_find(w.gossip, &alice)->incarnation.boot, 2);
        cr_assert_eq(gossip_state_of(&w, &alice), GW_GOSSIP_IS_ALIVE);
        gw_gossip_destroy(w.gossip);
    }
}

Test(gossip_members, whoever_has_no_address_is_neither_probed_nor_buried_on_hearsay_of_a_sync) {
    gossip_world w;
    gossip_world_open(&w);
    gw_gossip_record b = gossip_about(&bob, &bobs, GW_GOSSIP_IS_ALIVE, 1, 0),
                     a = gossip_about(&alice, NULL, GW_GOSSIP_IS_ALIVE, 1, 0);
    gossip_hear_rumour(&w, &b);
    gossip_hear_rumour(&w, &a);
    uint32_t sent = w.sent;
    gw_gossip_suspect_hint(w.gossip, &alice, w.now_ns);
    gw_gossip_packet entries = {.type = GW_GOSSIP_ENTRIES, .sender = bob};
    entries.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    gw_gossip_record death = gossip_about(&alice, NULL, GW_GOSSIP_IS_DEAD, 1, 0);
    gossip_hear(&w, entries, &bobs, &death);
    cr_assert_eq(w.sent, sent);
    cr_assert_eq(gossip_state_of(&w, &alice), GW_GOSSIP_IS_ALIVE);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, of_the_dead_only_those_with_an_address_are_tried_again) {
    gossip_world w;
    gossip_world_open(&w);
    gw_gossip_record b = gossip_about(&bob, &bobs, GW_GOSSIP_IS_ALIVE, 1, 0),
                     a = gossip_about(&alice, NULL, GW_GOSSIP_IS_DEAD, 1, 0);
    gossip_hear_rumour(&w, &b);
    gossip_hear_rumour(&w, &a);
    cr_assert_eq(run_and_count(&w, 4 * GOSSIP_SECOND, GW_GOSSIP_PING, &alice), 0);
    hear_of(&w, 0, 1, GW_GOSSIP_IS_DEAD);
    gw_peer_id other = stranger(0);
    cr_assert_gt(run_and_count(&w, 4 * GOSSIP_SECOND, GW_GOSSIP_PING, &other), 0);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, a_second_address_is_tried_when_the_first_is_silent) {
    gossip_world w;
    gossip_world_open(&w);
    gw_gossip_record a = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    gw_addr other = strangers_address(9);
    a.addr[a.addr_count++] = other;
    gossip_hear_rumour(&w, &a);
    gw_gossip_suspect_hint(w.gossip, &alice, w.now_ns);
    uint32_t before = w.sent, pings = 0;
    gossip_run(&w, 120 * GOSSIP_MS);
    cr_assert_leq(w.sent - before, GOSSIP_KEPT);
    for (uint32_t i = before; i < w.sent; i++)
        pings +=
            w.packet[i % GOSSIP_KEPT].type == GW_GOSSIP_PING && gw_addr_equal(&w.to[i % GOSSIP_KEPT], &other);
    cr_assert_eq(pings, 1);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, no_more_probes_and_relays_than_there_is_room_for) {
    gossip_world w;
    gossip_world_open(&w);
    hear_of(&w, 0, GW_GOSSIP_PROBES + 20, GW_GOSSIP_IS_ALIVE);
    uint32_t before = w.sent;
    for (uint32_t i = 0; i < GW_GOSSIP_PROBES + 20; i++) {
        gw_peer_id id = stranger(i);
        gw_gossip_suspect_hint(w.gossip, &id, w.now_ns);
    }
    cr_assert_eq(w.sent - before, GW_GOSSIP_PROBES);
    gw_gossip_packet request = {
        .type = GW_GOSSIP_PING_REQ, .sender = bob, .seq = 7, .target = alice, .addr = alices};
    request.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    before = w.gossip->relay_count;
    cr_assert_eq(before, 0);
    for (uint32_t i = 0; i < GW_GOSSIP_RELAYS + 20; i++) gossip_hear(&w, request, &bobs, NULL);
    cr_assert_eq(w.gossip->relay_count, GW_GOSSIP_RELAYS);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, nobody_is_pinged_for_another_without_an_address) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_gossip_packet request = {.type = GW_GOSSIP_PING_REQ, .sender = bob, .seq = 7, .target = alice};
    request.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    uint32_t sent = w.sent;
    gossip_hear(&w, request, &bobs, NULL);
    request.addr = (gw_addr){.family = 4, .ip = {10, 0, 0, 2}};
    gossip_hear(&w, request, &bobs, NULL);
    cr_assert_eq(w.sent, sent);
    request.addr = alices;
    gossip_hear(&w, request, &bobs, NULL);
    cr_assert_eq(w.packet[sent % GOSSIP_KEPT].type, GW_GOSSIP_PING);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, the_number_of_a_ping_that_is_waited_for_is_never_0) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    w.gossip->seq = UINT32_MAX;
    uint32_t before = w.sent;
    gw_gossip_suspect_hint(w.gossip, &alice, w.now_ns);
    cr_assert_eq(w.packet[before % GOSSIP_KEPT].type, GW_GOSSIP_PING);
    cr_assert_eq(w.packet[before % GOSSIP_KEPT].seq, 1);
    gw_gossip_destroy(w.gossip);
}

/* ---- the dead ---- */

/* One stranger's death, where it lived at `addr`. */
static void hear_of_death(gossip_world *w, uint32_t number, const gw_addr *addr) {
    gw_peer_id id = stranger(number);
    gw_gossip_record death = gossip_about(&id, addr, GW_GOSSIP_IS_DEAD, 1, 0);
    death.proven = true;
    gossip_hear_rumour(w, &death);
}

/* Where each start has an identity of its own, hundreds are remembered that will never come back. */
Test(gossip_members, who_died_last_is_looked_for_soon_however_many_died_before) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    hear_of(&w, 0, 250, GW_GOSSIP_IS_DEAD);
    w.now_ns += 3600 * GOSSIP_SECOND;
    gw_gossip_record death = gossip_about(&alice, &alices, GW_GOSSIP_IS_DEAD, 1, 0);
    death.proven = true;
    gossip_hear_rumour(&w, &death);
    cr_expect_geq(run_and_count(&w, 15 * GOSSIP_SECOND, GW_GOSSIP_PING, &alice), 3);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, each_of_the_dead_has_its_turn) {
    enum { DEAD = 100 };
    gossip_world w;
    gossip_world_open(&w);
    hear_of(&w, 0, DEAD, GW_GOSSIP_IS_DEAD);
    bool found[DEAD] = {false};
    for (uint64_t until_ns = w.now_ns + 50 * GOSSIP_SECOND; w.now_ns < until_ns;) {
        uint32_t before = w.sent;
        gossip_run(&w, 5 * GOSSIP_MS);
        for (uint32_t i = before; i < w.sent; i++)
            for (uint32_t k = 0; k < DEAD; k++) {
                gw_peer_id id = stranger(k);
                found[k] |= gw_peer_id_equal(&w.packet[i % GOSSIP_KEPT].target, &id);
            }
    }
    for (uint32_t k = 0; k < DEAD; k++) cr_expect(found[k], "%u", k);
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, the_dead_are_not_looked_for_where_another_one_lives) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    for (uint32_t i = 0; i < 20; i++) hear_of_death(&w, i, &alices);
    const gw_addr elsewhere = strangers_address(20);
    hear_of_death(&w, 20, &elsewhere);
    uint32_t before = w.sent, pings = 0;
    gossip_run(&w, 1200 * GOSSIP_MS); /* alice does not answer: she is suspected, but lives still */
    cr_assert_eq(gossip_state_of(&w, &alice), GW_GOSSIP_IS_SUSPECT);
    cr_assert_leq(w.sent - before, GOSSIP_KEPT);
    for (uint32_t i = before; i < w.sent; i++) {
        const gw_gossip_packet *packet = &w.packet[i % GOSSIP_KEPT];
        if (packet->type != GW_GOSSIP_PING) continue;
        for (uint32_t k = 0; k <= 20; k++) {
            gw_peer_id id = stranger(k);
            bool about = gw_peer_id_equal(&packet->target, &id);
            cr_expect(!about || k == 20, "%u", k);
            pings += about;
        }
    }
    cr_expect_geq(pings, 4);
    gw_gossip_destroy(w.gossip);
}

/* Else the dead would be news again at every start where they were. */
Test(gossip_members, a_ping_meant_for_another_tells_of_no_death) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_peer_id dead = stranger(0);
    gw_gossip_record death = gossip_about(&dead, &alices, GW_GOSSIP_IS_DEAD, 1, 0);
    gw_gossip_packet ping = {.type = GW_GOSSIP_PING, .sender = bob, .target = dead};
    ping.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    uint32_t told = w.told;
    gossip_hear(&w, ping, &bobs, &death);
    cr_expect_null(gw_gossip_find(w.gossip, &dead));
    cr_expect_eq(w.told, told);
    gossip_hear_rumour(&w, &death);
    cr_expect_not_null(gw_gossip_find(w.gossip, &dead), "a rumour does");
    gw_gossip_destroy(w.gossip);
}

/* ---- what is forgotten ---- */

Test(gossip_members, who_was_replaced_is_forgotten_after_a_day) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    const gw_addr elsewhere = strangers_address(1);
    const gw_peer_id replaced = stranger(0), cut_off = stranger(1);
    hear_of_death(&w, 0, &alices);
    hear_of_death(&w, 1, &elsewhere);
    for (uint32_t hours = 0; hours <= 48; hours++, w.now_ns += 3600 * GOSSIP_SECOND) {
        for (int i = 0; i < 4; i++) {
            gw_gossip_revive(w.gossip, w.now_ns);
            gw_gossip_reap(w.gossip, w.now_ns);
        }
        cr_expect_eq(gw_gossip_find(w.gossip, &replaced) == NULL, hours > 24, "%u hours", hours);
        cr_expect_not_null(gw_gossip_find(w.gossip, &cut_off), "it may come back when a partition ends");
    }
    gw_gossip_destroy(w.gossip);
}

/* The last member takes the place of the one that is forgotten: its suspicion and its rumour must follow. */
Test(gossip_members, who_left_long_ago_is_forgotten_and_nobody_else) {
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_peer_id carol = stranger(0);
    gw_addr carols = strangers_address(0);
    gw_gossip_record farewell = gossip_about(&bob, &bobs, GW_GOSSIP_IS_LEFT, 1, 0);
    gossip_hear_rumour(&w, &farewell);
    w.now_ns += 300 * GOSSIP_SECOND;
    gw_gossip_reap(w.gossip, w.now_ns);
    cr_assert_not_null(gw_gossip_find(w.gossip, &bob), "not yet");
    w.now_ns += 301 * GOSSIP_SECOND;
    gw_gossip_record suspect = gossip_about(&carol, &carols, GW_GOSSIP_IS_SUSPECT, 1, 0);
    suspect.accuser = alice;
    gw_gossip_packet packet = {.type = GW_GOSSIP_RUMOURS, .sender = alice};
    packet.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    gossip_hear(&w, packet, &alices, &suspect);
    gw_gossip_reap(w.gossip, w.now_ns);
    cr_assert_null(gw_gossip_find(w.gossip, &bob));
    cr_assert_eq(gossip_state_of(&w, &carol), GW_GOSSIP_IS_SUSPECT);
    cr_assert_eq(gw_gossip_count(w.gossip), 3);
    uint32_t before = w.sent, relayed = 0;
    gossip_run(&w, 100 * GOSSIP_MS);
    for (uint32_t i = before; i < w.sent; i++)
        relayed += w.records[i % GOSSIP_KEPT] > 0 && gw_peer_id_equal(&w.record[i % GOSSIP_KEPT].id, &carol);
    cr_assert_gt(relayed, 0);
    gossip_run(&w, 5 * GOSSIP_SECOND);
    cr_assert_eq(gossip_state_of(&w, &carol), GW_GOSSIP_IS_DEAD);
    farewell = gossip_about(&alice, &alices, GW_GOSSIP_IS_LEFT, 2, 0);
    gossip_hear(&w, packet, &alices, &farewell);
    w.now_ns += 601 * GOSSIP_SECOND;
    gw_gossip_reap(w.gossip, w.now_ns); /* the last one: nobody takes its place */
    cr_assert_null(gw_gossip_find(w.gossip, &alice));
    cr_assert_not_null(gw_gossip_find(w.gossip, &carol));
    gw_gossip_destroy(w.gossip);
}

Test(gossip_members, of_too_many_dead_the_oldest_is_forgotten) {
    enum { DEAD = 257 };
    gossip_world w;
    gossip_world_open(&w);
    gossip_meet_alice_and_bob(&w);
    gw_incarnation life = {.boot = 1, .nonce = 10};
    gw_gossip_suspect_hint(w.gossip, &alice, w.now_ns); /* whose probe outlasts what is known of her */
    gw_gossip_confirm_dead(w.gossip, &alice, &life, w.now_ns);
    for (uint32_t i = 0; i + 1 < DEAD; i++) {
        w.now_ns++;
        hear_of(&w, i, i + 1, GW_GOSSIP_IS_DEAD);
        if (w.gossip->dead < DEAD) gw_gossip_reap(w.gossip, w.now_ns);
    }
    cr_assert_eq(w.gossip->dead, DEAD);
    cr_assert_not_null(gw_gossip_find(w.gossip, &alice), "256 are remembered");
    gw_gossip_reap(w.gossip, w.now_ns);
    cr_assert_null(gw_gossip_find(w.gossip, &alice));
    cr_assert_eq(w.gossip->dead, DEAD - 1);
    for (uint32_t i = 0; i + 1 < DEAD; i++) {
        gw_peer_id id = stranger(i);
        cr_assert_not_null(gw_gossip_find(w.gossip, &id), "%u", i);
    }
    cr_assert_eq(run_and_count(&w, GOSSIP_SECOND, GW_GOSSIP_PING_REQ, &alice), 0);
    gw_gossip_destroy(w.gossip);
}

/* ---- many ---- */

/* An empty peer asks a member of a large flock: what does not fit at once is announced. */
Test(gossip_members, a_large_table_is_told_in_pieces) {
    enum { MEMBERS = 1000 };
    gossip_world w;
    gossip_world_open(&w);
    hear_of(&w, 0, MEMBERS, GW_GOSSIP_IS_ALIVE);
    gw_gossip_packet digest = {.type = GW_GOSSIP_DIGEST, .sender = bob, .buckets = 4};
    digest.flags = GW_GOSSIP_ANSWER;
    digest.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    uint32_t before = w.sent, pieces = 0, records = 0;
    gossip_hear(&w, digest, &bobs, NULL);
    for (uint32_t i = before; i < w.sent; i++) {
        if (w.packet[i % GOSSIP_KEPT].type != GW_GOSSIP_ENTRIES) continue;
        pieces++;
        records += w.records[i % GOSSIP_KEPT];
        cr_assert_eq(w.packet[i % GOSSIP_KEPT].flags & GW_GOSSIP_MORE, GW_GOSSIP_MORE);
    }
    cr_assert_eq(pieces, GW_GOSSIP_SYNC_PIECES);
    cr_assert(records > 16 * GW_GOSSIP_SYNC_PIECES && records < MEMBERS);
    gw_gossip_destroy(w.gossip);
}
