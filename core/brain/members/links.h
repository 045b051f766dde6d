#ifndef GODWIT_CORE_BRAIN_MEMBERS_LINKS_H
#define GODWIT_CORE_BRAIN_MEMBERS_LINKS_H

#include "core/brain/state.h"

void gw_links_data(gw_peer *p, const gw_event *event);
/* Linked to a member, by control and by data, or without it for so short a time that it will come back. */
bool gw_links_lately(gw_peer *p, const gw_contact *contact);
/* Linked as this peer has to be to whoever is admitted. */
bool gw_links_admit(const gw_peer *p, const gw_contact *contact);
/* Its data link stands, and not for a moment only. */
bool gw_links_carry(const gw_peer *p, const gw_contact *contact);
/* Greeted, its data link stands, and it is not kept out of proposals for a while. */
bool gw_links_ready(const gw_peer *p, const gw_contact *contact);
/* A data link to a member that lives is missing, for however short a time. */
bool gw_links_lack_data(gw_peer *p);
/* The first member of the view that lives and has been without a link for longer; NULL = none. */
const gw_contact *gw_links_missing(gw_peer *p);
/* Its links stand, but reductions with this member go on failing: one of the two must go. */
bool gw_links_path_broken(const gw_peer *p, const gw_contact *contact);
/* Something failed between this member and this peer; nothing has failed between the members of the view. */
void gw_links_blame_path(gw_peer *p, const gw_peer_id *id);
void gw_links_clear_paths(gw_peer *p);
/* The members of the view are others: gw_links_missing looks at them all. */
void gw_links_look_anew(gw_peer *p);
enum { GW_LINK_TEXT = 160 };
/* Which link to it is missing, and why; returns `text`. */
const char *gw_links_describe(const gw_contact *contact, char *text, size_t capacity);
/* Somebody of this job who could be in a view with this peer but for its data link; NULL = nobody. */
const gw_contact *gw_links_newcomer_without_data(const gw_peer *p);
void gw_links_consider(gw_peer *p);

#endif
