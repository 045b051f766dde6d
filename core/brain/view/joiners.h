#ifndef GODWIT_CORE_BRAIN_VIEW_JOINERS_H
#define GODWIT_CORE_BRAIN_VIEW_JOINERS_H

#include "core/brain/state.h"

/* Adds the newcomers that may be admitted now; returns the new count. */
uint32_t gw_joiners_add(gw_peer *p, gw_member *members, uint32_t count);
/* Adds the view in which this newcomer lives, if any, to the names, which have room for GW_MAX_ABSORBED.
 * Returns false if it does not fit. */
bool gw_joiners_absorb(const gw_peer *p, const gw_contact *newcomer, gw_view_name *names, uint32_t *count);
/* Whether newcomers wait that can be proposed, and there is room. */
bool gw_joiners_any(gw_peer *p);
/* The number of newcomers, whether they can be proposed or not; at least 1. */
uint32_t gw_joiners_count(gw_peer *p);
/* Whether this peer's proposal waits for peers such as this one. */
bool gw_joiners_misses(const gw_peer *p, const gw_contact *contact);
/* Whether a newcomer waits that may be admitted in this step, and there is room. */
bool gw_joiners_may_come(gw_peer *p);

#endif
