/* Faults of the network between gossiping peers: partitions in two, one way or both, that may flap; pairs
 * that do not reach each other; ways on which nothing moves for a while. */
#ifndef GODWIT_TOOLS_SIM_GOSSIP_CUTS_H
#define GODWIT_TOOLS_SIM_GOSSIP_CUTS_H

#include "tools/sim/gossip/flock.h"

typedef struct gw_flock_cuts {
    uint32_t partition_ms, blind_ms, clog_ms; /* mean time between two faults of a kind; 0 = there are none */
    uint32_t flap_permille;                   /* of the partitions */
    gw_flock *flock;
    gw_rng rng;
    uint64_t cut; /* number of the partition */
    bool over;
    uint64_t partitions, one_way, flaps, parted, clogged; /* the numbers of faults so far */
} gw_flock_cuts;

/* Injects faults from now on, with a random generator of their own. `cuts` must live until the flock is
 * closed. */
void gw_flock_cuts_begin(gw_flock_cuts *cuts, gw_flock *flock, uint64_t seed);
/* Heals everything, and injects no more. */
void gw_flock_cuts_end(gw_flock_cuts *cuts);

#endif
