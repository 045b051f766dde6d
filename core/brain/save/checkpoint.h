#ifndef GODWIT_CORE_BRAIN_SAVE_CHECKPOINT_H
#define GODWIT_CORE_BRAIN_SAVE_CHECKPOINT_H

#include "core/brain/state.h"

/* Tells the leader, who may be new, of a stop or a checkpoint that this peer was asked for. */
void gw_saves_remind(gw_peer *p);
/* At the leader: decisions for the reduction that it is about to enter, bits of GW_DECIDE_. */
int64_t gw_saves_decide(const gw_peer *p);
void gw_saves_started(gw_peer *p); /* the event START */
/* A checkpoint, or a stop of the job, is asked for at the next boundary. */
void gw_saves_ask(gw_peer *p);
void gw_saves_ask_stop(gw_peer *p);
void gw_saves_close(gw_peer *p);
/* This peer is the last one of its view and leaves: it computes no more, and has what it computed saved. */
bool gw_saves_before_leaving(const gw_peer *p);
void gw_saves_open(gw_peer *p, bool final);
void gw_saves_abandon(gw_peer *p);
void gw_saves_free(gw_save *save);
void gw_saves_stored(gw_peer *p, const gw_event *event);
void gw_saves_sound(gw_peer *p); /* the state that was stored is still what it was when it was made */
void gw_saves_manifest_stored(gw_peer *p, const gw_event *event);
void gw_saves_message(gw_peer *p, gw_contact *from, gw_message *message); /* may keep what it points to */
void gw_saves_link_up(gw_peer *p, const gw_contact *contact); /* says again what the old link may have lost */
void gw_saves_consider(gw_peer *p);
/* Whether a member's disk takes checkpoints, as a sum or a view tells all members alike. */
void gw_saves_told_disk(gw_peer *p, uint32_t rank, bool unwritable);
bool gw_saves_anyone_writes(const gw_peer *p, int but); /* a member other than that rank; -1: any */
/* The leader ended the job and went before its word reached us: whoever has the final manifest is through as
 * well. */
bool gw_saves_end_without_leader(gw_peer *p, const gw_contact *gone);
void gw_saves_end(gw_peer *p); /* the job's last boundary has been reached */
uint64_t gw_saves_deadline(const gw_peer *p);
void gw_saves_disk_hangs(gw_peer *p); /* what was given to the disk will not end */

#endif
