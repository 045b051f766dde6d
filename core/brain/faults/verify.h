#ifndef GODWIT_CORE_BRAIN_FAULTS_VERIFY_H
#define GODWIT_CORE_BRAIN_FAULTS_VERIFY_H

#include "core/brain/state.h"

/* Chooses the shards of a deal that are computed twice. */
void gw_verify_deal(gw_peer *p, gw_action *deal);
/* Puts the results that the event SEALED brings into the check table of a reduction. */
void gw_verify_reduce(gw_peer *p, const gw_event *sealed, gw_action *reduce);
/* Examines the check table of a right sum. Returns true if two members differ, so that the sum must not be
 * applied. */
bool gw_verify_disputes(gw_peer *p, const gw_event *reduced);
/* Handle the event PROBED and the message WITNESS. */
void gw_verify_probed(gw_peer *p, const gw_event *event);
void gw_verify_receive_witness(gw_peer *p, const gw_contact *from, const gw_message *message);
void gw_verify_link_up(gw_peer *p,
                       const gw_contact *contact); /* says again what the old link may have lost */
/* Checks a state that no step follows (gw_save.looks), before its hashes are sent (gw_saves_sound). It is not
 * called while shards are computed, since the node checks only when it works at no deal. */
void gw_verify_look(gw_peer *p);
/* Handles the event LOOKED. Returns whether the state is sound. */
bool gw_verify_looked(gw_peer *p, const gw_event *event);
/* Whether all members have started the step from one state, by the slots of a right sum. If not, the odd ones
 * out are named, and a new view is asked for. */
bool gw_verify_states_agree(gw_peer *p, const int64_t *slots);
/* At a proposer: convicts in *install the voters that hold another state of the step from which the view goes
 * on. */
void gw_verify_name_outvoted(gw_peer *p, gw_install *install);
/* Handles the convictions of this peer in a view that is installed. Returns false if this peer has ended,
 * because it was convicted before. `hears`: what gw_verdicts_take_over returned. */
bool gw_verify_accepts(gw_peer *p, const gw_install *install, bool hears);
/* This peer freezes, and no longer waits for a PROBE. */
void gw_verify_freeze(gw_peer *p);
/* A view is installed or the step is over, so that no contributions are in doubt any more. */
void gw_verify_forget_doubt(gw_peer *p);
/* This peer's state is no longer what it was when it was made. It may end this peer. */
void gw_verify_damaged(gw_peer *p);
/* This peer's part of a sum is no longer what it had added up. It may end this peer. */
void gw_verify_own_part(gw_peer *p);
/* Tells people that `peer` (NULL: not known which) computed, held or sent wrong bits. */
void gw_verify_report(gw_peer *p, const gw_peer_id *peer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds the ranks to `doubted` whose accumulators must be dropped, because a vote says that they are in
 * doubt. */
void gw_verify_doubted(const gw_attempt *attempt, gw_set *doubted);

#endif
