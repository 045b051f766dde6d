#ifndef GODWIT_CORE_BRAIN_FAULTS_VERDICTS_H
#define GODWIT_CORE_BRAIN_FAULTS_VERDICTS_H

#include "core/brain/state.h"

/* A member was found wrong in this view; what it has of more than `step` steps counts for nothing. */
void gw_verdicts_remember(gw_peer *p, const gw_peer_id *id, uint64_t step);
/* All that the reports of a proposal tell of and that has not been served yet. */
void gw_verdicts_unite(const gw_attempt *attempt, bool majority, gw_convictions *all);
/* This voter has heard that it was found wrong in that view, and has given up what it had then. */
bool gw_verdicts_has_heard(const gw_attempt *attempt, uint32_t rank, uint64_t epoch);
/* It is among these, and has not. */
bool gw_verdicts_count_against(const gw_attempt *attempt, const gw_convictions *all, uint32_t rank);
/* Makes these reports tell of convicted peers only what may be believed; *install loses convictions of who is
 * needed. */
void gw_verdicts_discount(const gw_attempt *attempt, bool majority, gw_install *install);
/* Once all convictions are there sets the spared checkpoints of *install. */
void gw_verdicts_spare(const gw_attempt *attempt, gw_install *install);
/* Of what is installed here. True: others have convicted this peer, which hears of it only now, and is not
 * to keep the state that it holds. */
/* *changed: the durable record is to be written. */
bool gw_verdicts_take_over(gw_peer *p, const gw_install *install, bool *changed);
/* What the durable record of this peer said. */
void gw_verdicts_open(gw_peer *p, const gw_convictions *convictions, uint64_t heard_epoch);
/* The durable record has what this peer has heard. */
void gw_verdicts_recorded(gw_peer *p);

#endif
