#ifndef GODWIT_CORE_BRAIN_VIEW_VOTE_H
#define GODWIT_CORE_BRAIN_VIEW_VOTE_H

#include "core/brain/state.h"

enum { GW_PATIENCE_MS = 2000 }; /* time that a proposal may take after this peer has voted for it */
/* Handles the message PROPOSE. */
void gw_votes_receive_proposal(gw_peer *p, const gw_contact *from, const gw_message *message);
/* Votes for a view, proposed on a base of that epoch: notes the vote and freezes. */
void gw_votes_give(gw_peer *p, const gw_view *view, uint64_t base_epoch);
/* Gives up this peer's own proposal, if it has one. */
void gw_votes_drop_attempt(gw_peer *p);
void gw_votes_freeze(gw_peer *p);
/* Whether this peer has been frozen for longer than a proposal usually takes. */
bool gw_votes_wait_long(const gw_peer *p);
void gw_votes_frozen(gw_peer *p, const gw_event *event);
/* An APPLY has ended: asks for FREEZE if this peer voted meanwhile, as an APPLY is never interrupted. */
void gw_votes_freeze_after_apply(gw_peer *p);
/* Sends the vote if nothing that it waits for is missing. */
void gw_votes_send_if_ready(gw_peer *p);
/* At the proposer: handles the message VOTE, and takes its report. */
void gw_votes_receive_vote(gw_peer *p, const gw_contact *from, gw_message *message);

#endif
