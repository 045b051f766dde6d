#ifndef GODWIT_CORE_BRAIN_SAVE_LEAVE_H
#define GODWIT_CORE_BRAIN_SAVE_LEAVE_H

#include "core/brain/state.h"

/* The user asks this peer to leave. */
void gw_leave_asked(gw_peer *p);
/* This process stood still for this time, which does not count: meanwhile the peers that stay may have
 * died. */
void gw_leave_note_gap(gw_peer *p, uint64_t time_ns);
/* Whether members stay that go on with the results of this peer. */
bool gw_leave_somebody_stays(const gw_peer *p);
/* The time until which this peer waits for a checkpoint; UINT64_MAX: it is not leaving. */
uint64_t gw_leave_until(const gw_peer *p);
/* Whether this peer is the last one, and first completes the step or the checkpoint in progress before it
 * admits newcomers. */
bool gw_leave_comes_first(const gw_peer *p);
/* At a boundary: leaves if it may. Returns whether it has left. */
bool gw_leave_at_boundary(gw_peer *p);
/* If this peer is the last one and leaves, it leaves or waits, computes nothing more, and true is
 * returned. */
bool gw_leave_rest(gw_peer *p);
/* Called as time passes. Returns true if this last peer is about to save its results once more. The caller
 * then admits the peers that have come, and after that calls gw_leave_save_again. */
bool gw_leave_consider(gw_peer *p);
void gw_leave_save_again(gw_peer *p);
/* Called after each event: a checkpoint that has become complete may let this peer leave. Returns true if it
 * is the last one. The caller then admits the peers that came meanwhile, and after that calls
 * gw_leave_after_save, by which the peer leaves if none has come. */
bool gw_leave_saved(gw_peer *p);
void gw_leave_after_save(gw_peer *p);
/* A state was loaded. If this peer was asked to leave before it knew of any step, it leaves after this
 * one. */
void gw_leave_loaded(gw_peer *p);
uint64_t gw_leave_deadline(const gw_peer *p);

#endif
