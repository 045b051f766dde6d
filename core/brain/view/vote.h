#ifndef GODWIT_CORE_BRAIN_VIEW_VOTE_H
#define GODWIT_CORE_BRAIN_VIEW_VOTE_H

#include "core/brain/state.h"

enum { GW_PATIENCE_MS = 2000 }; /* how long a proposal that one voted for may take */
void gw_votes_propose(gw_peer *p, gw_contact *from, const gw_message *message); /* somebody proposes a view */
void gw_votes_give(gw_peer *p, const gw_view *view, uint64_t base_epoch);
/* Gives up this peer's own proposal, if it has one. */
void gw_votes_drop_attempt(gw_peer *p);
void gw_votes_freeze(gw_peer *p);
/* Frozen for longer than a proposal usually takes: people are told that it waits. */
bool gw_votes_wait_long(const gw_peer *p);
void gw_votes_frozen(gw_peer *p, const gw_event *event);
/* FREEZE, where this peer voted while a step was applied: an apply is never interrupted. */
void gw_votes_freeze_after_apply(gw_peer *p);
void gw_votes_send_if_ready(gw_peer *p);
void gw_votes_vote(gw_peer *p, const gw_contact *from,
                   gw_message *message); /* at the proposer; takes the report */

#endif
