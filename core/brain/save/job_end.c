/* The end of the job as seen by a peer that missed it: the peer stood still or was cut off, was not admitted
 * in time, or lost the last message. It learns of the end from the last words of other peers (END, or their
 * metadata), from the final manifest that it has written itself, and from the fact that the processes of all
 * others have ended. */
#include "core/brain/save/job_end.h"

#include "core/brain/commit.h"
#include "core/brain/job_state.h"
#include "core/brain/members/contacts.h"
#include "core/brain/outbox.h"
#include "core/brain/save/final.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <inttypes.h>
#include <string.h>

/* A peer waits --resume-timeout if the others have certainly ended, and this many times as long if they may
 * come back. */
enum { UNSURE_TIMES = 10 };

void gw_end_recorded(gw_peer *p, uint64_t step, uint64_t fingerprint, const gw_hash *root, bool stopped,
                     bool unsaved) {
    p->save.end = (gw_end){.known = true,
                           .stopped = stopped,
                           .unsaved = unsaved,
                           .step = step,
                           .fingerprint = fingerprint,
                           .root = *root};
}

void gw_end_forget(gw_peer *p) {
    p->save.end = (gw_end){0};
}

/* Notes that the job has ended if the newest checkpoint on this peer's own disk is the job's last state. */
void gw_end_from_disk(gw_peer *p) {
    const gw_inventory *newest = gw_peer_inventory_newest(&p->inventory);
    if (newest != NULL && (newest->ended || newest->step >= p->config.steps))
        gw_end_recorded(p, newest->step, newest->fingerprint, &newest->root, false, false);
}

static void end_as_recorded(gw_peer *p, const char *why) {
    gw_job_state_name(p, p->save.end.step, p->save.end.fingerprint); /* gossip announces both */
    gw_commit_ended(p);
    p->save.end_sent = true; /* other peers may learn of the end from this one only */
    if (p->save.end.unsaved) {
        gw_final_unsaved(p, p->save.end.step, &p->save.end.root);
        return;
    }
    gw_peer_finish(p, p->save.end.stopped ? GW_FINISH_STOPPED : GW_FINISH_DONE, &p->save.end.root,
                   "step %" PRIu64 ", as recorded%s", p->save.end.step, why);
}

void gw_end_tell_others(gw_peer *p, const gw_hash *root) {
    gw_message message = gw_peer_about_view(p, GW_MSG_END);
    message.end.step = p->state.step;
    message.end.fingerprint = p->state.fingerprint;
    message.end.root = *root;
    message.end.stopped = p->state.stopped;
    message.end.unsaved = p->save.end.unsaved;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        bool member = p->view.current.epoch > 0 && gw_view_rank(&p->view.current, &c->id) >= 0;
        if (!member && c->linked && c->greeted) gw_peer_send(p, &c->id, &message);
    }
}

void gw_end_decided(gw_peer *p, const gw_install *with) {
    const gw_view *view = &p->view.attempt.view;
    gw_message message = {.kind = GW_MSG_END,
                          .epoch = view->epoch,
                          .name = view->name,
                          .end.step = with->step,
                          .end.fingerprint = with->fingerprint,
                          .end.root = with->root};
    for (uint32_t i = 0; i < view->count; i++)
        if (!gw_peer_id_equal(&view->members[i].id, &p->config.id))
            gw_peer_send(p, &view->members[i].id, &message);
    gw_end_recorded(p, with->step, with->fingerprint, &with->root, false, false);
    end_as_recorded(p, "");
}

void gw_end_receive(gw_peer *p, const gw_contact *from, const gw_message *message) {
    gw_contacts_receive_end(p, from, message);
    if (!gw_peer_awaits_view(p, &from->id, &message->name)) return;
    gw_end_recorded(p, message->end.step, message->end.fingerprint, &message->end.root, message->end.stopped,
                    message->end.unsaved);
    end_as_recorded(p, "");
}

/* With float sums other peers may have made the last steps again without this one, and ended with another
 * state. */
bool gw_end_is_of(const gw_peer *p, const gw_contact *ended, uint64_t step, uint64_t fingerprint,
                  const gw_hash *root) {
    if (!p->config.fast) return true;
    if (ended->sent_end) return gw_hash_equal(&ended->end_root, root);
    return ended->step == step && ended->fingerprint == fingerprint && fingerprint != 0;
}

/* Whether a peer's last words say that the job has ended. They count if they came over its link, or came by
 * gossip and this process has met the peer. Otherwise they may be a recording of what the peer sent when the
 * job was stopped some time ago. */
static bool tells_of_end(const gw_peer *p, const gw_contact *c) {
    bool told = c->sent_end || (c->at_end && gw_contacts_has_met(c));
    return told && !c->alive && gw_contacts_same_job(p, c);
}

bool gw_end_with_others(gw_peer *p) {
    bool ended = false, saved = false, as_recorded = false;
    const gw_end *end = &p->save.end;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (!tells_of_end(p, c)) continue;
        ended = true;
        saved |= !c->unsaved;
        as_recorded |= end->known && gw_end_is_of(p, c, end->step, end->fingerprint, &end->root);
    }
    if (!ended) return false;
    if (saved) p->save.end.unsaved = false; /* the others have tried longer, and saved it */
    if (as_recorded)
        end_as_recorded(p, " here: the others have ended");
    else if (!saved)
        gw_final_unsaved(p, p->state.step, NULL);
    else
        gw_peer_finish(p, GW_FINISH_LEFT, NULL, "the others ended the job while this peer was away");
    return true;
}

/* Whether a view is lost: so many of its processes have ended that the rest can never be a majority of it
 * again unless some come back. Members that merely cannot be reached may go on without this peer, and count
 * as living. `without_tellers`: members that are bound to a view that is lost itself do not count. */
static bool is_lost(gw_peer *p, const gw_view *view, bool without_tellers);

/* Whether a peer is bound to a lost view: it votes for no proposal that does not list it. */
static bool tells_of_lost(gw_peer *p, const gw_peer_id *id) {
    for (uint32_t i = 0; i < p->view.learned_count; i++)
        if (gw_peer_id_equal(&p->view.learned_from[i], id) && is_lost(p, &p->view.learned[i], false))
            return true;
    return false;
}

static bool is_lost(gw_peer *p, const gw_view *view, bool without_tellers) {
    gw_view rest;
    rest.count = 0;
    for (uint32_t rank = 0; rank < view->count; rank++) {
        const gw_contact *c = gw_peer_contact(p, &view->members[rank].id);
        if (c != NULL) gw_contacts_look_for(p, c);
        bool gone = c != NULL && !c->alive && c->ended;
        bool bound = c != NULL && c->alive && without_tellers && tells_of_lost(p, &c->id);
        if (!gone && !bound) rest.members[rest.count++] = view->members[rank];
    }
    return !gw_view_majority(view, &rest);
}

/* Whether a view of which this peer needs a majority is lost, also because some of its other members are
 * bound to a lost one. A peer that was in no view so far needs the views that living peers have named when
 * they refused. */
static bool is_remnant(gw_peer *p) {
    const gw_view *own = &p->view.ballot.installed;
    if (!p->view.ballot.majority) return false;
    bool lost = own->epoch > 0 && is_lost(p, own, true);
    for (uint32_t i = 0; i < p->view.ballot.later_count; i++)
        lost |= is_lost(p, &p->view.ballot.later[i], true);
    for (uint32_t i = 0; i < p->view.learned_count && own->epoch == 0; i++) {
        const gw_contact *from = gw_peer_contact(p, &p->view.learned_from[i]);
        lost |= from != NULL && from->alive && is_lost(p, &p->view.learned[i], false);
    }
    return lost;
}

/* What is known of a group of peers. */
typedef struct company {
    bool met;   /* this peer has met one of them */
    bool lives; /* one of them lives */
    bool ended; /* the process of one of them has certainly ended */
} company;

static void add_company(company *of, const gw_contact *c) {
    of->met = true;
    of->lives |= c->alive;
    of->ended |= !c->alive && c->ended;
}

/* Whether this peer has missed a flock that has ended. That is the flock to which it waited to be admitted;
 * or, if it has heard of none, the peers with which it waited to found one, which may have founded it and
 * ended the job while this peer stood still or was cut off. Peers that wait for a flock themselves are none.
 * A host that is gone never refuses a connection. Therefore, if one process has certainly ended, the silence
 * of all others counts as their end. If all have merely fallen silent, this peer may be the one that is cut
 * off, and it waits. */
static bool has_missed_flock(gw_peer *p) {
    company flock = {0}, all = {0};
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (c->linked_life.boot == 0 || (!c->ran_this_job && !gw_contacts_same_job(p, c))) continue;
        gw_contacts_look_for(p, c);
        if (c->has_view && gw_contacts_has_met(c)) add_company(&flock, c);
        add_company(&all, c);
    }
    const company *missed = flock.met ? &flock : &all;
    return missed->ended && !missed->lives;
}

void gw_end_consider(gw_peer *p) {
    uint64_t patience_ns = p->config.resume_timeout_ns;
    bool hopeless = is_remnant(p) || (p->view.current.epoch == 0 && has_missed_flock(p));
    if (p->save.lonely_ns == 0) p->save.lonely_ns = p->now;
    if (!hopeless || p->save.hopeless_ns == 0) p->save.hopeless_ns = hopeless ? p->now : 0;
    /* With float sums the others may end with another state. */
    if (p->save.end.known && !p->config.fast && p->now >= p->save.lonely_ns + patience_ns) {
        end_as_recorded(p, " here: the others have ended");
    } else if (hopeless && p->now >= p->save.hopeless_ns + UNSURE_TIMES * patience_ns) {
        gw_peer_finish(
            p, GW_FINISH_FAILED, NULL,
            "the processes of the others have ended, or their hosts are silent, and for %.0f s too "
            "few have come back to go on: the job ended without this peer, or they all failed. "
            "Started again, this peer joins them, or goes on from a checkpoint with them",
            (double)(UNSURE_TIMES * patience_ns) * 1e-9);
    }
}

void gw_end_forget_loneliness(gw_peer *p) {
    p->save.lonely_ns = p->save.hopeless_ns = 0;
}
