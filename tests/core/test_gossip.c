/* The rules of membership, one peer at a time: what it sends and says when it is told something. */
#include "core/gossip.h"
#include "core/gossip_codec.h"
#include "core/gossip_room.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <string.h>

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

enum { KEPT = 64 };

typedef struct world {
    gw_gossip *gossip;
    uint64_t now_ns;
    uint32_t sent, told;
    gw_gossip_packet packet[KEPT]; /* the last ones, by number modulo KEPT */
    gw_gossip_record record[KEPT]; /* the first record of each */
    uint32_t records[KEPT];
    gw_addr to[KEPT];
    gw_gossip_event event[KEPT];
    gw_gossip_member member[KEPT];
} world;

static const gw_hash cluster = {"a cluster"};
static const gw_peer_id self_id = {"self"}, alice = {"alice"}, bob = {"bob"};
static const gw_addr home = {.family = 4, .ip = {10, 0, 0, 1}, .port = 1000},
                     alices = {.family = 4, .ip = {10, 0, 0, 2}, .port = 1000},
                     bobs = {.family = 4, .ip = {10, 0, 0, 3}, .port = 1000};

static void on_send(void *context, const gw_addr *to, const void *bytes, size_t length) {
    world *w = context;
    uint32_t place = w->sent++ % KEPT;
    gw_reader r = gw_reader_on(bytes, length);
    gw_gossip_packet_get(&r, &w->packet[place]);
    w->records[place] = gw_get_u8(&r);
    cr_assert_leq(length, GW_GOSSIP_DATAGRAM);
    for (uint32_t i = 0; i < w->records[place]; i++) {
        gw_gossip_record record;
        gw_gossip_record_get(&r, &record);
        if (i == 0) w->record[place] = record;
    }
    cr_assert(gw_reader_done(&r), "a datagram that its own parser refuses");
    w->to[place] = *to;
}

static void on_event(void *context, const gw_gossip_event *event) {
    world *w = context;
    w->event[w->told % KEPT] = *event;
    w->member[w->told % KEPT] = *event->member;
    w->told++;
}

static void open_world(world *w) {
    memset(w, 0, sizeof *w);
    w->now_ns = SECOND;
    gw_gossip_config config = {.id = self_id,
                               .incarnation = {.boot = 5, .nonce = 50},
                               .cluster = cluster,
                               .addr = {home},
                               .addr_count = 1,
                               .timing = gw_gossip_timing_default(),
                               .rng_seed = 1,
                               .sink = {w, on_send, on_event}};
    gw_err err;
    cr_assert(gw_gossip_create(&config, &w->gossip, &err));
    gw_gossip_start(w->gossip, w->now_ns);
}

static gw_gossip_record about(const gw_peer_id *id, const gw_addr *addr, gw_gossip_state state, uint64_t boot,
                              uint32_t refutation) {
    gw_gossip_record record = {.id = *id, .state = (uint8_t)state};
    record.incarnation = (gw_incarnation){.boot = boot, .nonce = boot * 10, .refutation = refutation};
    if (addr != NULL) record.addr[record.addr_count++] = *addr;
    return record;
}

/* `sender` (boot 1) sends a packet with at most one record. */
static void hear(world *w, gw_gossip_packet packet, const gw_addr *from, const gw_gossip_record *record) {
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
    gw_writer writer = gw_writer_on(bytes, sizeof bytes);
    memcpy(packet.cluster, cluster.bytes, sizeof packet.cluster);
    gw_gossip_packet_put(&writer, &packet);
    gw_put_u8(&writer, record != NULL);
    if (record != NULL) gw_gossip_record_put(&writer, record);
    cr_assert(!writer.failed);
    gw_gossip_datagram(w->gossip, from, bytes, writer.length, w->now_ns);
}

static void hear_rumour(world *w, const gw_gossip_record *record) {
    gw_gossip_packet packet = {.type = GW_GOSSIP_RUMOURS, .sender = bob};
    packet.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    hear(w, packet, &bobs, record);
}

static void meet_alice_and_bob(world *w) {
    gw_gossip_record a = about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    gw_gossip_record b = about(&bob, &bobs, GW_GOSSIP_IS_ALIVE, 1, 0);
    hear_rumour(w, &b);
    hear_rumour(w, &a);
    cr_assert_eq(w->gossip->live, 3);
}

static void run(world *w, uint64_t for_ns) {
    uint64_t until_ns = w->now_ns + for_ns;
    for (uint64_t due; (due = gw_gossip_next_deadline(w->gossip)) <= until_ns;) {
        if (due > w->now_ns) w->now_ns = due;
        gw_gossip_tick(w->gossip, w->now_ns);
    }
    w->now_ns = until_ns;
}

static uint8_t state_of(const world *w, const gw_peer_id *id) {
    return gw_gossip_find(w->gossip, id)->state;
}

/* The last event, and how many there were since `before`. */
static void assert_last(const world *w, uint32_t before, uint32_t count, gw_gossip_event_kind kind,
                        const gw_peer_id *id) {
    cr_assert_eq(w->told - before, count, "%u events instead of %u", w->told - before, count);
    cr_assert_eq(w->event[(w->told - 1) % KEPT].kind, kind);
    cr_assert(gw_peer_id_equal(&w->member[(w->told - 1) % KEPT].id, id));
}

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
    world w;
    open_world(&w);
    gw_gossip_record a = about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    hear_rumour(&w, &a);
    assert_last(&w, 0, 1, GW_GOSSIP_ALIVE, &alice);
    cr_assert(gw_addr_equal(&gw_gossip_find(w.gossip, &alice)->addr[0], &alices));
    cr_assert_null(gw_gossip_find(w.gossip, &bob), "the teller is not known by its header alone");
    cr_assert_eq(w.packet[(w.sent - 1) % KEPT].type, GW_GOSSIP_DIGEST, "a stranger is asked who it is");
    gw_gossip_destroy(w.gossip);
}

Test(gossip, answers_a_ping_meant_for_it_only) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    gw_gossip_packet ping = {.type = GW_GOSSIP_PING, .sender = bob, .seq = 77, .target = self_id};
    ping.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    hear(&w, ping, &bobs, NULL);
    const gw_gossip_packet *last = &w.packet[(w.sent - 1) % KEPT];
    cr_assert_eq(last->type, GW_GOSSIP_ACK);
    cr_assert_eq(last->seq, 77);
    cr_assert(gw_addr_equal(&w.to[(w.sent - 1) % KEPT], &bobs));
    uint32_t before = w.sent;
    ping.target = alice;
    hear(&w, ping, &bobs, NULL);
    cr_assert_eq(w.sent, before);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_silent_member_is_suspected_then_dead_then_back) {
    world w;
    open_world(&w);
    gw_gossip_record a = about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    hear_rumour(&w, &a);
    run(&w, 700 * MS);
    assert_last(&w, 0, 2, GW_GOSSIP_SUSPECT, &alice);
    run(&w, 3 * SECOND);
    assert_last(&w, 2, 1, GW_GOSSIP_DEAD, &alice);
    cr_assert(!w.event[2].proven);
    gw_gossip_record back = about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 1);
    hear_rumour(&w, &back);
    assert_last(&w, 3, 1, GW_GOSSIP_ALIVE, &alice);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, precedence_is_by_refutation_then_state) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
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
        gw_gossip_record record = about(&alice, &alices, story[i].told, 1, story[i].refutation);
        record.accuser = bob;
        hear_rumour(&w, &record);
        cr_assert_eq(state_of(&w, &alice), story[i].then, "line %zu", i);
    }
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_newer_boot_is_the_older_lifes_death) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    uint32_t before = w.told;
    gw_gossip_record again = about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 2, 0);
    hear_rumour(&w, &again);
    assert_last(&w, before, 2, GW_GOSSIP_ALIVE, &alice);
    cr_assert_eq(w.event[before % KEPT].kind, GW_GOSSIP_DEAD);
    cr_assert_eq(w.event[before % KEPT].incarnation.boot, 1);
    cr_assert_eq(w.event[(before + 1) % KEPT].incarnation.boot, 2);
    gw_gossip_record late = about(&alice, &alices, GW_GOSSIP_IS_DEAD, 1, 9);
    hear_rumour(&w, &late);
    cr_assert_eq(state_of(&w, &alice), GW_GOSSIP_IS_ALIVE);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_header_alone_shows_a_restart) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    gw_gossip_packet packet = {.type = GW_GOSSIP_RUMOURS, .sender = alice};
    packet.incarnation = (gw_incarnation){.boot = 2, .nonce = 20};
    hear(&w, packet, &bobs, NULL); /* from another address than before */
    cr_assert_eq(gw_gossip_find(w.gossip, &alice)->incarnation.boot, 2);
    cr_assert(gw_addr_equal(&gw_gossip_find(w.gossip, &alice)->addr[0], &bobs));
    gw_gossip_destroy(w.gossip);
}

Test(gossip, refutes_what_is_said_of_itself) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    gw_gossip_record accusation = about(&self_id, NULL, GW_GOSSIP_IS_SUSPECT, 5, 7);
    accusation.accuser = bob;
    uint32_t before = w.sent;
    hear_rumour(&w, &accusation);
    cr_assert_eq(gw_gossip_self(w.gossip)->incarnation.refutation, 8);
    cr_assert_gt(w.sent, before);
    cr_assert(gw_addr_equal(&w.to[before % KEPT], &bobs), "the accuser hears it first");
    cr_assert(gw_peer_id_equal(&w.record[before % KEPT].id, &self_id));
    cr_assert_eq(w.record[before % KEPT].incarnation.refutation, 8);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_suspect_is_told_so) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    gw_gossip_record accusation = about(&alice, &alices, GW_GOSSIP_IS_SUSPECT, 1, 0);
    accusation.accuser = bob;
    hear_rumour(&w, &accusation);
    gw_gossip_packet ping = {.type = GW_GOSSIP_PING, .sender = alice, .seq = 1, .target = self_id};
    ping.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    hear(&w, ping, &alices, NULL);
    const gw_gossip_record *first = &w.record[(w.sent - 1) % KEPT];
    cr_assert_eq(w.packet[(w.sent - 1) % KEPT].type, GW_GOSSIP_ACK);
    cr_assert(gw_peer_id_equal(&first->id, &alice));
    cr_assert_eq(first->state, GW_GOSSIP_IS_SUSPECT);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, accusations_of_strangers_are_kept_and_relayed) {
    world w;
    open_world(&w);
    gw_gossip_record b = about(&bob, &bobs, GW_GOSSIP_IS_ALIVE, 1, 0);
    hear_rumour(&w, &b);
    gw_gossip_record accusation = about(&alice, &alices, GW_GOSSIP_IS_DEAD, 1, 0);
    uint32_t told = w.told, sent = w.sent;
    hear_rumour(&w, &accusation);
    assert_last(&w, told, 1, GW_GOSSIP_DEAD, &alice);
    run(&w, 100 * MS);
    bool relayed = false;
    for (uint32_t i = sent; i < w.sent; i++)
        relayed |= w.records[i % KEPT] > 0 && gw_peer_id_equal(&w.record[i % KEPT].id, &alice);
    cr_assert(relayed);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_rumoured_death_of_someone_just_heard_is_checked_first) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    gw_gossip_packet packet = {.type = GW_GOSSIP_RUMOURS, .sender = alice};
    packet.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    hear(&w, packet, &alices, NULL);
    gw_gossip_record rumour = about(&alice, &alices, GW_GOSSIP_IS_DEAD, 1, 0);
    uint32_t before = w.sent;
    hear_rumour(&w, &rumour);
    cr_assert_eq(state_of(&w, &alice), GW_GOSSIP_IS_ALIVE);
    cr_assert_eq(w.record[before % KEPT].state, GW_GOSSIP_IS_DEAD, "alice is told");
    cr_assert_eq(w.packet[(before + 1) % KEPT].type, GW_GOSSIP_PING, "and probed");
    rumour.proven = true;
    hear_rumour(&w, &rumour);
    cr_assert_eq(state_of(&w, &alice), GW_GOSSIP_IS_DEAD, "proof is believed");
    gw_gossip_destroy(w.gossip);
}

Test(gossip, proof_of_death_is_spread_at_once) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    uint32_t told = w.told, sent = w.sent;
    gw_incarnation other = {.boot = 9, .nonce = 9}, life = {.boot = 1, .nonce = 10};
    gw_gossip_confirm_dead(w.gossip, &alice, &other, w.now_ns);
    cr_assert_eq(w.told, told, "another life");
    gw_gossip_confirm_dead(w.gossip, &alice, &life, w.now_ns);
    assert_last(&w, told, 1, GW_GOSSIP_DEAD, &alice);
    cr_assert(w.event[told % KEPT].proven);
    cr_assert_gt(w.sent, sent);
    cr_assert_eq(w.gossip->live, 2);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, two_processes_of_one_identity_are_named) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    uint32_t before = w.told;
    gw_gossip_record clone = about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    clone.incarnation.nonce = 11;
    hear_rumour(&w, &clone);
    hear_rumour(&w, &clone);
    assert_last(&w, before, 1, GW_GOSSIP_CLONED, &alice);
    cr_assert_eq(w.event[before % KEPT].incarnation.nonce, 10);
    cr_assert_eq(w.event[before % KEPT].other.nonce, 11);
    gw_gossip_record mine = about(&self_id, &alices, GW_GOSSIP_IS_ALIVE, 6, 0);
    hear_rumour(&w, &mine);
    hear_rumour(&w, &mine);
    assert_last(&w, before, 2, GW_GOSSIP_CLONED, &self_id);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_hint_probes_at_once) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    uint32_t before = w.sent;
    gw_gossip_suspect_hint(w.gossip, &alice, w.now_ns);
    cr_assert_eq(w.sent, before + 1);
    cr_assert_eq(w.packet[before % KEPT].type, GW_GOSSIP_PING);
    cr_assert(gw_addr_equal(&w.to[before % KEPT], &alices));
    gw_gossip_destroy(w.gossip);
}

Test(gossip, a_gap_in_its_own_loop_buries_nobody) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    run(&w, 900 * MS);
    cr_assert_eq(state_of(&w, &alice), GW_GOSSIP_IS_SUSPECT);
    uint32_t before = w.told;
    w.now_ns += 60 * SECOND;
    gw_gossip_tick(w.gossip, w.now_ns);
    run(&w, 500 * MS);
    cr_assert_eq(w.told, before);
    gw_gossip_stats stats;
    gw_gossip_stats_read(w.gossip, &stats);
    cr_assert_eq(stats.gaps, 1);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, only_the_latest_blob_is_told_and_not_too_often) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    for (uint8_t i = 0; i < 100; i++) {
        gw_gossip_set_meta(w.gossip, &i, 1, w.now_ns);
        run(&w, 10 * MS);
    }
    run(&w, 200 * MS);
    const gw_gossip_member *self = gw_gossip_self(w.gossip);
    cr_assert_eq(self->meta[0], 99);
    cr_assert_leq(self->meta_version, 12);
    cr_assert_eq(self->incarnation.refutation, 0);
    gw_gossip_record news = about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    news.has_meta = true;
    news.meta_version = 4;
    news.meta_bytes = 2;
    news.meta = (const uint8_t *)"ok";
    uint32_t before = w.told;
    hear_rumour(&w, &news);
    assert_last(&w, before, 1, GW_GOSSIP_META, &alice);
    cr_assert_arr_eq(gw_gossip_find(w.gossip, &alice)->meta, "ok", 2);
    news.meta_version = 3;
    hear_rumour(&w, &news);
    cr_assert_eq(w.told, before + 1, "an older blob");
    gw_gossip_destroy(w.gossip);
}

Test(gossip, leaving_is_told_and_ends_probing) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
    run(&w, 250 * MS); /* until the news of them is old */
    uint32_t before = w.sent;
    gw_gossip_leave(w.gossip, w.now_ns);
    cr_assert_gt(w.sent, before);
    cr_assert_eq(w.record[before % KEPT].state, GW_GOSSIP_IS_LEFT);
    gw_gossip_record accusation = about(&self_id, NULL, GW_GOSSIP_IS_DEAD, 5, 0);
    hear_rumour(&w, &accusation);
    cr_assert_eq(gw_gossip_self(w.gossip)->incarnation.refutation, 0);
    run(&w, 2 * SECOND);
    gw_gossip_stats stats;
    gw_gossip_stats_read(w.gossip, &stats);
    uint64_t probes = stats.probes;
    run(&w, 10 * SECOND);
    gw_gossip_stats_read(w.gossip, &stats);
    cr_assert_eq(stats.probes, probes);
    gw_gossip_destroy(w.gossip);
}

Test(gossip, foreign_and_malformed_datagrams_change_nothing) {
    world w;
    open_world(&w);
    meet_alice_and_bob(&w);
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
    world w;
    open_world(&w);
    gw_rng rng = gw_rng_seeded(10);
    for (int i = 0; i < 20000; i++) {
        gw_peer_id ids[12];
        for (uint8_t n = 0; n < 12; n++) ids[n] = n == 0 ? self_id : (gw_peer_id){{'p', n}};
        gw_addr addr = alices;
        addr.ip[3] = (uint8_t)gw_rng_below(&rng, 16);
        gw_gossip_record record = about(&ids[gw_rng_below(&rng, 12)], gw_rng_below(&rng, 2) ? &addr : NULL,
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
        hear(&w, packet, &addr, &record);
        run(&w, gw_rng_below(&rng, 30) * MS);
        uint32_t live = 0;
        for (uint32_t m = 0; m < gw_gossip_count(w.gossip); m++)
            live += gw_gossip_at(w.gossip, m)->state <= GW_GOSSIP_IS_SUSPECT;
        cr_assert_eq(live, w.gossip->live);
    }
    gw_gossip_destroy(w.gossip);
}
