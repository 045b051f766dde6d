/* The faults of a run. Each kind of fault strikes at random intervals with a mean of its own, until all
 * faults are healed. The faults also set the world's hazards, which decide whether something that the
 * world carries out fails. Processes that have ended are started again here. */
#ifndef GODWIT_TOOLS_SIM_FAULTS_FAULTS_H
#define GODWIT_TOOLS_SIM_FAULTS_FAULTS_H

#include "tools/sim/world/cluster.h"

typedef struct sim_faults sim_faults;

/* Sets the hazards and observes the cluster, which must be closed first. Draws which machines are slow and
 * whose clocks drift. */
sim_faults *sim_faults_open(sim_cluster *c);
void sim_faults_close(sim_faults *f);
/* Plans the first fault of each kind. */
void sim_faults_plan(sim_cluster *c);
/* Heals all faults and starts what is down: from now on it is calm. Peers that are to be gone for good go. */
void sim_faults_end(sim_cluster *c);
uint64_t sim_heal_ns(const sim_cluster *c); /* returns when the faults end */
/* Whether the cluster can do without the peer's disk, so that its promises still hold. */
bool sim_can_lose_disk(sim_cluster *c, const sim_peer *p);

#endif
