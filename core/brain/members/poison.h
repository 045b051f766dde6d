#ifndef GODWIT_CORE_BRAIN_MEMBERS_POISON_H
#define GODWIT_CORE_BRAIN_MEMBERS_POISON_H

#include "core/brain/state.h"

/* This process stood still: the claims that it knows of this step may be out of date. */
void gw_poison_note_gap(gw_peer *p);
/* Sends the members a claim of a worker of this peer (the event CLAIM). */
void gw_poison_claim(gw_peer *p, const gw_event *event);
/* A control link to this life of a peer stands. Claims may have been lost before. */
void gw_poison_linked(const gw_peer *p, gw_contact *contact, const gw_incarnation *life);
/* The installed view does not have this peer as a member. */
void gw_poison_left_out(gw_contact *contact);
/* Handles the message CLAIM. */
void gw_poison_receive_claim(gw_peer *p, const gw_contact *from, const gw_message *message);
/* Takes over the deaths in the durable record, and how the last life of this peer ended. */
void gw_poison_open(gw_peer *p, const gw_shard_deaths *recorded);
/* The installed view begins with these deaths, so that all its members report their claims in the same
 * steps. */
void gw_poison_agree(gw_peer *p, const gw_shard_deaths *agreed);
/* Takes over the deaths that others know of. Steps before `step` are done. It may end this peer. */
void gw_poison_unite(gw_peer *p, const gw_shard_deaths *losses, uint64_t step);
/* A peer died or gave up, without having been asked to leave. */
void gw_poison_note_death(gw_peer *p, gw_contact *contact);
/* This peer ends. If it `failed`, it sends FELL, which says why it cannot go on. */
void gw_poison_farewell(gw_peer *p, bool failed);
/* Handles the message FELL. */
void gw_poison_receive_last_words(gw_peer *p, const gw_contact *from, const gw_message *message);
/* A peer has ended: what its FELL said, if it came, replaces what its metadata says. */
void gw_poison_apply_last_words(gw_contact *contact);
/* A peer's metadata has changed: its last words may come after the news that it left. */
void gw_poison_note_last_words(gw_peer *p, gw_contact *contact);
/* A worker process of this peer was lost at a shard of the present step (the event WORKER_LOST). It may end
 * this peer. */
void gw_poison_worker_lost(gw_peer *p, const gw_event *event);
/* Ends this peer because it cannot compute this shard; the event says why. */
void gw_poison_give_up(gw_peer *p, uint32_t shard, const gw_event *event);
/* The input of this shard cannot be had now, or worker processes end at it; the event says why. The shard
 * is dealt again in another view, unless this peer has given back too many. */
void gw_poison_give_back(gw_peer *p, uint32_t shard, const gw_event *event);
/* Forgets claims and deaths of steps before this one, which are done. */
void gw_poison_forget(gw_peer *p, uint64_t step);

#endif
