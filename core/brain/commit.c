/* Commit (core/README.md, section 5, "Joining, committing, ending"): when others may see a step.
 *
 * If a majority rules, a step that was applied here is shown (notice, metrics, the committed step of the
 * status) only when all members of this peer's view are known to hold the very state that came of it. A
 * view is a quorum of the one before, so every later view has one of these members among its voters and
 * goes on from that state or a later one. The agreement of a majority is not enough while another member
 * differs: if members of the majority died, the survivors could not tell which of the two states had been
 * shown.
 *
 * Members learn what the others hold from messages that they exchange anyway. The slots of the next
 * reduction carry the fingerprint of the state from which it started, so the hot path costs nothing, and a
 * step is shown with the sum of the next one. A vote reports the fingerprint, and a view whose members are
 * all ready holds one state. The answers of the members to a checkpoint carry it, which is how the last
 * step commits. A state that is not confirmed is dropped, and nothing of it is shown: the member fetches
 * the state from which the view goes on.
 *
 * With quorum `any` (exact sums) S_t does not depend on the view, and a step is committed when it is
 * applied. */
#include "core/brain/commit.h"

#include "core/base/assert.h"
#include "core/brain/outbox.h"
#include "core/brain/state.h"

static void show(gw_peer *p) {
    gw_action *notice = gw_peer_notice(p, GW_NOTICE_STEP, " ");
    notice->step = p->commit.uncommitted.step;
    notice->notice.committed.members = p->commit.uncommitted.members;
    notice->notice.committed.fingerprint = p->commit.uncommitted.fingerprint;
}

/* Requests the effects of the last step of the committed state, even if this peer has not made that step: the
 * peers that did may have died before the effects took place. The effects of earlier steps have taken place,
 * as a peer that holds a state has requested those of the step before, or has fetched the state from a peer
 * that had. A state that has changed in memory since it was applied has no effects. */
static void have_effects(gw_peer *p) {
    if (!p->config.effects || !p->state.present || p->state.step == 0 ||
        p->commit.effects_step == p->state.step)
        return;
    p->commit.effects_step = p->state.step;
    gw_action *commit = gw_peer_act(p, GW_ACT_COMMIT);
    commit->token = gw_peer_token(p);
    commit->step = p->state.step - 1;
}

static void note_committed(gw_peer *p) {
    p->commit.step = p->state.step;
    p->commit.fingerprint = p->state.fingerprint;
}

void gw_commit_effects(gw_peer *p, const gw_event *event) {
    if (event->outcome == GW_DONE) return;
    gw_peer_finish(p, GW_FINISH_FAILED, NULL, "a committed step's effects cannot take place here: %s",
                   gw_peer_why(event));
}

void gw_commit_applied(gw_peer *p) {
    GW_ASSERT(p->state.step > 0 && !p->commit.uncommitted.any);
    p->commit.uncommitted.any = true;
    p->commit.uncommitted.step = p->state.step - 1;
    p->commit.uncommitted.fingerprint = p->state.fingerprint;
    p->commit.uncommitted.members = p->view.current.count;
    if (!p->view.ballot.majority) gw_commit_agreed(p);
}

void gw_commit_agreed(gw_peer *p) {
    bool any = p->commit.uncommitted.any && p->commit.uncommitted.step + 1 == p->state.step;
    if (any && p->commit.uncommitted.fingerprint == p->state.fingerprint) show(p);
    p->commit.uncommitted.any = false;
    note_committed(p);
    have_effects(p);
}

void gw_commit_loaded(gw_peer *p) {
    p->commit.effects_step = 0;
}

void gw_commit_ended(gw_peer *p) {
    note_committed(p);
}
