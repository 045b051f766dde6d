/* The lineage of a state: the checkpoints that were saved on the way to it. With float sums a job may go back
 * to a checkpoint and make the same steps again with other results; checkpoints of the steps that were given
 * up are of another lineage. The functions are pure. */
#ifndef GODWIT_CORE_RECORD_LINEAGE_H
#define GODWIT_CORE_RECORD_LINEAGE_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_MAX_LINEAGE = 16 };

/* Names a checkpoint. Step 0 means none. */
typedef struct gw_checkpoint_ref {
    uint64_t step;
    gw_hash root;
} gw_checkpoint_ref;

typedef struct gw_lineage {
    uint32_t count;
    gw_checkpoint_ref list[GW_MAX_LINEAGE]; /* in falling order of steps; no root twice */
} gw_lineage;

/* Adds a checkpoint, of at least one step. A full lineage forgets the checkpoint of the fewest steps. If
 * steps leave the state as it was, its root is already there, and the entry moves to the later step. */
void gw_lineage_add(gw_lineage *lineage, const gw_checkpoint_ref *one);
bool gw_lineage_has(const gw_lineage *lineage, const gw_hash *root);
/* Replaces `kept` by `other` if that has more steps. */
void gw_checkpoint_ref_take_newer(gw_checkpoint_ref *kept, const gw_checkpoint_ref *other);

#endif
