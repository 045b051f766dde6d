#ifndef GODWIT_CORE_BRAIN_VIEW_MAJORITY_H
#define GODWIT_CORE_BRAIN_VIEW_MAJORITY_H

#include "core/brain/state.h"

/* The view that a proposal of this peer goes on from. */
const gw_view *gw_majority_base(const gw_peer *p);
/* A proposal of these members, this peer among them: its next view. */
gw_view gw_majority_view(const gw_peer *p, const gw_member *members, uint32_t count);
/* Where a majority rules: whether these members (this peer among them) can go on without any others. */
bool gw_majority_is_enough(gw_peer *p, const gw_member *members, uint32_t count);
/* Fills the attempt's list for a proposal of `view` on `base`: all views that were learned of, or only those that do not
 * stop the proposal. False: there are more than it can list. */
bool gw_majority_list(const gw_peer *p, gw_attempt *attempt, const gw_view *base, const gw_view *view,
                      bool all);
/* Of the members of `view` those who may be proposed without any others. False: they are not enough. */
bool gw_majority_find_enough(gw_peer *p, const gw_view *view, gw_view *enough);
/* The peer `from` has told of this view, which it has promised or (`lived`) lives in. */
void gw_majority_learn(gw_peer *p, const gw_peer_id *from, const gw_view *view, bool lived);
/* the operator insists */
void gw_majority_keep_learned(gw_peer *p, uint32_t index, uint32_t at); /* moves one forward, over another */

#endif
