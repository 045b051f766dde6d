/* Names, and flocks in which some peers speak the version of datagrams before. */
#include "tests/core/gossip/world.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static gw_gossip_record named(const gw_peer_id *id, const gw_addr *addr, const char *name) {
    gw_gossip_record record = gossip_about(id, addr, GW_GOSSIP_IS_ALIVE, 1, 0);
    record.has_meta = record.has_name = true;
    record.meta_version = 1;
    record.meta = (const uint8_t *)"m";
    record.meta_bytes = 1;
    record.name = name;
    record.name_bytes = (uint8_t)strlen(name);
    return record;
}

static void hear_of_alice(gossip_world *w, uint8_t version, const char *name) {
    gw_gossip_packet packet = {.version = version, .type = GW_GOSSIP_RUMOURS, .sender = bob};
    packet.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    gw_gossip_record record = named(&alice, &alices, name);
    gossip_hear(w, packet, &bobs, &record);
}

static const char *name_of(const gossip_world *w, const gw_peer_id *id) {
    return gw_gossip_find(w->gossip, id)->name;
}

/* The last packet of this type to an address; NULL: none. */
static const gw_gossip_packet *last_to(const gossip_world *w, const gw_addr *addr, gw_gossip_type type) {
    for (uint32_t i = 1; i <= w->sent && i < GOSSIP_KEPT; i++) {
        uint32_t place = (w->sent - i) % GOSSIP_KEPT;
        if (w->packet[place].type == type && gw_addr_equal(&w->to[place], addr)) return &w->packet[place];
    }
    return NULL;
}

Test(gossip_names, are_known_with_the_member_and_in_its_events) {
    gossip_world w;
    gossip_world_open(&w);
    uint32_t before = w.told;
    hear_of_alice(&w, 2, "node7");
    gossip_assert_last(&w, before, 1, GW_GOSSIP_ALIVE, &alice);
    cr_assert_str_eq(name_of(&w, &alice), "node7");
    cr_assert_str_eq(name_of(&w, &self_id), "", "it has none");
    hear_of_alice(&w, 2, "another"); /* a name stays for the life */
    cr_assert_str_eq(name_of(&w, &alice), "node7");
    gw_gossip_record next = named(&alice, &alices, "new name");
    next.incarnation = (gw_incarnation){.boot = 2, .nonce = 20};
    gw_gossip_packet packet = {.version = 2, .type = GW_GOSSIP_RUMOURS, .sender = alice};
    packet.incarnation = next.incarnation;
    gossip_hear(&w, packet, &alices, &next);
    cr_assert_str_eq(name_of(&w, &alice), "new name");
    gw_gossip_destroy(w.gossip);
}

Test(gossip_names, of_others_are_made_printable) {
    gossip_world w;
    gossip_world_open(&w);
    hear_of_alice(&w, 2, "a\n\033[2Jb\xffü");
    cr_assert_str_eq(name_of(&w, &alice), "a??[2Jb?ü");
    gw_gossip_destroy(w.gossip);
}

Test(gossip_names, that_come_later_are_an_event_and_are_asked_for) {
    gossip_world w;
    gossip_world_open(&w);
    hear_of_alice(&w, 1, "node7");
    cr_assert_null(name_of(&w, &alice), "version 1 has no names");
    gossip_run(&w, GOSSIP_SECOND / 2);
    const gw_gossip_packet *ping = last_to(&w, &alices, GW_GOSSIP_PING);
    cr_assert_not_null(ping);
    cr_assert_eq(ping->version, 1, "nobody knows that alice reads version 2");
    cr_assert_eq(ping->known_meta, 1);
    gw_gossip_packet packet = {.version = 2, .type = GW_GOSSIP_ACK, .sender = alice};
    packet.incarnation = (gw_incarnation){.boot = 1, .nonce = 10};
    gossip_hear(&w, packet, &alices, NULL);
    gossip_run(&w, 2 * GOSSIP_SECOND);
    ping = last_to(&w, &alices, GW_GOSSIP_PING);
    cr_assert_eq(ping->version, 2);
    cr_assert_eq(ping->known_meta, 0, "it asks for the metadata, with which the name comes");
    uint32_t before = w.told;
    hear_of_alice(&w, 2, "node7");
    cr_assert_eq(w.told, before + 1);
    cr_assert_eq(w.event[before % GOSSIP_KEPT].kind, GW_GOSSIP_META);
    cr_assert_str_eq(name_of(&w, &alice), "node7");
    gw_gossip_destroy(w.gossip);
}

Test(gossip_names, of_64_bytes_are_refused) {
    gossip_world w = {0};
    gw_gossip_config config = gossip_config(&w);
    gw_gossip *gossip;
    gw_err err;
    config.name = "0123456789012345678901234567890123456789012345678901234567890123";
    cr_assert_eq(strlen(config.name), GW_GOSSIP_NAME_BYTES + 1);
    cr_assert_not(gw_gossip_create(&config, &gossip, &err));
    cr_assert_eq(err.code, GW_E_LIMIT);
    config.name++;
    cr_assert(gw_gossip_create(&config, &gossip, &err));
    gw_gossip_destroy(gossip);
}

/* A datagram of another version is reported with its version and address, not too often, if it is of this
 * cluster. */
Test(gossip_versions, that_are_too_far_apart_are_reported) {
    gossip_world w;
    gossip_world_open(&w);
    gw_gossip_stats stats;
    uint8_t bytes[60] = {4, GW_GOSSIP_PING, 'a', ' ', 'c', 'l', 'u', 's', 't', 'e'};
    for (int i = 0; i < 3; i++) gw_gossip_datagram(w.gossip, &bobs, bytes, sizeof bytes, w.now_ns);
    cr_assert_eq(w.told, 1);
    cr_assert_eq(w.event[0].kind, GW_GOSSIP_UNREADABLE);
    cr_assert_eq(w.event[0].version, 4);
    cr_assert_eq(w.event[0].oldest, 1);
    cr_assert_eq(w.event[0].newest, 2);
    cr_assert(gw_addr_equal(&w.event[0].other_addr, &bobs));
    gw_gossip_stats_read(w.gossip, &stats);
    cr_assert_eq(stats.unreadable, 3);
    gw_gossip_datagram(w.gossip, &bobs, bytes, sizeof bytes, w.now_ns + 61 * GOSSIP_SECOND);
    cr_assert_eq(w.told, 2);
    bytes[2] = 'x'; /* another cluster */
    gw_gossip_datagram(w.gossip, &bobs, bytes, sizeof bytes, w.now_ns + 200 * GOSSIP_SECOND);
    cr_assert_eq(w.told, 2);
    gw_gossip_destroy(w.gossip);
}

/* A flock of real instances whose datagrams arrive at once and always. */
enum { PEERS = 6, NEWER = 3, WAITING = 4096 };

typedef struct letter {
    uint32_t from, to, length;
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
} letter;

typedef struct village {
    gw_gossip *gossip[PEERS];
    letter waiting[WAITING];
    uint32_t first, count, self;
    uint32_t deaths, suspicions;
    uint64_t sent_newer_to_older; /* datagrams of version 2 to peers that do not read it */
} village;

static village *the_village;

static gw_addr address_of(uint32_t peer) {
    return (gw_addr){.family = 4, .ip = {10, 0, 0, (uint8_t)(peer + 1)}, .port = 7117};
}

static void post(void *context, const gw_addr *to, const void *bytes, size_t length) {
    village *v = the_village;
    uint32_t from = (uint32_t)(uintptr_t)context, target = to->ip[3] - 1u;
    if (v->gossip[target] == NULL) return;
    cr_assert_lt(v->count - v->first, WAITING);
    letter *l = &v->waiting[v->count++ % WAITING];
    *l = (letter){.from = from, .to = target, .length = (uint32_t)length};
    memcpy(l->bytes, bytes, length);
    v->sent_newer_to_older += target >= NEWER && l->bytes[0] > 1;
}

static void note(void *context, const gw_gossip_event *event) {
    (void)context;
    the_village->deaths += event->kind == GW_GOSSIP_DEAD;
    the_village->suspicions += event->kind == GW_GOSSIP_SUSPECT;
}

static void open_peer(village *v, uint32_t peer) {
    static const char *const names[PEERS] = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta"};
    gw_addr seed = address_of(PEERS - 1); /* which speaks version 1: all meet by it */
    gw_gossip_config config = {.id = {{(uint8_t)(peer + 1)}},
                               .incarnation = {.boot = 1, .nonce = peer + 1},
                               .cluster = {"mixed"},
                               .addr = {address_of(peer)},
                               .addr_count = 1,
                               .seeds = &seed,
                               .seed_count = 1,
                               .name = names[peer],
                               .before = peer >= NEWER,
                               .timing = gw_gossip_timing_default(),
                               .rng_seed = peer,
                               .sink = {(void *)(uintptr_t)peer, post, note}};
    gw_err err;
    cr_assert(gw_gossip_create(&config, &v->gossip[peer], &err));
    gw_gossip_start(v->gossip[peer], 1);
    gw_gossip_set_meta(v->gossip[peer], "m", 1, 1);
}

static void run_until(village *v, uint64_t end_ns) {
    for (uint64_t now_ns = 1; now_ns < end_ns; now_ns += 10 * GOSSIP_MS) {
        for (uint32_t p = 0; p < PEERS; p++) gw_gossip_tick(v->gossip[p], now_ns);
        while (v->first < v->count) {
            const letter l = v->waiting[v->first++ % WAITING];
            gw_addr from = address_of(l.from);
            gw_gossip_datagram(v->gossip[l.to], &from, l.bytes, l.length, now_ns);
        }
    }
}

Test(gossip_versions, neighbours_make_one_flock) {
    village *v = the_village = calloc(1, sizeof *v);
    for (uint32_t p = 0; p < PEERS; p++) open_peer(v, p);
    run_until(v, 30 * GOSSIP_SECOND);
    for (uint32_t p = 0; p < PEERS; p++) {
        cr_assert_eq(gw_gossip_count(v->gossip[p]), PEERS);
        for (uint32_t other = 0; other < PEERS; other++) {
            const gw_peer_id id = {{(uint8_t)(other + 1)}};
            const gw_gossip_member *member = gw_gossip_find(v->gossip[p], &id);
            cr_assert_eq(member->state, GW_GOSSIP_IS_ALIVE);
            cr_assert_eq(member->meta_version, 1);
            bool told = p == other || (p < NEWER && other < NEWER);
            cr_assert_eq(member->name != NULL, told, "%u of %u", p, other);
        }
        gw_gossip_stats stats;
        gw_gossip_stats_read(v->gossip[p], &stats);
        cr_assert_eq(stats.malformed, 0);
        cr_assert(p >= NEWER || stats.unreadable == 0);
    }
    cr_assert_eq(v->deaths + v->suspicions, 0);
    /* Only introductions to addresses of which nothing is known yet are sent in both versions. */
    cr_assert_leq(v->sent_newer_to_older, 2 * NEWER, "%llu", (unsigned long long)v->sent_newer_to_older);
    for (uint32_t p = 0; p < PEERS; p++) gw_gossip_destroy(v->gossip[p]);
    free(v);
}
