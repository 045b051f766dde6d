/* Who watches whom, besides the rounds of probes. */
#include "tests/core/gossip/world.h"

#include <criterion/criterion.h>

enum { MEMBERS = 40, CHANGES = 400 };

static gw_peer_id id_of(uint32_t number) {
    gw_peer_id id;
    gw_blake2b(&number, sizeof number, id.bytes, sizeof id.bytes);
    return id;
}

static gw_addr addr_of(uint32_t number) {
    return (gw_addr){.family = 4, .ip = {10, 1, 0, (uint8_t)number}, .port = 1000};
}

/* The first `count` members, all alive. */
static gw_gossip_roster *roster_of(uint32_t count) {
    gw_gossip_member members[MEMBERS];
    for (uint32_t i = 0; i < count; i++)
        members[i] = (gw_gossip_member){
            .id = id_of(i), .incarnation = {.boot = 1, .nonce = 10}, .addr = {addr_of(i)}, .addr_count = 1};
    gw_gossip_roster *roster;
    gw_err err;
    cr_assert(gw_gossip_roster_create(members, count, &roster, &err));
    return roster;
}

static void is_watched_by_two(uint32_t count) {
    gw_gossip_roster *roster = roster_of(count);
    uint32_t watchers[MEMBERS] = {0}, each = count - 1 < GW_GOSSIP_WATCHED ? count - 1 : GW_GOSSIP_WATCHED;
    for (uint32_t i = 0; i < count; i++) {
        gossip_world w = {0};
        gw_gossip_config config = gossip_config(&w);
        config.id = id_of(i);
        gw_err err;
        cr_assert(gw_gossip_create(&config, &w.gossip, &err));
        cr_assert(gw_gossip_enroll(w.gossip, roster, &err));
        for (uint32_t period = 0; period < each; period++) {
            const gw_gossip_entry *watched = gw_gossip_watched(w.gossip, period);
            cr_assert(watched != NULL && watched != w.gossip->self);
            for (uint32_t k = 0; k < count; k++) {
                gw_peer_id id = id_of(k);
                watchers[k] += gw_peer_id_equal(&watched->public.id, &id);
            }
        }
        cr_assert_eq(gw_gossip_watched(w.gossip, each), gw_gossip_watched(w.gossip, 0), "by turns");
        gw_gossip_destroy(w.gossip);
    }
    for (uint32_t k = 0; k < count; k++) cr_assert_eq(watchers[k], each, "%u of %u", k, count);
    gw_gossip_roster_destroy(roster);
}

Test(gossip_ring, everybody_is_watched_by_two) {
    for (uint32_t count = 2; count <= MEMBERS; count++) is_watched_by_two(count);
}

Test(gossip_ring, nobody_is_watched_by_who_is_alone) {
    gossip_world w;
    gossip_world_open(&w);
    cr_assert_null(gw_gossip_watched(w.gossip, 0));
    gw_gossip_record hearsay = gossip_about(&alice, NULL, GW_GOSSIP_IS_DEAD, 1, 0);
    gossip_hear_rumour(&w, &hearsay);
    cr_assert_null(gw_gossip_watched(w.gossip, 0), "the dead are not");
    hearsay = gossip_about(&bob, NULL, GW_GOSSIP_IS_SUSPECT, 2, 0);
    gossip_hear_rumour(&w, &hearsay);
    cr_assert_not_null(gw_gossip_find(w.gossip, &bob));
    cr_assert_null(gw_gossip_watched(w.gossip, 0), "where would it be?");
    gw_gossip_destroy(w.gossip);
}

/* Members die, leave and come back: whom it watches then is whom it would watch if it knew nothing else. */
Test(gossip_ring, follows_the_living) {
    gw_gossip_roster *roster = roster_of(MEMBERS);
    gossip_world w;
    gossip_world_enroll(&w, roster);
    gw_rng rng = gw_rng_seeded(1);
    uint32_t moved = 0;
    gw_peer_id before[GW_GOSSIP_WATCHED] = {{{0}}};
    for (uint32_t i = 0; i < CHANGES; i++) {
        uint32_t number = (uint32_t)gw_rng_below(&rng, MEMBERS);
        gw_peer_id id = id_of(number);
        gw_addr addr = addr_of(number);
        gw_gossip_state state = (gw_gossip_state)gw_rng_below(&rng, GW_GOSSIP_IS_LEFT + 1);
        gw_gossip_record record = gossip_about(&id, &addr, state, 1, i + 1);
        record.proven = state == GW_GOSSIP_IS_DEAD;
        gossip_hear_rumour(&w, &record);
        cr_assert_eq(gossip_state_of(&w, &id), state);
        gw_peer_id watched[GW_GOSSIP_WATCHED];
        for (uint32_t k = 0; k < GW_GOSSIP_WATCHED; k++)
            watched[k] = gw_gossip_watched(w.gossip, k)->public.id;
        w.gossip->ring_known = false;
        for (uint32_t k = 0; k < GW_GOSSIP_WATCHED; k++) {
            cr_assert(gw_peer_id_equal(&watched[k], &gw_gossip_watched(w.gossip, k)->public.id), "%u", i);
            moved += !gw_peer_id_equal(&watched[k], &before[k]);
            before[k] = watched[k];
        }
    }
    cr_assert_gt(moved, 10);
    gw_gossip_destroy(w.gossip);
    gw_gossip_roster_destroy(roster);
}

Test(gossip_ring, who_is_watched_is_probed_every_other_period) {
    gw_gossip_roster *roster = roster_of(MEMBERS / 2); /* the round begins with others than the watched */
    gossip_world w;
    gossip_world_enroll(&w, roster);
    for (uint32_t period = 0; period < 4; period += 2) {
        uint32_t before = w.sent;
        w.now_ns = w.gossip->period_due;
        gw_gossip_period(w.gossip, w.now_ns);
        const gw_gossip_entry *watched = gw_gossip_watched(w.gossip, period / 2);
        cr_assert_eq(w.sent, before + 1, "period %u", period);
        cr_assert(gw_peer_id_equal(&w.packet[before % GOSSIP_KEPT].target, &watched->public.id));
        w.now_ns = w.gossip->period_due;
        gw_gossip_period(w.gossip, w.now_ns);
        uint32_t probed = w.gossip->probe_count;
        cr_assert_eq(probed, period + 2, "another one in the other periods");
    }
    gw_gossip_destroy(w.gossip);
    gw_gossip_roster_destroy(roster);
}
