#ifndef GODWIT_CORE_BRAIN_VIEW_PROPOSE_H
#define GODWIT_CORE_BRAIN_VIEW_PROPOSE_H

#include "core/brain/state.h"

void gw_views_open(gw_peer *p, const gw_ballot *ballot);
void gw_views_close(gw_peer *p);
void gw_views_consider(gw_peer *p);
uint64_t gw_views_deadline(const gw_peer *p);
/* Proposes a view of these members (this peer among them) on the view it is in. */
void gw_views_propose(gw_peer *p, const gw_member *members, uint32_t count);
/* Where a majority rules: whether these members (this peer among them) can go on without any others. */
bool gw_views_are_enough(gw_peer *p, const gw_member *members, uint32_t count);
void gw_views_drop_attempt(gw_peer *p);
void gw_views_message(gw_peer *p, gw_contact *from, gw_message *message);
void gw_views_link_up(gw_peer *p, gw_contact *contact);
void gw_views_force(gw_peer *p);                                     /* the operator insists */
void gw_views_keep_learned(gw_peer *p, uint32_t index, uint32_t at); /* moves one forward, over another */
void gw_views_lost(gw_peer *p, const char *why); /* leaves the installed view and waits to be admitted */

#endif
