#ifndef GODWIT_CORE_BRAIN_VIEW_INSTALL_H
#define GODWIT_CORE_BRAIN_VIEW_INSTALL_H

#include "core/brain/state.h"

/* Installs the view for which this peer is frozen. */
void gw_install_adopt(gw_peer *p, const gw_install *install);
/* Handle the messages INSTALL and READY, and the event LOADED. */
void gw_install_receive(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_install_receive_ready(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_install_loaded(gw_peer *p, const gw_event *event);
/* Begins the step if what it waits for is there. */
void gw_install_consider(gw_peer *p);
uint64_t gw_install_deadline(const gw_peer *p);
/* Sends a member again what it may have missed. */
void gw_install_link_up(gw_peer *p, const gw_contact *member);

#endif
