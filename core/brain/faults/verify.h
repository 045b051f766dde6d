#ifndef GODWIT_CORE_BRAIN_FAULTS_VERIFY_H
#define GODWIT_CORE_BRAIN_FAULTS_VERIFY_H

#include "core/brain/state.h"

void gw_verify_deal(gw_peer *p, gw_action *deal); /* chooses */
void gw_verify_reduce(gw_peer *p, const gw_event *sealed, gw_action *reduce);
/* Looks at the table of a right sum. True: two members differ, and it must not be applied. */
bool gw_verify_disputes(gw_peer *p, const gw_event *reduced);
void gw_verify_probed(gw_peer *p, const gw_event *event);
void gw_verify_receive_witness(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_verify_link_up(gw_peer *p,
                       const gw_contact *contact); /* says again what the old link may have lost */
/* At a state that no step follows (gw_save.looks), before its hashes are told: gw_saves_sound. Not while
 * shards are computed: the node does so when no deal is worked at. */
void gw_verify_look(gw_peer *p);
/* The event LOOKED. Returns whether it says that the state is sound. */
bool gw_verify_looked(gw_peer *p, const gw_event *event);
/* The rows of a right sum: whether all members started the step from one state. Names the odd ones out. */
bool gw_verify_states_agree(gw_peer *p, const int64_t *slots);
/* At a proposer, of what it is about to install: those whose state of the same step it does not go on from.
 */
void gw_verify_name_outvoted(gw_peer *p, gw_install *install);
/* Of what is installed here. False: this peer is one of these, or was found to compute other bits, was so
 * before, and ends. `hears`: what gw_verdicts_take_over returned for it. */
bool gw_verify_accepts(gw_peer *p, const gw_install *install, bool hears);
/* No shard is computed once more: this peer is frozen. */
void gw_verify_freeze(gw_peer *p);
/* A view is installed or the step is over: nobody's contributions are in doubt any more. */
void gw_verify_forget_doubt(gw_peer *p);
void gw_verify_damaged(gw_peer *p); /* this peer's state is no longer what it was */
/* What this peer gave to a sum is no longer what it had added up. It may end by it. */
void gw_verify_own_part(gw_peer *p);
/* `peer` (NULL = not known who) computed, held or sent other bits than it should have: for people. */
void gw_verify_report(gw_peer *p, const gw_peer_id *peer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds to `doubted` (of ranks) whose accumulators must be dropped: those that a vote tells are in doubt. */
void gw_verify_doubted(const gw_attempt *attempt, gw_set *doubted);

#endif
