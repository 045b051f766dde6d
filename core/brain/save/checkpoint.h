#ifndef GODWIT_CORE_BRAIN_SAVE_CHECKPOINT_H
#define GODWIT_CORE_BRAIN_SAVE_CHECKPOINT_H

#include "core/brain/state.h"

/* Sends the leader, which may be new, the requests for a stop or a checkpoint that this peer has got. */
void gw_saves_remind(gw_peer *p);
/* At the leader: its decisions for the reduction that it is about to enter, as bits GW_DECIDE_*. */
int64_t gw_saves_decide(const gw_peer *p);
void gw_saves_started(gw_peer *p); /* the event START */
/* Requests a checkpoint, or a stop of the job, at the next boundary. */
void gw_saves_ask(gw_peer *p);
void gw_saves_ask_stop(gw_peer *p);
void gw_saves_close(gw_peer *p);
/* Whether this peer is the last one of its view and leaves: it computes nothing more and has its results
 * saved. */
bool gw_saves_before_leaving(const gw_peer *p);
/* Begins a checkpoint of the present state; `final`: the state is the job's last one. */
void gw_saves_open(gw_peer *p, bool final);
/* Gives up the open checkpoint, if there is one; another follows. */
void gw_saves_abandon(gw_peer *p);
/* Whether the step in progress may not end yet, as a checkpoint of the state before it is being made that
 * must not be missed. */
bool gw_saves_hold_step(const gw_peer *p);
void gw_saves_free(gw_save *save);
void gw_saves_stored(gw_peer *p, const gw_event *event);
/* The state that was stored is still what it was when it was made. */
void gw_saves_sound(gw_peer *p);
void gw_saves_manifest_stored(gw_peer *p, const gw_event *event);
/* Handles a message about checkpoints. It may take what the message owns. */
void gw_saves_receive(gw_peer *p, const gw_contact *from, gw_message *message);
/* Sends a member again what the last link to it may have lost. */
void gw_saves_link_up(gw_peer *p, const gw_contact *contact);
void gw_saves_consider(gw_peer *p);
/* Notes whether a member's disk takes checkpoints, as a sum or a view tells all members alike. */
void gw_saves_note_disk(gw_peer *p, uint32_t rank, bool unwritable);
/* Whether the disk of a member other than rank `but` (-1: of any member) takes checkpoints. */
bool gw_saves_anyone_writes(const gw_peer *p, int but);
/* A member has left. If it was the leader, which ended the job before its END reached this peer, and this
 * peer has the final manifest, ends this peer as well and returns true. */
bool gw_saves_end_without_leader(gw_peer *p, const gw_contact *gone);
/* The job's last boundary has been reached. */
void gw_saves_end(gw_peer *p);
uint64_t gw_saves_deadline(const gw_peer *p);
/* The request that was given to the disk makes no progress. */
void gw_saves_disk_hangs(gw_peer *p);

#endif
