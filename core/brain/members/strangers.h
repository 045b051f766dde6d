#ifndef GODWIT_CORE_BRAIN_MEMBERS_STRANGERS_H
#define GODWIT_CORE_BRAIN_MEMBERS_STRANGERS_H

#include "core/brain/state.h"

bool gw_strangers_is_one(const gw_peer *p, const gw_message *hello);
void gw_strangers_met(gw_peer *p, gw_contact *from, const gw_message *hello); /* of one */
void gw_strangers_consider(gw_peer *p); /* without a view: is this peer turned away? */

#endif
