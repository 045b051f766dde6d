#ifndef GODWIT_CORE_BRAIN_VIEW_MAJORITY_H
#define GODWIT_CORE_BRAIN_VIEW_MAJORITY_H

#include "core/brain/state.h"

/* The base of a proposal of this peer. */
const gw_view *gw_majority_base(const gw_peer *p);
/* The view that this peer proposes with these members, of which it is one. */
gw_view gw_majority_view(const gw_peer *p, const gw_member *members, uint32_t count);
/* If a majority rules: whether these members, this peer included, can go on without any others. */
bool gw_majority_is_enough(gw_peer *p, const gw_member *members, uint32_t count);
/* Lists the views in an attempt to propose `view` on `base`: this peer's promises, and all learned views or
 * only those that do not stop the proposal. Returns false if there are more than a proposal can list. */
bool gw_majority_list(const gw_peer *p, gw_attempt *attempt, const gw_view *base, const gw_view *view,
                      bool all);
/* Finds the members of `view` that can be proposed without any others. Returns false if they are not
 * enough. */
bool gw_majority_find_enough(gw_peer *p, const gw_view *view, gw_view *enough);
/* Notes a view that the peer `from` has named in a refusal: it has promised the view, or (`lived`) lives in
 * it. */
void gw_majority_learn(gw_peer *p, const gw_peer_id *from, const gw_view *view, bool lived);
/* Moves the learned view at `index` forward to `at`, over the one there. */
void gw_majority_keep_learned(gw_peer *p, uint32_t index, uint32_t at);

#endif
