#ifndef GODWIT_CORE_BRAIN_FAULTS_VERDICTS_H
#define GODWIT_CORE_BRAIN_FAULTS_VERDICTS_H

#include "core/brain/state.h"

/* Notes that a member was convicted in the installed view. What it has of steps after `step` counts for
 * nothing. */
void gw_verdicts_remember(gw_peer *p, const gw_peer_id *id, uint64_t step);
/* Unites the convictions in the reports of a proposal, except those that are served. */
void gw_verdicts_unite(const gw_attempt *attempt, bool majority, gw_convictions *all);
/* Whether a voter has heard of its conviction in the view of this epoch, and has given up what it had
 * then. */
bool gw_verdicts_has_heard(const gw_attempt *attempt, uint32_t rank, uint64_t epoch);
/* Whether a voter is among the convicted peers and has not heard of it. */
bool gw_verdicts_count_against(const gw_attempt *attempt, const gw_convictions *all, uint32_t rank);
/* Removes from the reports of convicted voters what does not count, and from *install the convictions of
 * voters whose states are needed. */
void gw_verdicts_discount(const gw_attempt *attempt, bool majority, gw_install *install);
/* Sets the spared checkpoints of *install, once it has all convictions. */
void gw_verdicts_spare(const gw_attempt *attempt, gw_install *install);
/* Takes the convictions of a view that is installed over. Returns true if others have convicted this peer,
 * which hears of it only now and must not keep its state. *changed: the durable record must be written. */
bool gw_verdicts_take_over(gw_peer *p, const gw_install *install, bool *changed);
/* Begins with what the durable record of this peer says. */
void gw_verdicts_open(gw_peer *p, const gw_convictions *convictions, uint64_t heard_epoch);
/* The durable record now has what this peer has heard. */
void gw_verdicts_recorded(gw_peer *p);

#endif
