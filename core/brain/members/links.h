#ifndef GODWIT_CORE_BRAIN_MEMBERS_LINKS_H
#define GODWIT_CORE_BRAIN_MEMBERS_LINKS_H

#include "core/brain/state.h"

/* Handles DATA_UP and DATA_DOWN. */
void gw_links_data(gw_peer *p, const gw_event *event);
/* Whether both links to a member stand, or are missing for so short a time that they may come back. */
bool gw_links_lately(gw_peer *p, const gw_contact *contact);
/* Whether this peer is linked to a contact as it must be to a peer that is admitted. */
bool gw_links_admit(const gw_peer *p, const gw_contact *contact);
/* Whether the data link to a contact stands, and not only for a moment. */
bool gw_links_carry(const gw_peer *p, const gw_contact *contact);
/* Whether a contact can be proposed: it is greeted, its data link stands, and it is not kept out of
 * proposals. */
bool gw_links_ready(const gw_peer *p, const gw_contact *contact);
/* Whether a data link to a living member is missing, for however short a time. */
bool gw_links_lack_data(gw_peer *p);
/* The first living member of the view to which a link has been missing for too long; NULL: there is none. */
const gw_contact *gw_links_missing(gw_peer *p);
/* Whether reductions between this peer and a contact go on failing although the links stand, so that one of
 * the two must leave the view. */
bool gw_links_path_broken(const gw_peer *p, const gw_contact *contact);
/* Counts a failure between this member and this peer. */
void gw_links_blame_path(gw_peer *p, const gw_peer_id *id);
/* Forgets the failures of the view's members, after a reduction without one. */
void gw_links_clear_paths(gw_peer *p);
/* The view has other members now, so that gw_links_missing examines them all. */
void gw_links_look_anew(gw_peer *p);
enum { GW_LINK_TEXT = 160 };
/* Writes the link to a contact that is missing, and why; returns `text`. */
const char *gw_links_describe(const gw_contact *contact, char *text, size_t capacity);
/* A peer of this job that could be in a view with this one if it had a data link; NULL: there is none. */
const gw_contact *gw_links_newcomer_without_data(const gw_peer *p);
/* Warns of data links that have been missing for long. */
void gw_links_consider(gw_peer *p);

#endif
