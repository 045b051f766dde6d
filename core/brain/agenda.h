/* What the rooms of the brain leave to the view, which stands above them: that the view needs a change and why, from
 * when on it may be changed, and that newcomers may be admitted. A room marks it here; the view's functions read it at
 * the end of gw_peer_step. Only the functions of this file write p->agenda. */
#ifndef GODWIT_CORE_BRAIN_AGENDA_H
#define GODWIT_CORE_BRAIN_AGENDA_H

#include "core/brain/peer.h"

typedef struct gw_agenda {
    bool view_change;       /* the installed view needs a change */
    char cause[120];        /* for people: of the change that is needed or under way; "" = none */
    uint64_t cause_ns;      /* when that cause was noted; 0 = there is none */
    uint64_t patience_ns;   /* until this time the proposals of others are waited for */
    uint64_t propose_at_ns; /* this peer proposes nothing before this time */
    bool
        states_suspected; /* some member's state is not what it was: before the next view all members check theirs */
    bool at_boundary; /* the step's members pause at its end for newcomers */
} gw_agenda;

/* The installed view needs a change. The first cause counts until a view is installed; without a view nothing
 * happens. */
void gw_agenda_change_view(gw_peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A change of views begins now for this cause; NULL: the cause has been noted, or is the proposer's. */
void gw_agenda_begin_change(gw_peer *p, const char *cause);
/* Until when the proposals of others are waited for. */
void gw_agenda_set_patience(gw_peer *p, uint64_t until_ns);
/* From when on this peer may propose a view. */
void gw_agenda_set_proposal(gw_peer *p, uint64_t from_ns);
void gw_agenda_suspect_states(gw_peer *p);
void gw_agenda_pause_at_boundary(gw_peer *p);
/* Whether that was asked for since the last call. */
bool gw_agenda_take_boundary(gw_peer *p);
/* A view has been installed: nothing is left to do. */
void gw_agenda_clear(gw_peer *p);
/* This peer has no view any more that could be changed. */
void gw_agenda_drop_change(gw_peer *p);

#endif
