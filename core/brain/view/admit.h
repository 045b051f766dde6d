#ifndef GODWIT_CORE_BRAIN_VIEW_ADMIT_H
#define GODWIT_CORE_BRAIN_VIEW_ADMIT_H

#include "core/brain/state.h"

void gw_waiting_consider(gw_peer *p);
/* So many that have founded would begin at step 0, which is for more: they wait without a view again. */
void gw_waiting_found_too_few(gw_peer *p, uint32_t here);
void gw_waiting_join(gw_peer *p, gw_contact *from, const gw_message *message);
/* Adds the newcomers that may be admitted now; returns the new count. */
uint32_t gw_waiting_add_joiners(gw_peer *p, gw_member *members, uint32_t count);
/* Adds the view that this newcomer lives in, if any, to the names (GW_MAX_ABSORBED). False: it does not fit.
 */
bool gw_waiting_absorb(const gw_peer *p, const gw_contact *newcomer, gw_view_name *names, uint32_t *count);
bool gw_waiting_has_joiners(gw_peer *p);
uint32_t gw_waiting_count_joiners(gw_peer *p); /* at least 1: linked to all members or not */
/* The members pause at a boundary. */
void gw_waiting_at_boundary(gw_peer *p);
/* At a boundary, at the leader: proposes the next view. */
void gw_waiting_at_pause(gw_peer *p);
/* Newcomers had the flock wait for so long, and have been admitted, or not. */
void gw_waiting_admitted(gw_peer *p, uint64_t pause_ns);
/* A proposal waits for the likes of it. */
bool gw_waiting_misses(const gw_peer *p, const gw_contact *contact);
bool gw_waiting_knows_flock(const gw_peer *p); /* a living peer of this job has a view */
uint64_t gw_waiting_deadline(const gw_peer *p);

#endif
