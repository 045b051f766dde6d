/* Voting: a peer that votes freezes, and its vote reports what it holds (core/README.md, section 5,
 * "Repair"). */
#include "core/brain/view/vote.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/faults/verify.h"
#include "core/brain/members/contacts.h"
#include "core/brain/members/links.h"
#include "core/brain/outbox.h"
#include "core/brain/record.h"
#include "core/brain/save/checkpoint.h"
#include "core/brain/save/kept.h"
#include "core/brain/self.h"
#include "core/brain/state.h"
#include "core/brain/step/steps.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_JUMP_FAILURES = 2 }; /* failed loads of a later checkpoint after which this peer wants none */

/* The epoch after which this peer has given up what it proposed and did not install. While it waits for
 * votes, its present proposal is not given up, and it gives up nothing. */
static uint64_t given_up_since(const gw_peer *p) {
    return p->view.attempt.active ? p->view.ballot.highest : p->view.ballot.installed.epoch;
}

static void refuse(gw_peer *p, const gw_contact *to, const gw_message *about, gw_refusal why,
                   const gw_peer_id *unlinked) {
    gw_view *listed = malloc((p->view.ballot.later_count + 1) * sizeof *listed);
    GW_ASSERT_MEMORY(listed != NULL);
    uint32_t count = 0;
    if (p->view.current.epoch > 0 && why == GW_REFUSE_STALE) listed[count++] = p->view.current;
    if (p->view.ballot.majority && why == GW_REFUSE_UNLISTED && p->view.ballot.installed.epoch > 0)
        listed[count++] = p->view.ballot.installed;
    bool lives = count > 0;
    const gw_view_ref none = {0}, *state = p->state.present ? &p->view.state_view : &none;
    if (p->view.ballot.majority && why == GW_REFUSE_UNLISTED) {
        for (uint32_t i = 0; i < p->view.ballot.later_count; i++)
            if (gw_ballot_must_list(&p->view.ballot.later[i], about->propose.view))
                listed[count++] = p->view.ballot.later[i];
    }
    gw_message message = {.kind = GW_MSG_REFUSE,
                          .epoch = about->epoch,
                          .name = about->name,
                          .refuse.why = why,
                          .refuse.highest_epoch = p->view.ballot.highest,
                          .refuse.given_up_since = given_up_since(p),
                          .refuse.listed = listed,
                          .refuse.listed_count = count,
                          .refuse.lived = lives,
                          .refuse.state = *state};
    if (unlinked != NULL) message.refuse.unlinked = *unlinked;
    gw_peer_send(p, &to->id, &message);
    free(listed);
}

/* Whether the proposer is a stranger to the view this peer lives in. */
static bool is_stranger(const gw_peer *p, const gw_contact *from, const gw_message *m) {
    const gw_view_ref *base = &m->propose.base;
    if (p->view.current.epoch == 0) return false;
    if (gw_contacts_is_member(p, from)) return false;
    for (uint32_t i = 0; i < m->propose.absorbed_count; i++)
        if (gw_view_name_equal(&m->propose.absorbed[i], &p->view.current.name)) return false;
    /* A proposal that goes on from this peer's view is of a member that came back. If it goes on from a later
     * view, this peer is the one that is left behind. */
    bool later =
        base->epoch > p->view.current.epoch || (base->epoch == p->view.current.epoch &&
                                                gw_view_name_compare(&base->name, &p->view.current.name) > 0);
    bool goes_on = gw_view_name_equal(&base->name, &p->view.current.name) || later;
    for (uint32_t i = 0; i < m->propose.listed_count; i++) /* views with the same peers are listed once */
        goes_on |= gw_view_same_peers(&m->propose.listed[i], &p->view.current);
    if (p->view.ballot.majority && goes_on) return false;
    /* A proposal on the view for which this peer is frozen: its INSTALL has not come, and the proposer was
     * admitted to it meanwhile. */
    return !gw_view_name_equal(&base->name, &p->view.voted.name);
}

static const gw_peer_id *unlinked_member(gw_peer *p, const gw_view *view) {
    for (uint32_t i = 0; i < view->count; i++) {
        const gw_peer_id *id = &view->members[i].id;
        if (gw_peer_id_equal(id, &p->config.id)) continue;
        const gw_contact *contact = gw_peer_contact(p, id);
        bool old_member = p->view.current.epoch > 0 && gw_view_rank(&p->view.current, id) >= 0;
        if (contact != NULL && gw_links_path_broken(p, contact)) return id;
        if (contact != NULL && (old_member ? gw_links_lately(p, contact) : gw_links_admit(p, contact)))
            continue;
        return id;
    }
    return NULL;
}

static gw_refusal refusal_of(gw_ballot_answer answer) {
    if (answer == GW_BALLOT_UNLISTED) return GW_REFUSE_UNLISTED;
    return answer == GW_BALLOT_FULL ? GW_REFUSE_FULL : GW_REFUSE_OLD;
}

void gw_votes_drop_attempt(gw_peer *p) {
    for (uint32_t i = 0; i < GW_MAX_MEMBERS; i++) gw_report_free(p->view.attempt.reports[i]);
    free(p->view.attempt.listed);
    p->view.attempt = (gw_attempt){0};
}

void gw_votes_receive_proposal(gw_peer *p, const gw_contact *from, const gw_message *m) {
    const gw_view *view = m->propose.view;
    const gw_view_ref *base = &m->propose.base;
    if (view->epoch > p->view.ballot.highest) p->view.ballot.highest = view->epoch;
    if (!gw_peer_id_equal(&view->leader, &from->id) || !gw_hash_equal(&view->job, &p->job)) return;
    const gw_incarnation *life = &p->config.incarnation;
    if (gw_view_rank_of_life(view, &p->config.id, life->boot, life->nonce) < 0) return;
    if (p->phase == GW_AT_FROZEN && gw_view_name_equal(&view->name, &p->view.voted.name)) {
        gw_agenda_set_patience(p, p->now + gw_peer_ms(p, GW_PATIENCE_MS));
        p->view.vote_sent = false; /* the proposal came again, so the vote was lost */
        gw_votes_send_if_ready(p);
        return;
    }
    if (gw_view_name_equal(&view->name, &p->view.current.name)) return;
    if (!from->alive) {
        refuse(p, from, m, GW_REFUSE_DEAD, NULL);
        return;
    }
    if (is_stranger(p, from, m)) {
        refuse(p, from, m, GW_REFUSE_STALE, NULL);
        return;
    }
    if (p->view.current.epoch == 0 && gw_view_name_is_none(&base->name) && gw_contacts_knows_flock(p)) {
        refuse(p, from, m, GW_REFUSE_BUSY, NULL); /* a flock runs, and no second one is founded beside it */
        return;
    }
    const gw_peer_id *unlinked = unlinked_member(p, view);
    if (unlinked != NULL) {
        refuse(p, from, m, GW_REFUSE_UNLINKED, unlinked);
        return;
    }
    gw_ballot_answer answer = gw_ballot_consider(&p->view.ballot, view, base->epoch, &base->name,
                                                 m->propose.listed, m->propose.listed_count);
    if (answer != GW_BALLOT_YES) {
        refuse(p, from, m, refusal_of(answer), NULL);
        return;
    }
    if (m->propose.check_state) gw_agenda_suspect_states(p);
    gw_votes_drop_attempt(p); /* a later proposal replaces this peer's own */
    if (!p->agenda.view_change && p->view.current.epoch > 0) gw_agenda_begin_change(p, NULL);
    gw_votes_give(p, view, base->epoch);
}

void gw_votes_give(gw_peer *p, const gw_view *view, uint64_t base_epoch) {
    gw_ballot_vote(&p->view.ballot, view, base_epoch);
    p->view.voted = *view;
    gw_agenda_set_patience(p, p->now + gw_peer_ms(p, GW_PATIENCE_MS));
    gw_votes_freeze(p);
}

/* Freezes for a vote: nothing of this step is claimed, stolen, reduced or applied any more until a view is
 * installed. */
void gw_votes_freeze(gw_peer *p) {
    gw_saves_abandon(p);
    if (p->phase != GW_AT_FROZEN) p->view.frozen_since_ns = p->now;
    p->phase = GW_AT_FROZEN;
    p->view.frozen = p->view.vote_sent = false;
    gw_steps_freeze(p);
    gw_verify_freeze(p);
    p->view.freeze_token = 0;
    if (p->view.ballot.majority) gw_peer_record_write(p);
    p->view.freeze_after_apply = p->step.applying;
    if (p->step.applying) return; /* an apply is never interrupted: FREEZE follows it */
    gw_peer_act(p, GW_ACT_FREEZE)->token = p->view.freeze_token = gw_peer_token(p);
}

void gw_votes_freeze_after_apply(gw_peer *p) {
    if (!p->view.freeze_after_apply || p->step.applying || p->phase == GW_AT_OVER) return;
    p->view.freeze_after_apply = false;
    gw_peer_act(p, GW_ACT_FREEZE)->token = p->view.freeze_token = gw_peer_token(p);
}

bool gw_votes_wait_long(const gw_peer *p) {
    return p->phase == GW_AT_FROZEN && p->now >= p->view.frozen_since_ns + gw_peer_ms(p, GW_PATIENCE_MS);
}

void gw_votes_frozen(gw_peer *p, const gw_event *event) {
    if (event->token != p->view.freeze_token) return;
    p->view.freeze_token = 0;
    p->view.frozen = true;
    gw_steps_frozen(p, event);
    gw_set_free(&p->view.held);
    gw_set_free(&p->view.claimed);
    if (event->frozen.held != NULL && event->frozen.claimed != NULL && !event->frozen.poisoned) {
        p->view.held = gw_set_copy(event->frozen.held);
        p->view.claimed = gw_set_copy(event->frozen.claimed);
    }
    if (p->agenda.states_suspected && p->state.present) gw_verify_look(p);
}

/* Whether this peer holds the state of the view that it installed last. */
static bool has_latest(const gw_peer *p) {
    return p->state.present && gw_view_name_equal(&p->view.state_view.name, &p->view.ballot.installed.name);
}

/* Whether this peer has just failed to load a checkpoint and can go on from a state instead. With exact sums
 * any voter's state will do: another voter's load of the same checkpoint may always end after a new view was
 * asked for, so that its failure is not counted there. With float sums an older state will not do. */
static bool failed_to_load(const gw_peer *p) {
    const gw_hash none = {0};
    bool checkpoint = !gw_hash_equal(&p->view.failed_root, &none);
    return checkpoint && p->view.load_failures >= MOST_JUMP_FAILURES && (!p->config.fast || has_latest(p));
}

/* The least step of the checkpoints that a vote reports. They are those after the state and those from the
 * newest whole one on, as the state may have a rival, and a later checkpoint may be whole with what others
 * have. With exact sums they begin with the oldest kept one, which others may have from a peer that is
 * convicted. A peer that knows of no whole checkpoint reports all. */
static uint64_t least_told(const gw_peer *p) {
    if (!p->state.present || p->save.saved_step == UINT64_MAX || !gw_kept_knows_lineage(p)) return 0;
    uint64_t least = p->save.saved_step <= p->state.step ? p->save.saved_step : p->state.step + 1;
    for (uint32_t i = 0; i < p->save.kept_count && !p->config.fast; i++)
        if (p->save.kept[i].step < least) least = p->save.kept[i].step;
    return least;
}

static gw_report *make_report(const gw_peer *p) {
    gw_report *r = calloc(1, sizeof *r);
    GW_ASSERT_MEMORY(r != NULL);
    r->has_state = p->state.present;
    /* The peer may never have got the last state of the view. */
    bool has_end =
        p->state.present && p->state.step == p->state.end_step && (!p->config.fast || has_latest(p));
    r->ended = p->state.ended && has_end;
    r->stopped = p->state.stopped && has_end;
    r->unwritable = p->save.unwritable;
    r->fresh = p->config.fresh;
    r->load_failed = failed_to_load(p);
    r->step = p->state.step;
    r->fingerprint = p->state.fingerprint;
    const gw_checkpoint_ref whole = gw_kept_whole(p);
    r->whole_step = whole.step;
    r->whole_root = whole.root;
    if (p->state.present) r->lineage = p->save.lineage;
    if (p->state.present) r->best = p->state.best;
    r->installed_epoch = p->state.present ? p->view.state_view.epoch : p->view.ballot.installed.epoch;
    r->installed = p->state.present ? p->view.state_view.name : p->view.ballot.installed.name;
    const gw_view_ref installed = {.epoch = p->view.ballot.installed.epoch,
                                   .name = p->view.ballot.installed.name};
    const gw_view_ref *later = p->state.present ? &installed : &p->view.last_promise;
    if (later->epoch > r->installed_epoch) {
        r->promised_epoch = later->epoch;
        r->promised = later->name;
    }
    if (p->state.present && p->step.accumulator_step == p->state.step) {
        r->held = gw_set_copy(&p->view.held);
        r->claimed = gw_set_copy(&p->view.claimed);
    }
    r->failures = p->step.failures;
    r->speed = gw_steps_speed(p);
    r->orphans = p->inventory.orphans;
    if (p->faults.doubt.any && p->faults.doubt.step == p->state.step)
        memcpy(r->accused, p->faults.doubt.accused, sizeof r->accused);
    r->path_errors = p->faults.path_errors;
    r->heard_epoch = p->faults.heard_epoch;
    r->convictions = p->faults.convictions;
    r->recorded_epoch = p->faults.recorded_epoch;
    r->losses = p->members.deaths;
    uint64_t epoch = p->state.present ? gw_kept_epoch(p, p->view.state_view.epoch) : 0;
    r->inventory_count =
        gw_peer_inventory_tell(&p->inventory, epoch, least_told(p), r->inventory, GW_MAX_INVENTORY);
    return r;
}

static void count_vote(gw_peer *p, const gw_peer_id *voter, gw_report *report) {
    int rank = gw_view_rank(&p->view.attempt.view, voter);
    if (rank < 0 || p->view.attempt.reports[rank] != NULL) {
        gw_report_free(report);
        return;
    }
    p->view.attempt.reports[rank] = report;
}

void gw_votes_send_if_ready(gw_peer *p) {
    bool looks = p->step.reduce_token != 0 ||
                 p->faults.look_token != 0; /* the result may be that the state is damaged */
    bool busy = p->step.applying || looks || p->view.load_token != 0 || p->record.since_ns != 0;
    if (p->phase != GW_AT_FROZEN || !p->view.frozen || busy || p->view.vote_sent) return;
    bool own = gw_peer_id_equal(&p->view.voted.leader, &p->config.id);
    if (own && !p->view.attempt.active)
        return; /* the proposal was given up while the vote was made durable */
    p->view.vote_sent = true;
    gw_report *report = make_report(p);
    if (own) {
        count_vote(p, &p->config.id, report);
        return;
    }
    gw_message message = {
        .kind = GW_MSG_VOTE, .epoch = p->view.voted.epoch, .name = p->view.voted.name, .vote.report = report};
    gw_peer_send(p, &p->view.voted.leader, &message);
    gw_report_free(report);
}

void gw_votes_receive_vote(gw_peer *p, const gw_contact *from, gw_message *m) {
    if (!p->view.attempt.active || !gw_view_name_equal(&m->name, &p->view.attempt.view.name)) return;
    count_vote(p, &from->id, m->vote.report);
    m->vote.report = NULL;
}
