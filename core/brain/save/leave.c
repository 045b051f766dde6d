/* Leaving at the user's request. If other peers go on, a peer leaves at the end of a step, with the next
 * checkpoint. If none does, its results would be lost with it, so it waits until they are saved, for at most
 * --save-timeout. The last peer of all computes nothing more while it waits. A peer that comes to it
 * meanwhile gets the state from it before it leaves. If all members leave at once, they leave when the
 * checkpoint of the step that they were told in is complete, from the middle of the next one.
 *
 * Kubernetes, Slurm and docker stop ask a process to end and kill it some time later. For that reason the
 * last peer does not finish a step that takes longer than --grace: it saves the state before that step, if
 * that is not saved yet, and leaves. */
#include "core/brain/save/leave.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/job_state.h"
#include "core/brain/members/contacts.h"
#include "core/brain/outbox.h"
#include "core/brain/save/checkpoint.h"
#include "core/brain/save/holders.h"
#include "core/brain/save/kept.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <inttypes.h>

enum {
    LEAVE_MS = 10000, /* how long a leaving peer waits for a checkpoint if others go on without one */
    AGAIN_MS = 5000,  /* between two checkpoints that the last peer begins */
    STILL_MS = 5000,  /* a pause of this process that is long enough to hide the death of another peer */
};

/* The rank of a contact if it is a member in this life, holds the view's state and does not leave; otherwise
 * -1. */
static int rank_of_stayer(const gw_peer *p, const gw_contact *contact) {
    if (contact->leaving || !contact->alive || !gw_contacts_is_member(p, contact)) return -1;
    int rank = gw_view_rank(&p->view.current, &contact->id);
    return gw_set_has(&p->view.ready, (uint32_t)rank) ? rank : -1;
}

/* The members that stay must be able to go on: fewer than a majority could not. While the view changes it is
 * not known which members hold the state, and none counts. */
bool gw_leave_somebody_stays(const gw_peer *p) {
    bool stays[GW_MAX_MEMBERS] = {false}, changes = p->agenda.view_change || p->phase == GW_AT_FROZEN;
    if (changes || !gw_view_name_equal(&p->view.ready_name, &p->view.current.name)) return false;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        int rank = rank_of_stayer(p, &p->members.contacts[i]);
        if (rank >= 0) stays[rank] = true;
    }
    gw_view staying = {0}; /* by rank */
    for (uint32_t rank = 0; rank < p->view.current.count; rank++)
        if (stays[rank]) staying.members[staying.count++] = p->view.current.members[rank];
    return p->view.ballot.majority ? gw_view_majority(&p->view.current, &staying) : staying.count > 0;
}

/* The end of the time in which a step has to end that this peer waits for. */
static uint64_t grace_end(const gw_peer *p) {
    return p->save.leave_ns + p->config.grace_ns;
}

/* The sum of the step is not complete, and the state is that before the step. */
static bool computes(const gw_peer *p) {
    return p->phase == GW_AT_COMPUTING || p->phase == GW_AT_SEALING;
}

/* Whether this peer, without others, leaves from the middle of its step. How long the step takes is judged
 * by the one before it; a first step is waited for as long as the time lasts. */
static bool gives_step_up(const gw_peer *p) {
    bool alone =
        p->save.leaving && p->config.grace_ns != 0 && p->view.current.count == 1 && !p->save.want_stop;
    if (!alone || !computes(p)) return false;
    return p->now >= grace_end(p) || p->step.begun_ns + p->step.last_ns > grace_end(p);
}

/* Whether this peer and all living members of its view leave, so that nobody will finish the step that
 * they compute: once their checkpoint is complete, they do not wait for its end. */
static bool all_leave_in_step(const gw_peer *p) {
    if (!p->save.leaving || p->save.want_stop || !computes(p) || p->view.current.count < 2) return false;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *contact = &p->members.contacts[i];
        if (contact->alive && !contact->leaving && gw_contacts_is_member(p, contact)) return false;
    }
    return true;
}

static uint64_t patience_ns(const gw_peer *p) {
    uint64_t least_ns = gw_peer_ms(p, LEAVE_MS);
    /* With a request to stop the job, this peer waits as if it were alone: those that stay may not hear of
     * it. */
    bool alone = p->save.want_stop || !gw_leave_somebody_stays(p);
    bool longer = least_ns < p->config.save_timeout_ns && alone;
    return longer ? p->config.save_timeout_ns : least_ns;
}

uint64_t gw_leave_until(const gw_peer *p) {
    return p->save.leaving ? p->save.leave_ns + patience_ns(p) : UINT64_MAX;
}

/* After a save has failed, newcomers come first, as nothing shows that the next save would succeed. */
bool gw_leave_comes_first(const gw_peer *p) {
    bool last = p->save.leaving && p->view.current.count == 1,
         tried = p->phase == GW_AT_PAUSED && p->save.leave_tried;
    return last && (p->save.open.active || !tried) && p->now < p->save.leave_ns + patience_ns(p) / 2;
}

void gw_leave_note_gap(gw_peer *p, uint64_t time_ns) {
    if (!p->save.leaving || time_ns < gw_peer_ms(p, STILL_MS)) return;
    p->save.leave_ns += time_ns;
    if (gw_saves_before_leaving(p)) gw_agenda_set_patience(p, p->agenda.patience_ns + time_ns);
}

void gw_leave_asked(gw_peer *p) {
    if (p->save.leaving) return;
    p->save.leaving = true;
    p->save.leave_step = p->state.step;
    p->save.leave_ns = p->now;
    if (p->view.current.epoch == 0) {
        gw_peer_finish(p, GW_FINISH_LEFT, NULL, "left before it was admitted");
        return;
    }
    p->save.want_save = true;
    if (!gw_peer_is_leader(p)) gw_saves_remind(p);
    bool others = gw_leave_somebody_stays(p);
    const uint64_t second = 1000 * GW_MS;
    gw_peer_say(p, GW_INFO, "leaving %s, in %" PRIu64 " s at the latest%s",
                others ? "when a checkpoint of the flock is complete"
                       : "at the end of a step, whose state is saved first",
                (gw_leave_until(p) - p->now + second - 1) / second,
                patience_ns(p) > gw_peer_ms(p, LEAVE_MS) ? " (--save-timeout)" : "");
}

static bool has_saved(const gw_peer *p, uint64_t step) {
    return p->save.saved_step != UINT64_MAX && p->save.saved_step >= step && gw_kept_knows_lineage(p);
}

/* Whether this peer may leave: a late enough checkpoint is complete. If all members leave, it is one of a
 * step after the request; for the last peer, it is one of its state. */
static bool may_leave(const gw_peer *p) {
    uint64_t step = p->save.leave_step + (gw_leave_somebody_stays(p) ? 0 : 1);
    return p->save.leaving && has_saved(p, p->view.current.count == 1 ? p->state.step : step);
}

bool gw_leave_rest(gw_peer *p) {
    if (!p->save.leaving || p->view.current.count > 1) return false;
    if (gw_leave_at_boundary(p)) return true;
    p->phase = GW_AT_PAUSED;
    p->save.leave_tried = false;
    gw_agenda_set_patience(p, gw_leave_until(p) + gw_peer_ms(p, 1000));
    return true;
}

/* Passes a request to stop the job on, because its sender has been answered that the job will stop. */
static void pass_on_stop(gw_peer *p) {
    if (!p->save.want_stop || p->view.current.epoch == 0) return;
    gw_message stop = gw_peer_about_view(p, GW_MSG_ASK_STOP);
    gw_peer_send_members(p, &stop);
}

static void leave(gw_peer *p, const gw_hash *root) {
    pass_on_stop(p);
    gw_peer_finish(p, GW_FINISH_LEFT, root, "left at step %" PRIu64, p->state.step);
}

bool gw_leave_at_boundary(gw_peer *p) {
    if (!may_leave(p)) return false;
    leave(p, NULL);
    return true;
}

/* Stops the job at the state that has been saved. No sum of a step will say so any more. */
static void stop_here(gw_peer *p, const gw_hash *root) {
    gw_job_state_set_end(p, p->state.step, true, true);
    p->save.end_sent = true;
    gw_peer_finish(p, GW_FINISH_STOPPED, root, "step %" PRIu64, p->state.step);
}

bool gw_leave_saved(gw_peer *p) {
    const gw_completed done = p->save.completed;
    if (!done.any) return false;
    bool last = gw_saves_before_leaving(p);
    p->save.completed.any = false;
    if (!done.unsaved) p->save.leave_again_ns = 0;
    if (last && p->save.want_stop && may_leave(p)) {
        stop_here(p, &done.root);
        return false;
    }
    bool here = p->phase == GW_AT_PAUSED || gives_step_up(p) || all_leave_in_step(p);
    if (!last && here && may_leave(p)) leave(p, &done.root);
    return last;
}

void gw_leave_after_save(gw_peer *p) {
    if (p->phase == GW_AT_PAUSED && may_leave(p)) leave(p, &p->save.completed.root);
}

void gw_leave_loaded(gw_peer *p) {
    if (p->save.leaving) p->save.leave_step = p->state.step;
}

static bool is_to_save(const gw_peer *p) {
    return gw_saves_before_leaving(p) && !p->save.open.active;
}

void gw_leave_save_again(gw_peer *p) {
    if (!is_to_save(p)) return;
    p->save.leave_tried = true;
    gw_saves_open(p, false);
}

static void give_up(gw_peer *p) {
    char text[GW_HOLDERS_TEXT];
    bool saved = has_saved(p, p->state.step);
    if (!saved && !gw_leave_somebody_stays(p))
        gw_peer_say(p, GW_WARN,
                    "leaving without a checkpoint of the last results, as none was complete in time "
                    "(--save-timeout, and "
                    "10 s at least). %s; what is unsaved is computed again",
                    gw_holders_unsaved(p, text));
    pass_on_stop(p);
    gw_peer_finish(p, GW_FINISH_LEFT, NULL, "left at step %" PRIu64 "%s", p->state.step,
                   saved ? "" : " without waiting for a checkpoint any longer");
}

/* Leaves with the state before the step, or has it saved first. */
static void leave_step(gw_peer *p) {
    if (!p->save.step_given_up)
        gw_peer_say(p, GW_INFO,
                    "the step in progress is given up, as it would take longer than %.0f s (--grace)",
                    (double)p->config.grace_ns * 1e-9);
    p->save.step_given_up = true;
    if (may_leave(p)) {
        leave(p, NULL);
    } else if (!p->save.open.active && p->now >= p->save.leave_again_ns) {
        p->save.leave_again_ns = p->now + gw_peer_ms(p, AGAIN_MS);
        gw_saves_open(p, false);
    }
}

bool gw_leave_consider(gw_peer *p) {
    GW_ASSERT(p->phase != GW_AT_OVER);
    if (p->now >= gw_leave_until(p)) {
        give_up(p);
        return false;
    }
    if (p->save.leaving && !p->state.present && gw_leave_somebody_stays(p)) {
        leave(p, NULL); /* others would wait until this peer has a state that it does not need */
        return false;
    }
    if (gives_step_up(p)) {
        leave_step(p);
        return false;
    }
    if (!is_to_save(p) || p->now < p->save.leave_again_ns) return false;
    p->save.leave_again_ns = p->now + gw_peer_ms(p, AGAIN_MS);
    return true;
}

uint64_t gw_leave_deadline(const gw_peer *p) {
    uint64_t until = gw_leave_until(p);
    if (gives_step_up(p) && !p->save.open.active && p->save.leave_again_ns < until)
        return p->save.leave_again_ns;
    bool waits = p->save.leaving && computes(p) && p->view.current.count == 1;
    if (waits && p->config.grace_ns != 0 && p->now < grace_end(p) && grace_end(p) < until)
        return grace_end(p);
    return is_to_save(p) && p->save.leave_again_ns < until ? p->save.leave_again_ns : until;
}
