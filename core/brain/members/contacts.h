#ifndef GODWIT_CORE_BRAIN_MEMBERS_CONTACTS_H
#define GODWIT_CORE_BRAIN_MEMBERS_CONTACTS_H

#include "core/brain/state.h"

void gw_contacts_close(gw_peer *p);
/* The contact with this id, or NULL. Valid until the next event of gossip or of a link. */
const gw_contact *gw_peer_contact(const gw_peer *p, const gw_peer_id *id);
/* Handles an event of gossip. If a life has ended by it, returns that peer's contact, otherwise NULL. */
const gw_contact *gw_contacts_gossip_event(gw_peer *p, const gw_gossip_event *event);
/* Handles LINK_UP and LINK_DOWN. */
void gw_contacts_link(gw_peer *p, const gw_event *event);
/* Handles the message HELLO. Returns whether its sender runs this very job. */
bool gw_contacts_receive_hello(gw_peer *p, const gw_contact *from, const gw_message *message);
/* Notes from END that the sender has ended, and from REFUSE which view the sender's state is of. */
void gw_contacts_receive_end(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_contacts_receive_refusal(gw_peer *p, const gw_contact *from, const gw_message *message);
/* The newest complete checkpoint of which this peer's disk has chunks, or, before it has heard of a
 * complete one, the newest that is here at all; UINT64_MAX: none. */
uint64_t gw_contacts_own_checkpoint(const gw_peer *p);
/* Gossips this peer's metadata if it has changed. */
void gw_contacts_announce(gw_peer *p);
/* Dials a peer that fell silent, as a refused connection shows that its process has ended. */
void gw_contacts_look_for(gw_peer *p, const gw_contact *contact);
/* Keeps a STORED of this peer for later: takes over what *message owns. Drops the one that is kept, if any.
 */
void gw_contacts_keep_early(gw_peer *p, const gw_contact *contact, gw_message *message);
void gw_contacts_drop_early(gw_peer *p, const gw_contact *contact);
/* Keeps a peer out of proposals: for `ms` milliseconds, twice as long each time in a row, and `most_ms` at
 * most. */
void gw_contacts_block(gw_peer *p, const gw_contact *contact, uint64_t ms, uint64_t most_ms);
void gw_contacts_unblock(gw_peer *p, const gw_contact *contact);
/* A peer asks to be admitted, until `until_ns` and from the view `offered` (none: by itself). Time 0: not
 * any more. */
void gw_contacts_note_request(gw_peer *p, const gw_contact *contact, uint64_t until_ns,
                              const gw_view_name *offered);
/* The view p->view.current is installed. `founded`: this peer was in none before. */
void gw_contacts_view_begins(gw_peer *p, bool founded);
/* Whether the life of a peer that gossip knows is a member of the installed view. */
bool gw_contacts_is_member(const gw_peer *p, const gw_contact *contact);
/* Whether the member at `rank` of a view lives, in the life that is the member. */
bool gw_contacts_member_lives(gw_peer *p, const gw_view *view, uint32_t rank);
/* Whether this process has been linked to the life of a peer that gossip knows, or to an earlier one. Then
 * the metadata that gossip brings is newer than that link. Otherwise it may be a recording: packets of gossip
 * can be replayed to a process that has just begun (net/secure/packet.h), a link's handshake cannot. */
bool gw_contacts_has_met(const gw_contact *contact);
/* Whether a peer is alive, linked and greeted in the life that gossip knows, so that it can be asked. */
bool gw_contacts_greeted(const gw_contact *contact);
/* Whether a peer runs this job, by its metadata and its HELLO. */
bool gw_contacts_same_job(const gw_peer *p, const gw_contact *contact);

/* Whether a peer lives, runs this job and has a view. */
bool gw_contacts_runs_this_job(const gw_peer *p, const gw_contact *contact);
/* Whether there is such a peer. */
bool gw_contacts_knows_flock(const gw_peer *p);

#endif
