#ifndef GODWIT_CORE_BRAIN_VIEW_INSTALL_H
#define GODWIT_CORE_BRAIN_VIEW_INSTALL_H

#include "core/brain/state.h"

void gw_install_adopt(gw_peer *p, const gw_install *install); /* of the view that it is frozen for */
void gw_install_told(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_install_member_ready(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_install_loaded(gw_peer *p, const gw_event *event);
void gw_install_consider(gw_peer *p); /* what a step that is about to begin waits for */
uint64_t gw_install_deadline(const gw_peer *p);
void gw_install_link_up(gw_peer *p, const gw_contact *member); /* says again what it may have missed */

#endif
