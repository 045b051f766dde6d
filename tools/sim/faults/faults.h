/* What goes wrong in a run, and when. Each kind of fault strikes at random intervals with a mean of its own,
 * until all is healed; besides, the faults set the world's hazards, which answer whether something that the
 * world carries out fails. Processes that have ended come back here. */
#ifndef GODWIT_TOOLS_SIM_FAULTS_FAULTS_H
#define GODWIT_TOOLS_SIM_FAULTS_FAULTS_H

#include "tools/sim/world/cluster.h"

typedef struct sim_faults sim_faults;

/* Sets the hazards and observes the cluster, which must not outlive it; draws which machines are slow and
 * whose clocks drift. */
sim_faults *sim_faults_open(sim_cluster *c);
void sim_faults_close(sim_faults *f);
/* Plans the first fault of each kind. */
void sim_faults_plan(sim_cluster *c);
/* Heals everything and starts what is down: from now on it is calm. Peers that are to be gone for good go. */
void sim_faults_end(sim_cluster *c);
uint64_t sim_heal_ns(const sim_cluster *c); /* when faults are to end */
/* Whether the cluster can do without what is on the peer's disk, as it promises. */
bool sim_can_lose_disk(sim_cluster *c, const sim_peer *p);

#endif
