#include "core/brain/agenda.h"

#include "core/brain/state.h"

#include <stdarg.h>
#include <stdio.h>

void gw_agenda_change_view(gw_peer *p, const char *format, ...) {
    if (p->agenda.view_change || p->view.current.epoch == 0 || p->phase == GW_AT_OVER) return;
    va_list args;
    va_start(args, format);
    vsnprintf(p->agenda.cause, sizeof p->agenda.cause, format, args);
    va_end(args);
    p->agenda.view_change = true;
    p->agenda.cause_ns = p->now;
}

void gw_agenda_begin_change(gw_peer *p, const char *cause) {
    if (cause != NULL) snprintf(p->agenda.cause, sizeof p->agenda.cause, "%s", cause);
    p->agenda.cause_ns = p->now;
}

void gw_agenda_set_patience(gw_peer *p, uint64_t until_ns) {
    p->agenda.patience_ns = until_ns;
}

void gw_agenda_set_proposal(gw_peer *p, uint64_t from_ns) {
    p->agenda.propose_at_ns = from_ns;
}

void gw_agenda_suspect_states(gw_peer *p) {
    p->agenda.states_suspected = true;
}

void gw_agenda_pause_at_boundary(gw_peer *p) {
    p->agenda.at_boundary = true;
}

bool gw_agenda_take_boundary(gw_peer *p) {
    bool asked = p->agenda.at_boundary;
    p->agenda.at_boundary = false;
    return asked;
}

void gw_agenda_clear(gw_peer *p) {
    p->agenda = (gw_agenda){0};
}

void gw_agenda_drop_change(gw_peer *p) {
    p->agenda.view_change = false;
}
