/* The end of the job as seen by a peer that missed it: one that stood still or was cut off meanwhile, was not
 * admitted in time, or lost the last message. What tells it: the others' last words ("at the end"), the final
 * manifest that it wrote itself, and that all others' processes are gone. */
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

/* --resume-timeout for what is known to have ended, this many times it for what may come back. */
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

/* The newest checkpoint on this peer's own disk is the job's last state. */
void gw_end_from_disk(gw_peer *p) {
    const gw_inventory *newest = gw_peer_inventory_newest(&p->inventory);
    if (newest != NULL && (newest->ended || newest->step >= p->config.steps))
        gw_end_recorded(p, newest->step, newest->fingerprint, &newest->root, false, false);
}

static void end_as_recorded(gw_peer *p, const char *why) {
    gw_job_state_name(p, p->save.end.step, p->save.end.fingerprint); /* gossip tells of both */
    gw_commit_ended(p);
    p->save.end_sent = true; /* who knows of the end by nothing else hears it of this peer */
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

void gw_end_told(gw_peer *p, gw_contact *from, const gw_message *message) {
    memcpy(from->job, p->job.bytes, sizeof from->job);
    from->said_end = true;
    from->end_root = message->end.root;
    from->unsaved = message->end.unsaved;
    if (!gw_peer_awaits_view(p, &from->id, &message->name)) return;
    gw_end_recorded(p, message->end.step, message->end.fingerprint, &message->end.root, message->end.stopped,
                    message->end.unsaved);
    end_as_recorded(p, "");
}

/* With float sums others may have made the last steps again without this peer, and have ended otherwise. */
bool gw_end_is_of(const gw_peer *p, const gw_contact *ended, uint64_t step, uint64_t fingerprint,
                  const gw_hash *root) {
    if (!p->config.fast) return true;
    if (ended->said_end) return gw_hash_equal(&ended->end_root, root);
    return ended->step == step && ended->fingerprint == fingerprint && fingerprint != 0;
}

/* Its last words, which gossip brought or its link. Not those of gossip alone: to a process that never met it
 * they may be a recording of what it said as the job was stopped some time ago. */
static bool tells_of_end(const gw_peer *p, const gw_contact *c) {
    bool told = c->said_end || (c->at_end && gw_contacts_has_met(c));
    return told && !c->alive && gw_contacts_same_job(p, c);
}

bool gw_end_of_others(gw_peer *p) {
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
    if (saved) p->save.end.unsaved = false; /* by those who tried longer */
    if (as_recorded)
        end_as_recorded(p, " here: the others have ended");
    else if (!saved)
        gw_final_unsaved(p, p->state.step, NULL);
    else
        gw_peer_finish(p, GW_FINISH_LEFT, NULL, "the others ended the job while this peer was away");
    return true;
}

/* So many processes of this view have ended that the rest can never be a majority of it again, unless some
 * come back. Those that only cannot be reached may go on without this peer, and are waited for.
 * `without_tellers`: nor do those count who ask for a view that is lost itself. */
static bool is_lost(gw_peer *p, const gw_view *view, bool without_tellers);

/* Somebody who lives votes for nothing without a view that is lost. */
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
        gw_contact *c = gw_peer_contact(p, &view->members[rank].id);
        if (c != NULL) gw_contacts_look_for(p, c);
        bool gone = c != NULL && !c->alive && c->ended;
        bool bound = c != NULL && c->alive && without_tellers && tells_of_lost(p, &c->id);
        if (!gone && !bound) rest.members[rest.count++] = view->members[rank];
    }
    return !gw_view_majority(view, &rest);
}

/* One of the views that this peer needs a majority of is lost, also as some of the rest need one that is. Who
 * was in none so far needs those that others tell of, while these live. */
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

typedef struct company { /* of peers that this one has met: somebody lives; the process of somebody has ended
                          */
    bool met, lives, ended;
} company;

static void add_company(company *of, const gw_contact *c) {
    of->met = true;
    of->lives |= c->alive;
    of->ended |= !c->alive && c->ended;
}

/* The flock that this peer waited to be admitted to has ended; or, where it heard of none, those that it
 * waited with to found one have, who may have founded it, and ended the job, while this peer stood still or
 * was cut off. Who waits for a flock as this peer does is none. A host that is gone never refuses a
 * connection: where one process has ended for certain, the silence of all others counts as their end; where
 * all only fell silent, this peer may be the one that is cut off, and waits. */
static bool has_missed_flock(gw_peer *p) {
    company flock = {0}, all = {0};
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        gw_contact *c = &p->members.contacts[i];
        if (c->linked_life.boot == 0 || (!c->said_job && !gw_contacts_same_job(p, c))) continue;
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
    /* With float sums the others might end otherwise. */
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

void gw_end_hope(gw_peer *p) {
    p->save.lonely_ns = p->save.hopeless_ns = 0;
}
