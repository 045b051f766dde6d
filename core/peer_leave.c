/* Leaving by request. Where others go on, a peer leaves at the end of a step, with the next checkpoint. Where
 * nobody does, what it has computed would be lost with it: it waits for that to be saved, for as long as
 * --save-timeout says; the last one of all computes no more, and does nothing else meanwhile. Whoever comes
 * then gets the state from it before it goes. */
#include "core/peer_state.h"

#include "core/check.h"

#include <inttypes.h>

enum {
    LEAVE_MS = 10000, /* who leaves waits so long for a checkpoint, where others go on without one */
    AGAIN_MS = 5000,  /* between two saves that the last one begins */
};

/* This life of a member, which holds the view's state. */
static bool stays(const gw_peer *p, const gw_contact *contact) {
    int rank = gw_view_rank(&p->view, &contact->id);
    if (rank < 0 || contact->leaving || !contact->alive || !gw_contacts_is_member(p, contact)) return false;
    return gw_view_name_equal(&p->ready_name, &p->view.name) && gw_set_has(&p->ready, (uint32_t)rank);
}

bool gw_leave_somebody_stays(const gw_peer *p) {
    gw_view staying = {0};
    for (uint32_t i = 0; i < p->contact_count && staying.count < GW_MAX_MEMBERS; i++)
        if (stays(p, &p->contacts[i])) staying.members[staying.count++].id = p->contacts[i].id;
    if (p->ballot.majority) return gw_view_majority(&p->view, &staying); /* too few could not go on */
    return staying.count > 0;
}

bool gw_leave_waits(const gw_peer *p) {
    return p->leaving && p->view.count == 1 && p->phase == GW_AT_PAUSED;
}

uint64_t gw_leave_until(const gw_peer *p) {
    if (!p->leaving) return UINT64_MAX;
    uint64_t patience_ns = gw_peer_ms(p, LEAVE_MS);
    if (patience_ns < p->config.save_timeout_ns && !gw_leave_somebody_stays(p))
        patience_ns = p->config.save_timeout_ns;
    return p->leave_ns + patience_ns;
}

void gw_leave_asked(gw_peer *p) {
    if (p->leaving) return;
    p->leaving = true;
    p->leave_step = p->step;
    p->leave_ns = p->now;
    if (p->view.epoch == 0) {
        gw_peer_finish(p, GW_FINISH_LEFT, NULL, "left before it was admitted");
        return;
    }
    p->want_save = true;
    if (!gw_peer_is_leader(p)) gw_saves_remind(p);
    bool others = gw_leave_somebody_stays(p);
    const uint64_t second = 1000 * GW_MS;
    gw_peer_say(p, GW_INFO, "leaving at the end of a step%s, in %" PRIu64 " s at the latest%s",
                others ? "" : ", whose state is saved first",
                (gw_leave_until(p) - p->now + second - 1) / second, others ? "" : " (--save-timeout)");
}

/* Those who all leave wait for a step behind the one in which they were told to; the last one for what it has
 * made at last. */
static bool may_leave(const gw_peer *p) {
    uint64_t step = p->leave_step + (gw_leave_somebody_stays(p) ? 0 : 1);
    if (p->view.count == 1) step = p->step;
    bool saved = p->saved_step != UINT64_MAX && p->saved_step >= step && gw_kept_knows_course(p);
    return p->leaving && saved;
}

bool gw_leave_rest(gw_peer *p) {
    if (!p->leaving || p->view.count > 1) return false;
    if (gw_leave_at_boundary(p)) return true;
    p->phase = GW_AT_PAUSED;
    p->patience_ns = gw_leave_until(p) + gw_peer_ms(p, 1000);
    return true;
}

static void leave(gw_peer *p, const gw_hash *root) {
    gw_peer_finish(p, GW_FINISH_LEFT, root, "left at step %" PRIu64, p->step);
}

bool gw_leave_at_boundary(gw_peer *p) {
    if (!may_leave(p)) return false;
    leave(p, NULL);
    return true;
}

void gw_leave_saved(gw_peer *p, const gw_hash *root) {
    if (gw_leave_waits(p)) gw_waiting_at_pause(p); /* whoever came meanwhile */
    if (p->phase == GW_AT_PAUSED && may_leave(p)) leave(p, root);
}

static bool is_to_save(const gw_peer *p) {
    return gw_leave_waits(p) && !p->save.active;
}

void gw_leave_consider(gw_peer *p) {
    GW_CHECK(p->phase != GW_AT_OVER);
    if (p->now >= gw_leave_until(p)) {
        if (!gw_leave_somebody_stays(p))
            gw_peer_say(p, GW_WARN,
                        "leaving without a checkpoint of what was computed at last, as none was complete "
                        "within --save-timeout: it is computed again");
        gw_peer_finish(p, GW_FINISH_LEFT, NULL,
                       "left at step %" PRIu64 " without waiting for a checkpoint any longer", p->step);
    } else if (is_to_save(p) && p->now >= p->leave_again_ns) {
        p->leave_again_ns = p->now + gw_peer_ms(p, AGAIN_MS);
        gw_saves_open(p, false);
    }
}

uint64_t gw_leave_deadline(const gw_peer *p) {
    uint64_t until = gw_leave_until(p);
    return is_to_save(p) && p->leave_again_ns < until ? p->leave_again_ns : until;
}
