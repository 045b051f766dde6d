/* Which lives of peers were lost at which shard: the evidence by which a poison shard is named (design
 * section 5), as it outlives the peers. A set, so that sets of several peers can be united in any order;
 * whoever has united the same ones judges alike. Pure. */
#ifndef GODWIT_CORE_RECORD_LOSSES_H
#define GODWIT_CORE_RECORD_LOSSES_H

#include "core/base/id.h"
#include "core/base/wire.h"

#include <stdbool.h>

enum {
    GW_MAX_LOSSES = 256,  /* more are not remembered */
    GW_POISON_LOSSES = 3, /* so many lives lost at one shard make it poison */
};
#define GW_LOSS_ANY UINT32_MAX /* a shard that is not known */

typedef struct gw_loss {
    gw_peer_id id; /* the life: peer and boot count */
    uint64_t boot;
    uint64_t step;
    uint32_t shard; /* one of those that it was computing, or GW_LOSS_ANY */
} gw_loss;

typedef struct gw_losses {
    uint32_t count;
    gw_loss list[GW_MAX_LOSSES];
} gw_losses;

/* True when the set has changed. Of a life's losses those of the latest step count, as whoever was there
 * knows that it had done the steps before; of that step a known shard takes the place of an unknown. */
bool gw_losses_add(gw_losses *losses, const gw_loss *loss);
bool gw_losses_unite(gw_losses *into, const gw_losses *more);
/* Forgets those of earlier steps: these have been done. True when the set has changed. */
bool gw_losses_forget_before(gw_losses *losses, uint64_t step);
bool gw_losses_in_step(const gw_losses *losses, uint64_t step);
/* How many lives of this peer were lost in this step. */
uint32_t gw_losses_lives(const gw_losses *losses, const gw_peer_id *id, uint64_t step);
/* Whether this life's loss in this step is known, but not its shard. */
bool gw_losses_lacks_shard(const gw_losses *losses, const gw_peer_id *id, uint64_t boot, uint64_t step);

enum { GW_POISON_NAMED = 4 };
typedef struct gw_poison {
    uint64_t step;
    uint32_t shard; /* the lowest of those that most lives were lost at */
    uint32_t lives; /* lost at it */
    uint32_t ties;  /* how many other shards as many were lost at, computed together with it each time */
    uint32_t tied[GW_POISON_NAMED - 1]; /* the lowest of those, rising */
} gw_poison;
/* The poison shard of the first step, from `step` on, that has one. Losses at unknown shards of a step count
 * as one with every shard of it: the first of a step comes before anybody says what it computes. */
bool gw_losses_poison(const gw_losses *losses, uint64_t step, gw_poison *poison);

void gw_losses_put(gw_writer *w, const gw_losses *losses);
/* Fails the reader on more than GW_MAX_LOSSES, and on what no set has: a loss twice, one at an unknown shard
 * beside the same life's at a known one, or of two steps. */
void gw_losses_get(gw_reader *r, gw_losses *losses);
enum { GW_LOSS_BYTES = 36 }; /* of one, as put; with 4 before them all */

#endif
