/* Where a state has come from: the checkpoints that were saved on the way to it. With float sums others may
 * be of another course of the job, which was given up. Pure. */
#ifndef GODWIT_CORE_RECORD_COURSE_H
#define GODWIT_CORE_RECORD_COURSE_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_MAX_COURSE = 16 };

typedef struct gw_kept { /* a checkpoint; step 0: none */
    uint64_t step;
    gw_hash root;
} gw_kept;

typedef struct gw_course {
    uint32_t count;
    gw_kept list[GW_MAX_COURSE]; /* of more steps first; no root twice */
} gw_course;

/* Of a full course the one of the fewest steps is forgotten. Steps may leave a state as it was: its root is
 * that of the last one then. */
void gw_course_add(gw_course *course, const gw_kept *one);
bool gw_course_has(const gw_course *course, const gw_hash *root);
/* *kept becomes the one of more steps. */
void gw_kept_take_newer(gw_kept *kept, const gw_kept *other);

#endif
