#ifndef GODWIT_CORE_BRAIN_FAULTS_HALT_H
#define GODWIT_CORE_BRAIN_FAULTS_HALT_H

#include "core/brain/state.h"

/* Ends this peer because nobody can tell which bits are right, for the reason given, and sends HALT to all
 * other members of the view, which is the one that it lives in or has proposed. */
void gw_halt(gw_peer *p, const gw_view *view, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Handles the message HALT. */
void gw_halt_receive(gw_peer *p, const gw_contact *from, const gw_message *message);
/* Whether HALT may be on its way: a member has left in the middle of a sum, or of a dispute about one. */
bool gw_halt_may_come(const gw_peer *p);

#endif
