/* Where a state has come from: the checkpoints that were saved on the way to it. With float sums others may
 * be of another lineage of the job, which was given up. Pure. */
#ifndef GODWIT_CORE_RECORD_LINEAGE_H
#define GODWIT_CORE_RECORD_LINEAGE_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_MAX_LINEAGE = 16 };

typedef struct gw_checkpoint_ref { /* a checkpoint; step 0: none */
    uint64_t step;
    gw_hash root;
} gw_checkpoint_ref;

typedef struct gw_lineage {
    uint32_t count;
    gw_checkpoint_ref list[GW_MAX_LINEAGE]; /* of more steps first; no root twice */
} gw_lineage;

/* Of a full lineage the one of the fewest steps is forgotten. Steps may leave a state as it was: its root is
 * that of the last one then. */
void gw_lineage_add(gw_lineage *lineage, const gw_checkpoint_ref *one);
bool gw_lineage_has(const gw_lineage *lineage, const gw_hash *root);
/* *kept becomes the one of more steps. */
void gw_checkpoint_ref_take_newer(gw_checkpoint_ref *kept, const gw_checkpoint_ref *other);

#endif
