#ifndef GODWIT_CORE_BRAIN_FAULTS_HALT_H
#define GODWIT_CORE_BRAIN_FAULTS_HALT_H

#include "core/brain/state.h"

/* Nobody can tell which bits are right, for the reason given: ends this peer, and, as far as they can be
 * reached, all members of the view, which is the one that it lives in or has proposed. */
void gw_halt(gw_peer *p, const gw_view *view, const char *format, ...) __attribute__((format(printf, 3, 4)));
void gw_halt_receive(gw_peer *p, const gw_contact *from, const gw_message *message);
/* A member that has left in the middle of a sum, or of a dispute about one, may have said why. */
bool gw_halt_may_come(const gw_peer *p);

#endif
