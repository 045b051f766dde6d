#ifndef GODWIT_CORE_BRAIN_SAVE_LEAVE_H
#define GODWIT_CORE_BRAIN_SAVE_LEAVE_H

#include "core/brain/state.h"

void gw_leave_asked(gw_peer *p);
/* For so long, in which who is to stay may have died: that does not count. */
void gw_leave_stood_still(gw_peer *p, uint64_t time_ns);
/* Members go on with what this peer, which leaves, has computed. */
bool gw_leave_somebody_stays(const gw_peer *p);
/* Until when it waits for a checkpoint; UINT64_MAX: it is not leaving. */
uint64_t gw_leave_until(const gw_peer *p);
/* It is the last one, computes no more, and has what it computed saved. */
bool gw_leave_waits(const gw_peer *p);
/* It is the last one, and what it makes, or is about to save, comes before whoever has come: there is time
 * for those when that is through. */
bool gw_leave_comes_first(const gw_peer *p);
/* True: it has left. */
bool gw_leave_at_boundary(gw_peer *p);
/* True: it is the last one and computes no more: it has left, or waits. */
bool gw_leave_rest(gw_peer *p);
/* A checkpoint that is not the job's last is through; `unsaved`: nobody could store all of it. */
void gw_leave_saved(gw_peer *p, const gw_hash *root, bool unsaved);
/* As time goes by. True: the last peer is about to save what it has made once more, with gw_leave_save_again; before
 * that the view admits whoever has come. */
bool gw_leave_consider(gw_peer *p);
void gw_leave_save_again(gw_peer *p);
/* The last peer has saved what it made: the view admits whoever came meanwhile, and then gw_leave_after_save has the
 * peer leave, if nobody has. */
bool gw_leave_has_saved(const gw_peer *p);
void gw_leave_after_save(gw_peer *p);
/* A state was loaded: a peer that was asked to leave before it knew of any step leaves after this one. */
void gw_leave_loaded(gw_peer *p);
uint64_t gw_leave_deadline(const gw_peer *p);

#endif
