/* The learning rate as a function of the update. */
#ifndef GODWIT_KERNELS_MATH_SCHEDULE_H
#define GODWIT_KERNELS_MATH_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gw_schedule_kind {
    /* falls to `least` along half a cosine (Loshchilov and Hutter, "SGDR", ICLR 2017) */
    GW_SCHEDULE_COSINE = 1,
    GW_SCHEDULE_LINEAR, /* falls linearly to `least` */
    GW_SCHEDULE_WSD,    /* constant, then linear to `least` over the last `decay` updates (Hu et al., 2024) */
    GW_SCHEDULE_CONSTANT,
} gw_schedule_kind;

typedef struct gw_schedule {
    gw_schedule_kind kind;
    /* Rates after the warm-up, and after the last update, whose own rate is still above `least`. */
    double most, least;
    uint64_t updates;       /* number of updates of the training, at least 1 */
    uint64_t warmup, decay; /* in updates; where both phases overlap, the lower rate counts */
} gw_schedule;

/* Finds a kind by name ("cosine"); false where there is none of that name. */
bool gw_schedule_named(const char *name, gw_schedule_kind *kind);

/* The rate of update `update`, counted from 0. It rises linearly over the first `warmup` updates and then
 * takes the course of the kind. Pure. */
double gw_schedule_rate(const gw_schedule *schedule, uint64_t update);

/* Writes for people the rate of this update, and what it does: "learning rate 0.00055, falling since update
 * 800". Cuts what has no room in `size` bytes. Pure. */
void gw_schedule_describe(const gw_schedule *schedule, uint64_t update, char *text, size_t size);

#endif
