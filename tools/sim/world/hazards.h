/* What may go wrong while the world carries out what brains ask for. The world asks, and the
 * faults (tools/sim/faults), which set the table, answer, draw random numbers and count; in a world without
 * hazards nothing goes wrong. */
#ifndef GODWIT_TOOLS_SIM_WORLD_HAZARDS_H
#define GODWIT_TOOLS_SIM_WORLD_HAZARDS_H

#include "tools/sim/setup/result.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_cluster sim_cluster;
typedef struct sim_peer sim_peer;
typedef struct sim_sum sim_sum;

typedef struct sim_hazards {
    /* A worker begins a shard: whether it cannot compute it, and says so later by itself. */
    bool (*gives_up)(sim_cluster *c, sim_peer *p, uint32_t worker);
    /* Whether what this shard is computed from cannot be had just now. */
    bool (*loses_payload)(sim_cluster *c, sim_peer *p, uint32_t shard);
    /* What the peer computes of a shard, which may be wrong. */
    uint64_t (*computes)(sim_cluster *c, const sim_peer *p, uint32_t shard);
    /* A shard is through: whether the process has died of it. */
    bool (*dies_of)(sim_cluster *c, sim_peer *p, uint32_t shard);
    /* A shard is computed once more: whether that fails. */
    bool (*fails_probe)(sim_cluster *c, sim_peer *p, uint64_t step);
    /* Whether the machine fails at what it is asked for, as this kind of fault. */
    bool (*refuses)(sim_cluster *c, sim_peer *p, gw_sim_fault kind);
    /* Whether the answer to a swap of `victim`'s range word by `thief` is lost, though the swap is not. */
    bool (*loses_answer)(sim_cluster *c, uint32_t thief, uint32_t victim);
    /* A member enters a reduction: a bit of its part may flip. */
    void (*touches_part)(sim_cluster *c, sim_peer *p);
    /* A member gets the sum of a step: whether a bit of it flips. *damaged: one of this reduction has before.
     */
    bool (*damages_sum)(sim_cluster *c, sim_peer *p, uint64_t step, sim_sum *sum, bool *damaged);
    /* Whether bits of what `from` sends now come to `to` as others. */
    bool (*would_change)(sim_cluster *c, uint32_t from, uint32_t to);
    /* They do: returns which of all changes it is (sim_observer, change_arrives). */
    uint32_t (*changes)(sim_cluster *c, uint32_t from, uint32_t to);
} sim_hazards;

extern const sim_hazards sim_no_hazards;

#endif
