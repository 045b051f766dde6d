#ifndef GODWIT_CORE_BRAIN_SAVE_KEPT_H
#define GODWIT_CORE_BRAIN_SAVE_KEPT_H

#include "core/brain/state.h"

/* The epoch that is written into checkpoints of a view of this epoch: 0 with exact sums. */
uint64_t gw_kept_epoch(const gw_peer *p, uint64_t epoch);
/* The newest checkpoint that is known to be whole, or NULL. */
const gw_checkpoint_ref *gw_kept_newest(const gw_peer *p);
/* Warns once where peers that are gone have the newest complete checkpoint, or a part of it. */
void gw_kept_consider(gw_peer *p);
/* Whether that checkpoint is in the lineage of the state that this peer holds, or holds next. With float sums
 * it may be in another. */
bool gw_kept_knows_lineage(const gw_peer *p);
/* The newest checkpoint that is known to be whole and in that lineage; step 0: there is none. */
gw_checkpoint_ref gw_kept_whole(const gw_peer *p);
/* Whether a checkpoint is in the lineage of the state that this peer holds, as far as is known here. */
bool gw_kept_is_behind(const gw_peer *p, const gw_checkpoint_ref *one);
/* A checkpoint has been loaded. It is the newest complete one, and is kept beside the next. */
void gw_kept_resumed(gw_peer *p, uint64_t step, const gw_hash *root);
/* A checkpoint of this peer's state has been recorded, on the disks that can write. */
void gw_kept_recorded(gw_peer *p, const gw_checkpoint_ref *one);
/* The state of the view was loaded, with its lineage. */
void gw_kept_took_state(gw_peer *p);
/* Members of a view know that this checkpoint is whole. This peer may not have heard that it is complete. */
void gw_kept_note_whole(gw_peer *p, const gw_checkpoint_ref *whole);
/* All members have recorded this checkpoint, this peer included, and those at `ranks` have its chunks.
 * Earlier ones are deleted. */
void gw_kept_complete(gw_peer *p, uint64_t step, const gw_hash *root, const gw_set *ranks);
/* Handles a COMPLETE that is not about the checkpoint in progress. */
void gw_kept_receive_complete(gw_peer *p, const gw_message *message);
/* Makes room before a checkpoint is stored. `lacks_room`: the disk has refused to write for a while. `last`:
 * nobody else can store that checkpoint, which is the last one, or that of the best state, and is worth more
 * than those before the newest whole one. */
void gw_kept_make_room(gw_peer *p, bool lacks_room, bool last);
/* Whether gw_kept_make_room would delete checkpoints before the newest whole one, for want of room. */
bool gw_kept_has_older(const gw_peer *p);
/* The view goes on from the present state, though another one is on record as the job's last: deletes that
 * one. */
void gw_kept_give_up_end(gw_peer *p);
/* Gives up the checkpoints of more than `step` steps, except the spared ones. They count no more, in this
 * life or a later one, and the next complete checkpoint has them deleted. */
void gw_kept_give_up_after(gw_peer *p, uint64_t step, const gw_hash *spared, uint32_t count);
/* Begins with what the durable record says was given up in an earlier life. */
void gw_kept_open(gw_peer *p, const gw_given_up *before);
void gw_kept_close(gw_peer *p);
/* A view is installed. `holds`: this peer has its state. */
void gw_kept_view_begins(gw_peer *p, const gw_install *install, bool holds);
/* A checkpoint is whole, and in the lineage of the state that is loaded. */
void gw_kept_note_load(gw_peer *p, const gw_checkpoint_ref *whole);
/* The message READY about the installed view, with the newest checkpoint that is known to be whole (step 0:
 * none). */
gw_message gw_kept_ready(const gw_peer *p, const gw_checkpoint_ref *whole);
/* Sends READY to all members again, with a checkpoint that is now known to be whole and in the lineage of the
 * view's state. */
void gw_kept_tell_whole(gw_peer *p, const gw_checkpoint_ref *whole);
/* Makes a checkpoint count again that was given up: the flock has reached it, or goes on from it. */
void gw_kept_take_back(gw_peer *p, const gw_hash *root);

#endif
