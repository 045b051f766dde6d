/* Private to members: other rooms see contacts as constants. */
#ifndef GODWIT_CORE_BRAIN_MEMBERS_INSIDE_H
#define GODWIT_CORE_BRAIN_MEMBERS_INSIDE_H

#include "core/brain/state.h"

/* The same contact, to be changed. */
static inline gw_contact *gw_contacts_own(gw_peer *p, const gw_contact *contact) {
    return &p->members.contacts[contact - p->members.contacts];
}

#endif
