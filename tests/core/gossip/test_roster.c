/* Members that many instances know from the start share memory, and nothing else. */
#include "tests/core/gossip/world.h"

#include <criterion/criterion.h>

static gw_gossip_member member(const gw_peer_id *id, const gw_addr *addr, uint64_t boot) {
    return (gw_gossip_member){
        .id = *id, .incarnation = {.boot = boot, .nonce = boot * 10}, .addr = {*addr}, .addr_count = 1};
}

/* All three: each who is enrolled finds itself there, too. */
static gw_gossip_roster *roster_of_all(void) {
    gw_addr home = {.family = 4, .ip = {10, 0, 0, 1}, .port = 1000};
    gw_gossip_member members[] = {member(&alice, &alices, 1), member(&self_id, &home, 5),
                                  member(&bob, &bobs, 1)};
    gw_gossip_roster *roster;
    gw_err err;
    cr_assert(gw_gossip_roster_create(members, 3, &roster, &err));
    return roster;
}

static bool shared(const gossip_world *a, const gossip_world *b, const gw_peer_id *id) {
    return gw_gossip_find(a->gossip, id) == gw_gossip_find(b->gossip, id);
}

Test(gossip_roster, is_known_from_the_start) {
    gw_gossip_roster *roster = roster_of_all();
    gossip_world w;
    gossip_world_enroll(&w, roster);
    cr_assert_eq(gw_gossip_count(w.gossip), 3);
    cr_assert_eq(w.gossip->live, 3);
    cr_assert_eq(w.told, 0);
    cr_assert(gw_peer_id_equal(&gw_gossip_self(w.gossip)->id, &self_id));
    gossip_run(&w, 250 * GOSSIP_MS);
    cr_assert_eq(w.packet[0].type, GW_GOSSIP_PING, "there is no news of them");
    gossip_run(&w, 10 * GOSSIP_SECOND);
    cr_assert_eq(gossip_state_of(&w, &alice), GW_GOSSIP_IS_DEAD, "they are probed like others");
    cr_assert_eq(gossip_state_of(&w, &bob), GW_GOSSIP_IS_DEAD);
    gw_gossip_destroy(w.gossip);
    gw_gossip_roster_destroy(roster);
}

Test(gossip_roster, is_shared_until_there_is_news) {
    gw_gossip_roster *roster = roster_of_all();
    gossip_world w, other;
    gossip_world_enroll(&w, roster);
    gossip_world_enroll(&other, roster);
    gw_gossip_record alive = gossip_about(&alice, &alices, GW_GOSSIP_IS_ALIVE, 1, 0);
    gossip_hear_rumour(&w, &alive);
    cr_assert(shared(&w, &other, &alice), "that was known");
    cr_assert(shared(&w, &other, &bob), "that bob spoke is no news either");
    gw_gossip_record suspect = gossip_about(&alice, &alices, GW_GOSSIP_IS_SUSPECT, 1, 0);
    suspect.accuser = bob;
    gossip_hear_rumour(&w, &suspect);
    cr_assert_eq(gossip_state_of(&w, &alice), GW_GOSSIP_IS_SUSPECT);
    cr_assert_eq(gossip_state_of(&other, &alice), GW_GOSSIP_IS_ALIVE);
    cr_assert(shared(&w, &other, &bob));
    cr_assert_eq(gw_gossip_count(w.gossip), 3);
    gw_gossip_destroy(w.gossip);
    cr_assert_eq(gossip_state_of(&other, &alice), GW_GOSSIP_IS_ALIVE);
    gw_gossip_destroy(other.gossip);
    gw_gossip_roster_destroy(roster);
}

/* One that is shared takes the place of one that is forgotten. */
Test(gossip_roster, one_of_it_is_forgotten_like_others) {
    gw_gossip_roster *roster = roster_of_all();
    gossip_world w, other;
    gossip_world_enroll(&w, roster);
    gossip_world_enroll(&other, roster);
    gw_gossip_record farewell = gossip_about(&alice, &alices, GW_GOSSIP_IS_LEFT, 1, 0);
    gossip_hear_rumour(&w, &farewell);
    w.now_ns += GW_GOSSIP_LEFT_KEPT_NS + 1;
    gw_gossip_reap(w.gossip, w.now_ns);
    cr_assert_null(gw_gossip_find(w.gossip, &alice));
    cr_assert(shared(&w, &other, &bob));
    gw_gossip_record suspect = gossip_about(&bob, &bobs, GW_GOSSIP_IS_SUSPECT, 1, 0);
    suspect.accuser = self_id;
    gossip_hear_rumour(&w, &suspect);
    cr_assert_eq(gossip_state_of(&w, &bob), GW_GOSSIP_IS_SUSPECT);
    gossip_run(&w, 5 * GOSSIP_SECOND);
    cr_assert_eq(gossip_state_of(&w, &bob), GW_GOSSIP_IS_DEAD);
    cr_assert_eq(gossip_state_of(&other, &bob), GW_GOSSIP_IS_ALIVE);
    gw_gossip_destroy(w.gossip);
    gw_gossip_destroy(other.gossip);
    gw_gossip_roster_destroy(roster);
}
