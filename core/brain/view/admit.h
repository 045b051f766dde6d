#ifndef GODWIT_CORE_BRAIN_VIEW_ADMIT_H
#define GODWIT_CORE_BRAIN_VIEW_ADMIT_H

#include "core/brain/state.h"

/* Called as time passes: founds a view, asks to be admitted, admits, heals. */
void gw_admit_consider(gw_peer *p);
/* Handles the message JOIN. */
void gw_admit_receive_join(gw_peer *p, const gw_contact *from, const gw_message *message);
/* The members pause at a boundary. */
void gw_admit_at_boundary(gw_peer *p);
/* At a boundary, at the leader: proposes the next view. */
void gw_admit_at_pause(gw_peer *p);
/* Handles UNMET: notes why no seed is met. */
void gw_admit_note_unmet(gw_peer *p, const gw_event *event);
uint64_t gw_admit_deadline(const gw_peer *p);

#endif
