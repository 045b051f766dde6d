/* This deals the processors of a node to the children of a member: each has as many as it is to have, and none has those of
 * another one, as far as there are enough. A child keeps what it has, so that threads move only when they must.
 *
 * Pure; any thread. */
#ifndef GODWIT_TOOLS_GODWIT_LIMIT_CORES_H
#define GODWIT_TOOLS_GODWIT_LIMIT_CORES_H

#include <sched.h>
#include <stdint.h>

typedef struct gw_cores_share {
    uint32_t count; /* that it is to have; at least 1 */
    cpu_set_t set;  /* in: what it has; out: what it is to have */
} gw_cores_share;

/* Deals out the processors `all`. Free ones are taken from the place `first` on, so that members that share a machine
 * begin at different places; neighbours go to one share. Those that have come first are served first; one for which
 * none is left may use all. */
void gw_cores_deal(const cpu_set_t *all, uint32_t first, gw_cores_share *shares, uint32_t count);

#endif
