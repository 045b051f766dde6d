#ifndef GODWIT_CORE_BRAIN_MEMBERS_CONTACTS_H
#define GODWIT_CORE_BRAIN_MEMBERS_CONTACTS_H

#include "core/brain/state.h"

void gw_contacts_close(gw_peer *p);
gw_contact *gw_peer_contact(gw_peer *p, const gw_peer_id *id); /* NULL = unknown */
/* Returns the contact whose life has just ended, if that is what gossip tells. */
const gw_contact *gw_contacts_gossip_event(gw_peer *p, const gw_gossip_event *event);
void gw_contacts_link(gw_peer *p, const gw_event *event);
/* The message HELLO. Returns whether its sender runs this very job. */
bool gw_contacts_hello(gw_peer *p, gw_contact *from, const gw_message *message);
void gw_contacts_announce(gw_peer *p); /* keeps the own blob current */
/* One that fell silent: dials it, as a refusal would show that its process has ended. */
void gw_contacts_look_for(gw_peer *p, gw_contact *contact);
/* Of the view that this peer is in, in the life that is known of it. */
bool gw_contacts_is_member(const gw_peer *p, const gw_contact *contact);
/* The member of the installed view at `rank` lives, in the life that is a member. */
bool gw_contacts_member_lives(gw_peer *p, const gw_view *view, uint32_t rank);
/* This process has been linked to the life that gossip knows, or to one before it: what gossip has that life
 * say was said since. Of any other it may be a recording: what brings gossip can be replayed to a process
 * that has just begun (net/secure/packet.h), a link's handshake cannot. */
bool gw_contacts_has_met(const gw_contact *contact);
/* Alive, linked and greeted, in the life that is known: it can be asked. */
bool gw_contacts_greeted(const gw_contact *contact);
bool gw_contacts_same_job(const gw_peer *p, const gw_contact *contact);

/* A living peer of this job that has a view; whether there is one. */
bool gw_contacts_runs_this_job(const gw_peer *p, const gw_contact *contact);
bool gw_contacts_knows_flock(const gw_peer *p);

#endif
