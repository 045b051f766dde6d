/* Halting: where nobody can tell which bits are right, no member goes on. The member that finds this out
 * sends HALT as it ends. Otherwise the others, which may not have found it out yet, would take it for a
 * member that left, and the wrong members could be the majority of those that stay. */
#include "core/brain/faults/halt.h"

#include "core/base/assert.h"
#include "core/brain/outbox.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <stdarg.h>
#include <stdio.h>

static void tell(gw_peer *p, const gw_view *view, char *why) {
    GW_ASSERT(gw_view_rank(view, &p->config.id) >= 0);
    gw_message message = {.kind = GW_MSG_HALT, .epoch = view->epoch, .name = view->name};
    message.halt.step = p->state.step;
    message.halt.reason = why;
    for (uint32_t i = 0; i < view->count; i++)
        if (!gw_peer_id_equal(&view->members[i].id, &p->config.id))
            gw_peer_send(p, &view->members[i].id, &message);
}

void gw_halt(gw_peer *p, const gw_view *view, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tell(p, view, text);
    gw_peer_finish(p, GW_FINISH_FAILED, NULL, "%s", text);
}

/* Whether a HALT is about the step in progress, in the view in which this peer lives. In steps before, its
 * own sums showed no such fault. */
static bool is_of_this_step(const gw_peer *p, const gw_contact *from, const gw_message *m) {
    return p->view.current.epoch > 0 && gw_view_name_equal(&p->view.current.name, &m->name) &&
           m->halt.step == p->state.step && gw_view_rank(&p->view.current, &from->id) >= 0;
}

/* The sender may have no link to some members, so each receiver passes the message on. */
void gw_halt_receive(gw_peer *p, const gw_contact *from, const gw_message *m) {
    char id[GW_SHORT_TEXT];
    GW_ASSERT(m->kind == GW_MSG_HALT && m->halt.reason != NULL);
    bool here = is_of_this_step(p, from, m);
    if (!here && !gw_peer_awaits_view(p, &from->id, &m->name)) return;
    if (here) tell(p, &p->view.current, m->halt.reason);
    gw_peer_finish(p, GW_FINISH_FAILED, NULL, "%.400s (told by peer %s)", m->halt.reason,
                   gw_peer_id_short(&from->id, id));
}

bool gw_halt_may_come(const gw_peer *p) {
    bool summed =
        p->phase == GW_AT_REDUCING || p->phase == GW_AT_DISPUTING || p->phase == GW_AT_FROZEN; /* since */
    for (uint32_t i = 0; i < p->members.contact_count && summed; i++) {
        const gw_contact *c = &p->members.contacts[i];
        int rank = !c->alive && c->ended && c->linked ? gw_view_rank(&p->view.current, &c->id) : -1;
        if (rank >= 0 && gw_member_is(&p->view.current.members[rank], &c->linked_life)) return true;
    }
    return false;
}
