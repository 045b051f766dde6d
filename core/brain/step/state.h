/* The step in progress: deal, steal, seal, reduce, apply. The state belongs to this room; the other rooms of
 * the brain read it. */
#ifndef GODWIT_CORE_BRAIN_STEP_STATE_H
#define GODWIT_CORE_BRAIN_STEP_STATE_H

#include "core/brain/world.h"

/* A search for shards to steal. Everything is valid only while it is active, and by rank in the view. */
typedef struct gw_thief {
    bool active;
    gw_token tokens[GW_MAX_MEMBERS]; /* of the READ_WORD in progress; 0 = none */
    uint64_t words[GW_MAX_MEMBERS];
    bool known[GW_MAX_MEMBERS]; /* words[rank] was read in this round */
    uint32_t outstanding;       /* number of READ_WORD in progress */
    gw_token swap;              /* of the SWAP_WORD in progress; 0 = none */
    uint32_t victim;            /* rank whose word is swapped */
    uint64_t desired;           /* the word that is to remain there */
    uint32_t first, end;        /* the positions that are stolen by it */
    uint64_t retry_ns;          /* time of the next round, if a victim was not ready; 0 = none */
} gw_thief;

/* Reductions that failed in a row. */
typedef struct gw_retry {
    gw_hash members;   /* a hash of the members of the views in which they failed */
    uint32_t failures; /* their number */
    uint64_t at_ns;    /* when the next may be tried */
    char why[100];     /* why the last one failed */
} gw_retry;

typedef struct gw_step_state {
    uint64_t accumulator_step; /* the step to which the accumulator belongs; UINT64_MAX = to none */
    uint32_t shards;           /* of this step */
    /* Members report their claims, as peers have died at shards of this step (members/poison.c). */
    bool careful;
    uint64_t speeds[GW_MAX_MEMBERS]; /* by rank, by which the next step is dealt */
    uint64_t joules[GW_MAX_MEMBERS]; /* by rank: what a shard costs; 0 = not known */
    uint64_t own_joules;             /* as this peer's world has told last */
    uint64_t due_ns;    /* by when the present deal is to be done; 0 = nobody is spared, and all may steal */
    uint64_t own_speed; /* of the last step in which this peer had a shard; 0 = it has had none */
    uint64_t speed_ns;  /* when own_speed was measured */
    /* Shards of others since this peer last had one; own_speed becomes too old by them. */
    uint64_t idle_shards;
    bool speed_old;    /* own_speed is too old and counts as unknown */
    uint64_t begun_ns; /* when the present step was begun */
    uint64_t last_ns;  /* how long the last whole step took; 0 = not known */
    uint32_t tag;      /* of the present deal */
    gw_token seal_token, reduce_token, apply_token;
    bool applying;
    int64_t decisions; /* of the sum being applied */
    uint32_t failures; /* how often the checks of this step's sum failed */
    /* This peer has given a shard of this deal back, without which the sum would be refused. */
    bool lacks_shard;
    /* A shard of the step `owed_step`, plus 1, that this peer has given back after it had reported it as
     * claimed; 0 = there is none. If the next view counts on it, that view must change. */
    uint32_t owed_shard_plus_1;
    uint64_t owed_step;
    /* Since when nothing is left to do of this step, which a checkpoint keeps from its end; 0: it does
     * not. */
    uint64_t held_ns;
    gw_thief thief;
    char refused[120]; /* what was wrong with the last sum that failed its checks */
    gw_retry retry;
    uint64_t steals, shards_stolen;
} gw_step_state;

#endif
