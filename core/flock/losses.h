/* How often a member was lost to the others within the hour, and for how long it is doubtful for that: it takes no jobs while
 * others do, so that a node that comes and goes does not draw jobs away again and again. A member notes itself when it was
 * lost: its process has ended other than in order, it has stood still, or it was on the lesser side of the flock (sides.h);
 * and its claims tell the others, so that all decide alike. What is lost once, as by a restart, is not doubtful.
 *
 * Plain values. Times are seconds since 1970, by this machine's clock, as they outlive processes. Pure; any thread. */
#ifndef GODWIT_CORE_FLOCK_LOSSES_H
#define GODWIT_CORE_FLOCK_LOSSES_H

#include <stdint.h>

enum {
    GW_LOSSES_MOST = 8, /* that are remembered */
    GW_LOSSES_WITHIN_S = 3600,
    GW_LOSSES_LEAST_S = 10, /* doubled for each loss */
    GW_LOSSES_LONGEST_S = 600,
};

typedef struct gw_losses {
    uint64_t at_s[GW_LOSSES_MOST]; /* the last ones, in rising order */
    uint32_t count;
} gw_losses;

/* Adds a loss, and drops those of more than an hour ago, or of the future, as after a clock was set back. */
void gw_losses_add(gw_losses *losses, uint64_t at_s);
/* For how long a member is doubtful after its last loss, in seconds; 0: it is not. */
uint64_t gw_losses_wait_s(const gw_losses *losses);

#endif
