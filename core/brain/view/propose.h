#ifndef GODWIT_CORE_BRAIN_VIEW_PROPOSE_H
#define GODWIT_CORE_BRAIN_VIEW_PROPOSE_H

#include "core/brain/state.h"

void gw_views_open(gw_peer *p, const gw_ballot *ballot);
void gw_views_close(gw_peer *p);
/* Tells people that step 0 is for more peers than are here. */
void gw_views_wait_for_founders(gw_peer *p, uint32_t here);
/* Called as time passes: asks for a new view, proposes one, or sends a proposal again. */
void gw_views_consider(gw_peer *p);
uint64_t gw_views_deadline(const gw_peer *p);
/* Proposes a view of these members, this peer included, on the view that it is in. */
void gw_views_propose(gw_peer *p, const gw_member *members, uint32_t count);
/* Handles a message about views. It may take what the message owns. */
void gw_views_receive(gw_peer *p, const gw_contact *from, gw_message *message);
void gw_views_link_up(gw_peer *p, const gw_contact *contact);
/* The operator forces a view. */
void gw_views_force(gw_peer *p);
/* Leaves the installed view and waits to be admitted. */
void gw_views_lost(gw_peer *p, const char *why);

#endif
