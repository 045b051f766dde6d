#ifndef GODWIT_CORE_BRAIN_MEMBERS_POISON_H
#define GODWIT_CORE_BRAIN_MEMBERS_POISON_H

#include "core/brain/state.h"

/* What peers were at in this step is not known from now on: they may have got further. */
void gw_poison_stood_still(gw_peer *p);
void gw_poison_claim(gw_peer *p, const gw_event *event);
void gw_poison_linked(const gw_peer *p, gw_contact *contact, const gw_incarnation *life); /* anew */
void gw_poison_left_out(gw_contact *contact); /* of the view that goes on */
void gw_poison_claimed_by(gw_peer *p, gw_contact *from, const gw_message *message);
/* Takes over what the durable record said, and how the last life ended. */
void gw_poison_open(gw_peer *p, const gw_shard_deaths *recorded);
/* The view that is installed begins with these: all its members are careful in the same steps. */
void gw_poison_agree(gw_peer *p, const gw_shard_deaths *agreed);
/* Takes over what others know; steps before `step` are done. May end this peer. */
void gw_poison_learn(gw_peer *p, const gw_shard_deaths *losses, uint64_t step);
/* It died or gave up, and has not wished to leave. */
void gw_poison_member_fell(gw_peer *p, gw_contact *contact);
/* As this peer ends: tells the others why it cannot go on, where it failed. */
void gw_poison_farewell(gw_peer *p, bool failed);
void gw_poison_told(gw_contact *from, const gw_message *message);
void gw_poison_as_told(gw_contact *contact); /* after its blob was read: what its link told, if it did */
void gw_poison_last_words(gw_peer *p, gw_contact *contact); /* they may come after the news that it left */
/* This peer cannot go on because of this shard: "shard 7 of step 3 <why>". */
void gw_poison_give_up(gw_peer *p, uint32_t shard, const gw_event *event);
/* What this shard is computed from cannot be had just now, as the event tells: it is dealt again in another
 * view, unless this peer has given back too many. */
void gw_poison_give_back(gw_peer *p, uint32_t shard, const gw_event *event);
void gw_poison_forget(gw_peer *p, uint64_t step); /* steps before this one are over */

#endif
