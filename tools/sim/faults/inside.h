/* Declarations that the files of the faults share. */
#ifndef GODWIT_TOOLS_SIM_FAULTS_INSIDE_H
#define GODWIT_TOOLS_SIM_FAULTS_INSIDE_H

#include "tools/sim/faults/faults.h"

struct sim_faults {
    uint32_t *damages;          /* by step: its reductions that brought a damaged sum */
    uint32_t *gave_up;          /* by step: the peers that gave up a shard of it */
    sim_worker_losses *crashed; /* by step: the shard at which worker processes end by chance, and how many */
    uint64_t flap;              /* number of the cut that may flap now */
    uint64_t steps_seen;        /* steps applied when the operator looked last */
    uint32_t changes;           /* changes of bits on their way so far */
    struct sim_payloads {       /* by peer: shards of a step whose payload was not available, in this life */
        uint64_t step;
        uint32_t lost;
    } * payloads;
};

static inline sim_faults *sim_faults_of(const sim_cluster *c) {
    return c->hazards_context;
}

/* faults.c */
uint64_t sim_next_in(sim_cluster *c, uint32_t mean_ms); /* returns a random time with this mean */
/* Returns how long a condition lasts that lasts `usual_ms` in a run that is no long haul. */
uint64_t sim_lasting_ns(sim_cluster *c, uint64_t usual_ms);
void sim_crash_and_restart(sim_cluster *c, sim_peer *p);

/* work.c */
bool sim_hazard_gives_up(sim_cluster *c, sim_peer *p, uint32_t worker);
bool sim_hazard_loses_payload(sim_cluster *c, sim_peer *p, uint32_t shard);
bool sim_hazard_loses_worker(sim_cluster *c, sim_peer *p, uint32_t worker, gw_worker_loss *kind);
bool sim_hazard_drops_worker(sim_cluster *c, sim_peer *p);
bool sim_hazard_dies_of(sim_cluster *c, sim_peer *p, uint32_t shard);
bool sim_hazard_fails_probe(sim_cluster *c, sim_peer *p, uint64_t step);
bool sim_hazard_refuses(sim_cluster *c, sim_peer *p, gw_sim_fault kind);
bool sim_hazard_loses_answer(sim_cluster *c, uint32_t thief, uint32_t victim);

/* bits.c */
uint64_t sim_hazard_computes(sim_cluster *c, const sim_peer *p, uint32_t shard);
void sim_hazard_touches_part(sim_cluster *c, sim_peer *p);
bool sim_hazard_damages_sum(sim_cluster *c, sim_peer *p, uint64_t step, sim_sum *sum, bool *damaged);
bool sim_hazard_would_change(sim_cluster *c, uint32_t from, uint32_t to);
uint32_t sim_hazard_changes(sim_cluster *c, uint32_t from, uint32_t to);
void sim_begin_to_change(sim_cluster *c); /* a machine begins to change bits of what it sends or receives */
void sim_flip(sim_cluster *c);            /* flips a bit of some peer's state */

/* network.c */
void sim_partition(sim_cluster *c);
void sim_blind(sim_cluster *c);
void sim_clog(sim_cluster *c);
void sim_break_link(sim_cluster *c);
void sim_lose_data(sim_cluster *c);
void sim_lose_path(sim_cluster *c);

/* disk.c */
void sim_fill_disk(sim_cluster *c);
void sim_hang_disk(sim_cluster *c);
void sim_crawl_disk(sim_cluster *c);
void sim_slow_disk(sim_cluster *c);
void sim_damage_disk(sim_cluster *c);
void sim_refuse_records(sim_cluster *c);
/* The host of the peer died: chunks that were lately reported to be durable may be lost. */
void sim_disk_unsynced(sim_cluster *c, sim_peer *p);
/* Damages the peer's record, which must be noticed; returns false where there is no record. */
bool sim_record_spoils(sim_cluster *c, sim_peer *p);
/* Replaces the disk of a peer that does not run by an empty one: the peer comes back as one that no other
 * peer knows. */
void sim_lose_disk(sim_cluster *c, sim_peer *p);
sim_peer *sim_any_running(sim_cluster *c); /* returns a random running peer, or NULL (faults.c) */

/* core.c, operator.c */
void sim_leave_a_core(sim_cluster *c);
void sim_force_later(sim_cluster *c); /* from now on an operator forces a view while there is no progress */

#endif
