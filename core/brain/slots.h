/* What the members tell each other in a reduction's slots (GW_SLOTS of core/brain/world.h): each member fills its own row,
 * and all members read the same table. */
#ifndef GODWIT_CORE_BRAIN_SLOTS_H
#define GODWIT_CORE_BRAIN_SLOTS_H

/* Bits of the leader's decisions in the reduction's slots. */
enum { GW_DECIDE_SAVE = 1, GW_DECIDE_PAUSE = 2, GW_DECIDE_STOP = 4 };
/* Bits of any member's flags. */
enum { GW_FLAG_UNWRITABLE = 1 };
enum {
    GW_SLOT_SPEED,
    GW_SLOT_FINGERPRINT,
    GW_SLOT_DECISIONS,
    GW_SLOT_FLAGS,
    GW_SLOT_BAD,
    GW_SLOT_BAD_INDEX,
    GW_SLOT_SPARE,
    GW_SLOT_CHECK
};

#endif
