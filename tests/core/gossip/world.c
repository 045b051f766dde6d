#include "tests/core/gossip/world.h"

#include <criterion/criterion.h>
#include <string.h>

static const gw_hash cluster = {"a cluster"};
const gw_peer_id self_id = {"self"}, alice = {"alice"}, bob = {"bob"};
static const gw_addr home = {.family = 4, .ip = {10, 0, 0, 1}, .port = 1000};
const gw_addr alices = {.family = 4, .ip = {10, 0, 0, 2}, .port = 1000},
              bobs = {.family = 4, .ip = {10, 0, 0, 3}, .port = 1000};

static void on_send(void *context, const gw_addr *to, const void *bytes, size_t length) {
    gossip_world *w = context;
    uint32_t place = w->sent++ % GOSSIP_KEPT;
    gw_reader r = gw_reader_on(bytes, length);
    gw_gossip_packet_get(&r, &w->packet[place]);
    w->records[place] = gw_get_u8(&r);
    cr_assert_leq(length, GW_GOSSIP_DATAGRAM);
    for (uint32_t i = 0; i < w->records[place]; i++) {
        gw_gossip_record record;
        gw_gossip_record_get(&r, &record, w->packet[place].version);
        if (i == 0) w->record[place] = record;
    }
    cr_assert(gw_reader_done(&r), "a datagram that its own parser refuses");
    w->to[place] = *to;
}

static void on_event(void *context, const gw_gossip_event *event) {
    gossip_world *w = context;
    w->event[w->told % GOSSIP_KEPT] = *event;
    w->member[w->told % GOSSIP_KEPT] = *event->member;
    w->told++;
}

gw_gossip_config gossip_config(gossip_world *w) {
    return (gw_gossip_config){.id = self_id,
                              .incarnation = {.boot = 5, .nonce = 50},
                              .cluster = cluster,
                              .addr = {home},
                              .addr_count = 1,
                              .timing = gw_gossip_timing_default(),
                              .rng_seed = 1,
                              .sink = {w, on_send, on_event}};
}

void gossip_world_enroll(gossip_world *w, const gw_gossip_roster *roster) {
    memset(w, 0, sizeof *w);
    w->now_ns = GOSSIP_SECOND;
    gw_gossip_config config = gossip_config(w);
    gw_err err;
    cr_assert(gw_gossip_create(&config, &w->gossip, &err));
    cr_assert(roster == NULL || gw_gossip_enroll(w->gossip, roster, &err));
    gw_gossip_start(w->gossip, w->now_ns);
}

void gossip_world_open(gossip_world *w) {
    gossip_world_enroll(w, NULL);
}

gw_gossip_record gossip_about(const gw_peer_id *id, const gw_addr *addr, gw_gossip_state state, uint64_t boot,
                              uint32_t refutation) {
    gw_gossip_record record = {.id = *id, .state = (uint8_t)state};
    record.incarnation = (gw_incarnation){.boot = boot, .nonce = boot * 10, .refutation = refutation};
    if (addr != NULL) record.addr[record.addr_count++] = *addr;
    return record;
}

void gossip_hear(gossip_world *w, gw_gossip_packet packet, const gw_addr *from,
                 const gw_gossip_record *record) {
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
    gw_writer writer = gw_writer_on(bytes, sizeof bytes);
    memcpy(packet.cluster, cluster.bytes, sizeof packet.cluster);
    if (packet.version == 0) packet.version = GW_GOSSIP_OLDEST;
    gw_gossip_packet_put(&writer, &packet);
    gw_put_u8(&writer, record != NULL);
    if (record != NULL) gw_gossip_record_put(&writer, record, packet.version);
    cr_assert(!writer.failed);
    gw_gossip_datagram(w->gossip, from, bytes, writer.length, w->now_ns);
}

void gossip_hear_rumour(gossip_world *w, const gw_gossip_record *record) {
    gw_gossip_packet packet = {.type = GW_GOSSIP_RUMOURS, .sender = bob};
    packet.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    gossip_hear(w, packet, &bobs, record);
}

void gossip_meet_alice_and_bob(gossip_world *w) {
    gw_gossip_record a = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    gw_gossip_record b = gossip_about(&bob, &bobs, GW_GOSSIP_IS_ALIVE, 1, 0);
    gossip_hear_rumour(w, &b);
    gossip_hear_rumour(w, &a);
    cr_assert_eq(w->gossip->live, 3);
}

void gossip_run(gossip_world *w, uint64_t for_ns) {
    uint64_t until_ns = w->now_ns + for_ns;
    for (uint64_t due; (due = gw_gossip_next_deadline(w->gossip)) <= until_ns;) {
        if (due > w->now_ns) w->now_ns = due;
        gw_gossip_tick(w->gossip, w->now_ns);
    }
    w->now_ns = until_ns;
}

uint8_t gossip_state_of(const gossip_world *w, const gw_peer_id *id) {
    return gw_gossip_find(w->gossip, id)->state;
}

void gossip_assert_last(const gossip_world *w, uint32_t before, uint32_t count, gw_gossip_event_kind kind,
                        const gw_peer_id *id) {
    cr_assert_eq(w->told - before, count, "%u events instead of %u", w->told - before, count);
    cr_assert_eq(w->event[(w->told - 1) % GOSSIP_KEPT].kind, kind);
    cr_assert(gw_peer_id_equal(&w->member[(w->told - 1) % GOSSIP_KEPT].id, id));
}
