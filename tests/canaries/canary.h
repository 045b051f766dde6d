/* The simulator's checks by brains that do what they are there to find: each fault is planted between every
 * brain and its world, and one of a few seeds must tell of it in that check's own words. For each check there
 * is a fault; a new one gets its own.
 *
 * A suite here is linked so that brains are created, stepped, and opened datagrams and records for by what
 * canary.c says. From one thread only. */
#ifndef GODWIT_TESTS_CANARIES_CANARY_H
#define GODWIT_TESTS_CANARIES_CANARY_H

#include "core/brain/peer.h"
#include "tools/sim/judge/judge.h"
#include "tools/sim/run.h"

enum { CANARY_STEPS = 150, CANARY_SHARDS = 24 }; /* of quiet runs */

typedef void (*canary_deed)(gw_peer *peer, gw_actions *actions, uint32_t at);
typedef void (*canary_belief)(gw_peer *peer, gw_event *event, gw_actions *actions);

typedef struct canary {
    const char *phrase;                        /* of the check that must tell of it */
    void (*configure)(gw_peer_config *config); /* makes another brain */
    canary_belief hear;                        /* what the brain believes instead of what has happened */
    canary_deed act;                           /* does to an action what it likes */
    bool gullible;                             /* every datagram and every record is sound to it */
    gw_sim_fault after; /* the seed must have had one of these before; GW_SIM_FAULTS = nothing */
} canary;

extern uint32_t canary_seen; /* a canary's own count, from 0 in each run */

/* For all brains from now on, until a seed is looked for. */
void canary_plant(const canary *one);
/* A run in which nothing else goes wrong than what a test asks for; or a peer that computes wrong. */
gw_sim_options canary_quiet(void);
gw_sim_options canary_with_wrong_contributions(void);
/* One of the first seeds fails as it says, or the test does. */
void canary_assert_found(const gw_sim_options *options, const canary *one);
void canary_find(const gw_sim_options *options, const char *phrase, canary_deed act);
void canary_find_believed(const gw_sim_options *options, const char *phrase, canary_belief hear,
                          canary_deed act);
void canary_find_configured(const gw_sim_options *options, const char *phrase,
                            void (*configure)(gw_peer_config *config));

/* For deeds: an action once more; one that is not carried out; an event that the brain hears beside those of
 * its world. */
gw_action *canary_add_copy(gw_actions *actions, uint32_t at);
void canary_drop(gw_action *action);
void canary_hear(gw_peer *peer, const gw_event *event, gw_actions *actions);
/* Once in a run, at step 7: the peer ends by itself, as this. */
void canary_end(gw_peer *peer, gw_actions *actions, uint32_t at, gw_finish finish, const char *text);
uint64_t canary_step_of(const gw_peer *peer);
/* The row of slots of the peer's last REDUCE. */
const int64_t *canary_row_of(const gw_peer_id *id);
/* Another peer than that one, which lives or has lived. */
gw_peer_id canary_other_than(const gw_peer_id *id);

#endif
