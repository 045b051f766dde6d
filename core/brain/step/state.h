/* A step's life: deal, steal, seal, reduce, apply, commit.
 * The state belongs to this room; the other rooms of the brain read it. */
#ifndef GODWIT_CORE_BRAIN_STEP_STATE_H
#define GODWIT_CORE_BRAIN_STEP_STATE_H

#include "core/brain/world.h"

typedef struct gw_thief { /* of no meaning but while active, and then for the ranks of the view */
    bool active;
    gw_token tokens[GW_MAX_MEMBERS]; /* outstanding READ of each rank, 0 = none */
    uint64_t words[GW_MAX_MEMBERS];
    bool known[GW_MAX_MEMBERS]; /* words[rank] was read in this round */
    uint32_t outstanding;
    gw_token swap;
    uint32_t victim;
    uint64_t desired;
    uint32_t first, end;
    uint64_t retry_ns; /* next round, when a victim was not ready; 0 = none */
} gw_thief;

typedef struct gw_retry { /* of reductions that failed */
    gw_hash members;      /* of the view that they failed in */
    uint32_t failures;    /* in a row, in views of these members */
    uint64_t at_ns;       /* when the next may be tried */
    char why[100];        /* the last one failed */
} gw_retry;

typedef struct gw_step_state {
    uint64_t accumulator_step; /* UINT64_MAX = none */
    uint32_t shards;
    bool careful;
    uint64_t speeds[GW_MAX_MEMBERS];
    uint64_t own_speed;   /* of the last step in which this peer had a shard; 0 = it has had none */
    uint64_t speed_ns;    /* when own_speed was measured */
    uint64_t idle_shards; /* shards that passed without one here; after a time own_speed counts as unknown */
    bool speed_old;       /* own_speed counts as unknown */
    uint32_t tag;         /* of the present deal */
    gw_token seal_token, reduce_token, apply_token;
    bool applying;
    int64_t decisions; /* of the sum being applied */
    uint32_t failures;
    bool lacks_shard; /* a shard given back here was dealt in this view: a sum without it would be refused */
    gw_thief thief;
    char refused[120]; /* what was wrong with the last sum that failed its checks */
    gw_retry retry;
    uint64_t steals, shards_stolen;
} gw_step_state;

#endif
