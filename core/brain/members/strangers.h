#ifndef GODWIT_CORE_BRAIN_MEMBERS_STRANGERS_H
#define GODWIT_CORE_BRAIN_MEMBERS_STRANGERS_H

#include "core/brain/state.h"

/* Whether the sender of a HELLO is a stranger: it runs another job, or this one with other options, or has no
 * way in common by which data may travel. */
bool gw_strangers_is_one(const gw_peer *p, const gw_message *hello);
/* Handles the HELLO of a stranger. It may end this peer. */
void gw_strangers_met(gw_peer *p, gw_contact *from, const gw_message *hello);
/* Decides, while this peer has no view, whether strangers turn it away. */
void gw_strangers_consider(gw_peer *p);

#endif
