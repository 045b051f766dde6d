/* The columns of the table that members exchange with each reduction (GW_SLOTS in core/brain/world.h). Each
 * member fills one row, and all members read the same table. */
#ifndef GODWIT_CORE_BRAIN_SLOTS_H
#define GODWIT_CORE_BRAIN_SLOTS_H

#include <stdint.h>

enum {
    GW_SLOT_SPEED,       /* the member's speed in thousandths of a shard a second; 0 = not known */
    GW_SLOT_FINGERPRINT, /* of the state from which the member started the step */
    GW_SLOT_DECISIONS,   /* in the leader's row: bits of GW_DECIDE_* */
    /* bits of GW_FLAG_*, and from bit GW_JOULES_SHIFT on the microjoules that a shard costs the member (--deal
     * energy); 0 = not known */
    GW_SLOT_FLAGS,
    GW_SLOT_BAD,       /* shard plus 1 and tensor of the member's first bad element; 0 = it has none */
    GW_SLOT_BAD_INDEX, /* index of that element */
    GW_SLOT_BEST,      /* in the leader's row: its best value so far (core/record/best.h) */
    GW_SLOT_CHECK      /* a checksum of the row */
};

/* What the leader decides for the boundary at the end of the step. */
enum { GW_DECIDE_SAVE = 1, GW_DECIDE_PAUSE = 2, GW_DECIDE_STOP = 4 };
/* What a member says of itself: its disk takes no checkpoints. */
enum { GW_FLAG_UNWRITABLE = 1, GW_JOULES_SHIFT = 16 };
#define GW_JOULES_MOST ((UINT64_C(1) << 40) - 1)

#endif
