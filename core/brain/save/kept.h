#ifndef GODWIT_CORE_BRAIN_SAVE_KEPT_H
#define GODWIT_CORE_BRAIN_SAVE_KEPT_H

#include "core/brain/state.h"

/* What a checkpoint of that view, and a state that is held in it, say of when they were made. */
uint64_t gw_kept_epoch(const gw_peer *p, uint64_t epoch);
const gw_checkpoint_ref *gw_kept_newest(const gw_peer *p); /* that is known to be whole, or NULL */
/* Whether that is behind the state that this peer holds, or holds next: with float sums it may be of another
 * lineage of the job. */
bool gw_kept_knows_lineage(const gw_peer *p);
/* The same, if it is behind that state; step 0: there is none. */
gw_checkpoint_ref gw_kept_whole(const gw_peer *p);
/* Whether a checkpoint that has been recorded here is behind the state that this peer holds. */
bool gw_kept_is_behind(const gw_peer *p, const gw_checkpoint_ref *one);
/* This checkpoint has been loaded: it is the newest complete one, and is kept beside the next. */
void gw_kept_resumed(gw_peer *p, uint64_t step, const gw_hash *root);
/* A checkpoint of this peer's state has been recorded, by whichever disks take it. */
void gw_kept_recorded(gw_peer *p, const gw_checkpoint_ref *one);
/* The state of this peer's view was loaded, with its lineage. */
void gw_kept_took_state(gw_peer *p);
/* As a view's members know. It may not have reached this peer that it is complete. */
void gw_kept_told_whole(gw_peer *p, const gw_checkpoint_ref *whole);
/* All members have recorded it, this peer among them: earlier ones go. */
void gw_kept_complete(gw_peer *p, uint64_t step, const gw_hash *root);
void gw_kept_complete_late(gw_peer *p, const gw_message *message); /* COMPLETE, not of the save under way */
/* Before a checkpoint is stored; `lacks_room`: on a disk that has refused some for a while. */
void gw_kept_make_room(gw_peer *p, bool lacks_room);
/* The view goes on from the present state though another one is on record as the job's end: that one goes. */
void gw_kept_give_up_end(gw_peer *p);
/* Those of more than `step` steps, but these: they are known no more, now or in a later life. The next
 * checkpoint that is complete has them deleted. */
void gw_kept_give_up_after(gw_peer *p, uint64_t step, const gw_hash *spared, uint32_t count);
/* `before`: what the durable record says was given up in an earlier life. */
void gw_kept_open(gw_peer *p, const gw_given_up *before);
void gw_kept_close(gw_peer *p);
/* A view is installed, whose state this peer holds, or not. */
void gw_kept_view_begins(gw_peer *p, const gw_install *install, bool holds);
/* This checkpoint is whole, and behind the state that is loaded. */
void gw_kept_note_load(gw_peer *p, const gw_checkpoint_ref *whole);
/* The message READY about the installed view, with the newest checkpoint that is known to be whole (step 0: none). */
gw_message gw_kept_ready(const gw_peer *p, const gw_checkpoint_ref *whole);
/* READY again, to all members, with what is known now to be whole, and behind the view's state. */
void gw_kept_tell_whole(gw_peer *p, const gw_checkpoint_ref *whole);
/* The flock has come to that one, or goes on from it: it was right. */
void gw_kept_take_back(gw_peer *p, const gw_hash *root);

#endif
