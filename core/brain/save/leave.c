/* Leaving by request. Where others go on, a peer leaves at the end of a step, with the next checkpoint. Where
 * nobody does, what it has computed would be lost with it: it waits for that to be saved, for as long as
 * --save-timeout says; the last one of all computes no more, and does nothing else meanwhile. Whoever comes
 * then gets the state from it before it goes. */
#include "core/brain/save/leave.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/job_state.h"
#include "core/brain/members/contacts.h"
#include "core/brain/outbox.h"
#include "core/brain/save/checkpoint.h"
#include "core/brain/save/kept.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <inttypes.h>

enum {
    LEAVE_MS = 10000, /* who leaves waits so long for a checkpoint, where others go on without one */
    AGAIN_MS = 5000,  /* between two saves that the last one begins */
    STILL_MS = 5000,  /* a stop that may hide that another peer has died */
};

/* This life of a member, which holds the view's state: its rank, or -1. */
static int rank_of_stayer(const gw_peer *p, const gw_contact *contact) {
    if (contact->leaving || !contact->alive || !gw_contacts_is_member(p, contact)) return -1;
    int rank = gw_view_rank(&p->view.current, &contact->id);
    return gw_set_has(&p->view.ready, (uint32_t)rank) ? rank : -1;
}

/* Too few for a majority could not go on. While another view is asked for nobody knows who holds the state.
 */
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

static uint64_t patience_ns(const gw_peer *p) {
    uint64_t least_ns = gw_peer_ms(p, LEAVE_MS);
    bool alone =
        p->save.want_stop || !gw_leave_somebody_stays(p); /* those who stay would not hear of the stop */
    bool longer = least_ns < p->config.save_timeout_ns && alone;
    return longer ? p->config.save_timeout_ns : least_ns;
}

uint64_t gw_leave_until(const gw_peer *p) {
    return p->save.leaving ? p->save.leave_ns + patience_ns(p) : UINT64_MAX;
}

/* A save that has failed has not shown that the next one would. */
bool gw_leave_comes_first(const gw_peer *p) {
    bool last = p->save.leaving && p->view.current.count == 1,
         tried = p->phase == GW_AT_PAUSED && p->save.leave_tried;
    return last && (p->save.open.active || !tried) && p->now < p->save.leave_ns + patience_ns(p) / 2;
}

void gw_leave_stood_still(gw_peer *p, uint64_t time_ns) {
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
    gw_peer_say(p, GW_INFO, "leaving at the end of a step%s, in %" PRIu64 " s at the latest%s",
                others ? "" : ", whose state is saved first",
                (gw_leave_until(p) - p->now + second - 1) / second,
                patience_ns(p) > gw_peer_ms(p, LEAVE_MS) ? " (--save-timeout)" : "");
}

static bool has_saved(const gw_peer *p, uint64_t step) {
    return p->save.saved_step != UINT64_MAX && p->save.saved_step >= step && gw_kept_knows_lineage(p);
}

/* Those who all leave wait for a step behind the one in which they were told to; the last one for what it has
 * made at last. */
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

/* Whoever asked this peer to stop the job was answered that it will be. */
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

/* What is saved is what the job is stopped at: no step's sum will say so. */
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
    if (!last && p->phase == GW_AT_PAUSED && may_leave(p)) leave(p, &done.root);
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
    bool saved = has_saved(p, p->state.step);
    if (!saved && !gw_leave_somebody_stays(p))
        gw_peer_say(p, GW_WARN,
                    "leaving without a checkpoint of what was computed at last, as none was complete "
                    "in time (--save-timeout, and 10 s at least): it is computed again");
    pass_on_stop(p);
    gw_peer_finish(p, GW_FINISH_LEFT, NULL, "left at step %" PRIu64 "%s", p->state.step,
                   saved ? "" : " without waiting for a checkpoint any longer");
}

bool gw_leave_consider(gw_peer *p) {
    GW_ASSERT(p->phase != GW_AT_OVER);
    if (p->now >= gw_leave_until(p)) {
        give_up(p);
        return false;
    }
    if (p->save.leaving && !p->state.present && gw_leave_somebody_stays(p)) {
        leave(p, NULL); /* others would wait until it has what it does not need */
        return false;
    }
    if (!is_to_save(p) || p->now < p->save.leave_again_ns) return false;
    p->save.leave_again_ns = p->now + gw_peer_ms(p, AGAIN_MS);
    return true;
}

uint64_t gw_leave_deadline(const gw_peer *p) {
    uint64_t until = gw_leave_until(p);
    return is_to_save(p) && p->save.leave_again_ns < until ? p->save.leave_again_ns : until;
}
