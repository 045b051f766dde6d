/* What goes wrong with the network of a flock of gossiping peers: cuts in two, one way or both, that may
 * flap; pairs that are parted; ways on which nothing moves for a while. */
#ifndef GODWIT_TOOLS_SIM_GOSSIP_FLOCK_CUTS_H
#define GODWIT_TOOLS_SIM_GOSSIP_FLOCK_CUTS_H

#include "tools/sim/gossip/flock.h"

typedef struct gw_flock_cuts {
    uint32_t partition_ms, blind_ms, clog_ms; /* mean time between two of a kind; 0 = none */
    uint32_t flap_permille;                   /* of the cuts in two */
    gw_flock *flock;
    gw_rng rng;
    uint64_t cut; /* which cut in two this is */
    bool over;
    uint64_t partitions, one_way, flaps, parted, clogged; /* how many there were */
} gw_flock_cuts;

/* From now on, by lots of their own. `cuts` stays where it is until the flock is closed. */
void gw_flock_cuts_begin(gw_flock_cuts *cuts, gw_flock *flock, uint64_t seed);
/* All is healed, and stays so. */
void gw_flock_cuts_end(gw_flock_cuts *cuts);

#endif
