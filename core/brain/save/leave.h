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
/* It is the last one, and what it makes, or is about to save, comes before whoever has come: there is time
 * for those when that is through. */
bool gw_leave_comes_first(const gw_peer *p);
/* True: it has left. */
bool gw_leave_at_boundary(gw_peer *p);
/* True: it is the last one and computes no more: it has left, or waits. */
bool gw_leave_rest(gw_peer *p);
/* As time goes by. True: the last peer is about to save what it has made once more, with gw_leave_save_again; before
 * that the view admits whoever has come. */
bool gw_leave_consider(gw_peer *p);
void gw_leave_save_again(gw_peer *p);
/* After an event: whether a checkpoint that has become complete lets this peer leave. True: it is the last one, and the
 * view admits whoever came meanwhile; then gw_leave_after_save has the peer leave, if nobody has come. */
bool gw_leave_saved(gw_peer *p);
void gw_leave_after_save(gw_peer *p);
/* A state was loaded: a peer that was asked to leave before it knew of any step leaves after this one. */
void gw_leave_loaded(gw_peer *p);
uint64_t gw_leave_deadline(const gw_peer *p);

#endif
