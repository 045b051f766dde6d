/* The hazards: what may go wrong while the world carries out the actions of brains. The world asks; the
 * faults (tools/sim/faults), which set this table, answer, draw random numbers and count. In a world
 * without hazards nothing goes wrong. */
#ifndef GODWIT_TOOLS_SIM_WORLD_HAZARDS_H
#define GODWIT_TOOLS_SIM_WORLD_HAZARDS_H

#include "core/brain/world.h"
#include "tools/sim/setup/result.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_cluster sim_cluster;
typedef struct sim_peer sim_peer;
typedef struct sim_sum sim_sum;

typedef struct sim_hazards {
    /* A worker begins a shard: whether it cannot compute it, which it reports later by itself. */
    bool (*gives_up)(sim_cluster *c, sim_peer *p, uint32_t worker);
    /* Whether the payload of this shard is not available now. */
    bool (*loses_payload)(sim_cluster *c, sim_peer *p, uint32_t shard);
    /* A worker begins a shard: whether its process will end at it, and why. */
    bool (*loses_worker)(sim_cluster *c, sim_peer *p, uint32_t worker, gw_worker_loss *kind);
    /* A shard is dropped while a worker computes it: whether the worker's process ends by that. */
    bool (*drops_worker)(sim_cluster *c, sim_peer *p);
    /* Returns the contribution that the peer computes, which may be wrong. */
    uint64_t (*computes)(sim_cluster *c, const sim_peer *p, uint32_t shard);
    /* A shard is finished: whether the process has died at it. */
    bool (*dies_of)(sim_cluster *c, sim_peer *p, uint32_t shard);
    /* A shard is computed again for a probe: whether that fails. */
    bool (*fails_probe)(sim_cluster *c, sim_peer *p, uint64_t step);
    /* Whether the machine fails at an operation, as this kind of fault. */
    bool (*refuses)(sim_cluster *c, sim_peer *p, gw_sim_fault kind);
    /* Whether the answer to a swap of the victim's range word by the thief is lost, although the swap has
     * happened. */
    bool (*loses_answer)(sim_cluster *c, uint32_t thief, uint32_t victim);
    /* A member enters a reduction: a bit of its part may flip. */
    void (*touches_part)(sim_cluster *c, sim_peer *p);
    /* A member gets the sum of a step: whether a bit of it flips. *damaged: this reduction already had a
     * damaged sum. */
    bool (*damages_sum)(sim_cluster *c, sim_peer *p, uint64_t step, sim_sum *sum, bool *damaged);
    /* Whether bits that `from` sends to `to` now would arrive changed. */
    bool (*would_change)(sim_cluster *c, uint32_t from, uint32_t to);
    /* Such a change happens: returns its number among all changes (change_arrives in observer.h). */
    uint32_t (*changes)(sim_cluster *c, uint32_t from, uint32_t to);
} sim_hazards;

extern const sim_hazards sim_no_hazards;

#endif
