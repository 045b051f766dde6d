/* What the rooms of the brain leave to the view, which stands above them: that the view must change and why,
 * from when on this peer may propose one, and that newcomers may be admitted. A room notes it here by one of
 * these functions, and the view reads p->agenda at the end of gw_peer_step. Only this file writes p->agenda.
 */
#ifndef GODWIT_CORE_BRAIN_AGENDA_H
#define GODWIT_CORE_BRAIN_AGENDA_H

#include "core/brain/peer.h"

typedef struct gw_agenda {
    bool view_change;       /* the installed view must change */
    char cause[120];        /* of the change that is due or under way, for people; "" = none */
    uint64_t cause_ns;      /* when the cause of that change was noted; 0 = there is none */
    uint64_t patience_ns;   /* this peer waits for proposals of others until this time */
    uint64_t propose_at_ns; /* this peer proposes no view before this time */
    bool states_suspected;  /* some member's state may be corrupt, so all check theirs before they vote */
    bool at_boundary;       /* the members pause for newcomers at the end of this step */
} gw_agenda;

/* Notes that the installed view must change. The first cause counts until a view is installed. Without a view
 * nothing happens. */
void gw_agenda_change_view(gw_peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Notes that a change of views begins now. The cause NULL leaves the text as it is. */
void gw_agenda_begin_change(gw_peer *p, const char *cause);
void gw_agenda_set_patience(gw_peer *p, uint64_t until_ns);
void gw_agenda_set_proposal(gw_peer *p, uint64_t from_ns);
void gw_agenda_suspect_states(gw_peer *p);
void gw_agenda_pause_at_boundary(gw_peer *p);
/* Whether gw_agenda_pause_at_boundary has been called since the last call of this function. */
bool gw_agenda_take_boundary(gw_peer *p);
/* A view has been installed, and nothing that was noted before is due any more. */
void gw_agenda_clear(gw_peer *p);
/* This peer has lost its view, so that no change of it is due. */
void gw_agenda_drop_change(gw_peer *p);

#endif
