#ifndef GODWIT_CORE_BRAIN_VIEW_JOINERS_H
#define GODWIT_CORE_BRAIN_VIEW_JOINERS_H

#include "core/brain/state.h"

/* Adds the newcomers that may be admitted now; returns the new count. */
uint32_t gw_joiners_add(gw_peer *p, gw_member *members, uint32_t count);
/* Adds the view that this newcomer lives in, if any, to the names (GW_MAX_ABSORBED). False: it does not fit.
 */
bool gw_joiners_absorb(const gw_peer *p, const gw_contact *newcomer, gw_view_name *names, uint32_t *count);
bool gw_joiners_any(gw_peer *p);
uint32_t gw_joiners_count(gw_peer *p); /* at least 1: linked to all members or not */
/* A proposal waits for the likes of it. */
bool gw_joiners_misses(const gw_peer *p, const gw_contact *contact);
/* Somebody waits who may be admitted now, and there is room. */
bool gw_joiners_may_come(gw_peer *p);

#endif
