/* One gossiping peer of a flock in which alice and bob are the others: what it sends and says is kept. */
#ifndef GODWIT_TESTS_CORE_GOSSIP_WORLD_H
#define GODWIT_TESTS_CORE_GOSSIP_WORLD_H

#include "core/gossip/codec.h"
#include "core/gossip/gossip.h"
#include "core/gossip/inside.h"

#define GOSSIP_MS     UINT64_C(1000000)
#define GOSSIP_SECOND UINT64_C(1000000000)

enum { GOSSIP_KEPT = 64 };

typedef struct gossip_world {
    gw_gossip *gossip;
    uint64_t now_ns;
    uint32_t sent, told;
    gw_gossip_packet packet[GOSSIP_KEPT]; /* the last ones, by number modulo GOSSIP_KEPT */
    gw_gossip_record record[GOSSIP_KEPT]; /* the first record of each */
    uint32_t records[GOSSIP_KEPT];
    gw_addr to[GOSSIP_KEPT];
    gw_gossip_event event[GOSSIP_KEPT];
    gw_gossip_member member[GOSSIP_KEPT];
} gossip_world;

extern const gw_peer_id self_id, alice, bob;
extern const gw_addr alices, bobs; /* addresses */

/* What a peer needs: boot 5, its sink is `w`. */
gw_gossip_config gossip_config(gossip_world *w);
void gossip_world_open(gossip_world *w);
/* Knows all of a roster from the start. */
void gossip_world_enroll(gossip_world *w, const gw_gossip_roster *roster);
gw_gossip_record gossip_about(const gw_peer_id *id, const gw_addr *addr, gw_gossip_state state, uint64_t boot,
                              uint32_t refutation);
/* `sender` (boot 1) sends a packet with at most one record, in the oldest version if the packet names
 * none. */
void gossip_hear(gossip_world *w, gw_gossip_packet packet, const gw_addr *from,
                 const gw_gossip_record *record);
/* Bob does. */
void gossip_hear_rumour(gossip_world *w, const gw_gossip_record *record);
void gossip_meet_alice_and_bob(gossip_world *w);
void gossip_run(gossip_world *w, uint64_t for_ns);
uint8_t gossip_state_of(const gossip_world *w, const gw_peer_id *id);
/* The last event, and how many there were since `before`. */
void gossip_assert_last(const gossip_world *w, uint32_t before, uint32_t count, gw_gossip_event_kind kind,
                        const gw_peer_id *id);

#endif
