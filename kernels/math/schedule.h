/* The course of the learning rate over a training. */
#ifndef GODWIT_KERNELS_MATH_SCHEDULE_H
#define GODWIT_KERNELS_MATH_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gw_schedule_kind {
    GW_SCHEDULE_COSINE = 1, /* half a cosine down to the least (Loshchilov and Hutter, "SGDR", ICLR 2017) */
    GW_SCHEDULE_LINEAR,     /* a line down to the least */
    GW_SCHEDULE_WSD,        /* stays up, then a line down over the last `decay` updates (Hu et al., 2024) */
    GW_SCHEDULE_CONSTANT,
} gw_schedule_kind;

typedef struct gw_schedule {
    gw_schedule_kind kind;
    double most, least;     /* learning rates, after warm-up and behind the last update: where it ends, not
                               that update's own */
    uint64_t updates;       /* of the whole training, at least 1 */
    uint64_t warmup, decay; /* in updates; they may overlap, and then the lower rate counts */
} gw_schedule;

/* From a name ("cosine"); false when there is none such. */
bool gw_schedule_named(const char *name, gw_schedule_kind *kind);

/* The rate of update `update`, from 0: a line up over the first `warmup` updates, then as the kind says.
 * Pure. */
double gw_schedule_rate(const gw_schedule *schedule, uint64_t update);

#endif
