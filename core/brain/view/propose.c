/* Proposals: when a new view is needed, who proposes it, how refusals are answered, and what the view begins
 * with once all have voted (core/README.md, sections 3 and 5). */
#include "core/brain/view/propose.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/faults/halt.h"
#include "core/brain/faults/path_errors.h"
#include "core/brain/faults/verdicts.h"
#include "core/brain/faults/verify.h"
#include "core/brain/members/contacts.h"
#include "core/brain/members/links.h"
#include "core/brain/outbox.h"
#include "core/brain/save/checkpoint.h"
#include "core/brain/save/job_end.h"
#include "core/brain/self.h"
#include "core/brain/state.h"
#include "core/brain/step/retry.h"
#include "core/brain/view/install.h"
#include "core/brain/view/joiners.h"
#include "core/brain/view/majority.h"
#include "core/brain/view/repair.h"
#include "core/brain/view/vote.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STAGGER_MS = 150, /* each further candidate waits this much longer before it proposes */
    RESEND_MS = 300,  /* a proposal is sent again to peers that have not voted after this time */
    /* A peer that some member cannot reach is kept out of proposals for this long; each time in a row for
     * twice as long, up to the most. The LINKING times hold in founding and for newcomers, whose links come
     * up one by one. */
    BLOCK_MS = 3000,
    LINKING_BLOCK_MS = 100,
    MOST_BLOCK_MS = 96000,
    MOST_FOUNDING_BLOCK_MS = 3200,
    ANSWER_MS = 200, /* before it proposes, a peer waits this long for the answer to ASK_VIEW */
    /* Learned views that stop a proposal are set aside for the one time, and not again for the other. */
    ASIDE_MS = 2000,
    ASIDE_AGAIN_MS = 10000,
    ASK_AGAIN_MS = 400, /* first pause between two ASK_VIEW; it doubles up to the most */
    MOST_ASK_AGAIN_MS = 6400,
};

/* When a view is proposed. */

/* Raises the epoch that this peer votes above. A view that goes on from a checkpoint must be later than the
 * view that saved it, even if the record is lost or the checkpoint was brought here by hand. If a flock has
 * begun to count epochs anew, the view must also be later than those in which peers were convicted, because
 * epochs say what they have heard. */
static void promise_no_earlier_views(gw_peer *p) {
    gw_ballot *b = &p->view.ballot;
    for (uint32_t i = 0; i < p->inventory.count; i++)
        if (p->inventory.list[i].epoch > b->voted) b->voted = p->inventory.list[i].epoch;
    for (uint32_t i = 0; i < p->faults.convictions.count; i++)
        if (p->faults.convictions.list[i].epoch > b->voted) b->voted = p->faults.convictions.list[i].epoch;
    if (p->faults.heard_epoch > b->voted) b->voted = p->faults.heard_epoch;
    if (b->voted > b->highest) b->highest = b->voted;
}

/* After the rooms below: their records tell of views, too. */
void gw_views_open(gw_peer *p, const gw_ballot *ballot) {
    p->view.ballot = *ballot;
    p->view.learned = malloc(GW_MAX_LISTED * sizeof *p->view.learned);
    GW_ASSERT_MEMORY(p->view.learned != NULL);
    promise_no_earlier_views(p);
    if (p->view.ballot.later_count == 0) return;
    const gw_view *last = &p->view.ballot.later[p->view.ballot.later_count - 1];
    p->view.last_promise = (gw_view_ref){.epoch = last->epoch, .name = last->name};
}

void gw_views_close(gw_peer *p) {
    gw_ballot_close(&p->view.ballot);
    gw_votes_drop_attempt(p);
    gw_install_free(p->view.installed);
    gw_set_free(&p->view.ready);
    gw_set_free(&p->view.held);
    gw_set_free(&p->view.claimed);
    gw_set_free(&p->view.missing);
    free(p->view.learned);
}

/* The number of living members before this peer in the order of proposers: the leader, then by rank. */
static uint32_t own_position(gw_peer *p) {
    if (gw_peer_is_leader(p)) return 0;
    int leader = gw_view_rank(&p->view.current, &p->view.current.leader), own = gw_peer_own_rank(p);
    uint32_t position = gw_contacts_member_lives(p, &p->view.current, (uint32_t)leader) ? 1 : 0;
    for (int rank = 0; rank < own; rank++)
        if (rank != leader && gw_contacts_member_lives(p, &p->view.current, (uint32_t)rank)) position++;
    return position;
}

static uint32_t members_to_propose(gw_peer *p, gw_member *members);

/* If a majority rules: whether the peers that could be proposed are not enough. */
static bool is_stuck(gw_peer *p) {
    gw_member members[GW_MAX_MEMBERS];
    if (!p->view.ballot.majority || !p->agenda.view_change) return false;
    return !gw_majority_is_enough(p, members, members_to_propose(p, members));
}

/* Asks about a later view than this peer's own. If the metadata of some peer names one, this peer finds out
 * about it before it proposes. It asks members, which know what became of their view. If this side cannot go
 * on by itself, it asks every peer of the job, since all members may have been replaced, and nothing heals
 * two views of a majority. The answer may be lost, so this peer goes on after a while, and asks again, less
 * and less often, until it knows. Returns whether it waits for an answer. */
static bool asks_about_later_view(gw_peer *p) {
    if (p->now < p->view.ask_view_at_ns) return true;
    uint64_t known =
        p->view.current.epoch > p->view.view_answer_epoch ? p->view.current.epoch : p->view.view_answer_epoch;
    if (p->members.gossiped_epoch <= known) return false;
    bool stuck = is_stuck(p);
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *contact = &p->members.contacts[i];
        bool may_know =
            stuck ? gw_contacts_same_job(p, contact) : gw_view_rank(&p->view.current, &contact->id) >= 0;
        if (!may_know || !contact->alive || !contact->linked || !contact->has_view) continue;
        if (contact->epoch <= known) continue;
        bool again = contact->epoch <= p->view.ask_view_epoch;
        if (again && p->now < p->view.ask_view_again_ns) continue;
        gw_message ask = gw_peer_about_view(p, GW_MSG_ASK_VIEW);
        gw_peer_send(p, &contact->id, &ask);
        p->view.ask_view_pause_ms = again ? p->view.ask_view_pause_ms * 2 : ASK_AGAIN_MS;
        if (p->view.ask_view_pause_ms > MOST_ASK_AGAIN_MS) p->view.ask_view_pause_ms = MOST_ASK_AGAIN_MS;
        if (!again) p->view.ask_view_epoch = contact->epoch;
        p->view.ask_view_at_ns = p->now + gw_peer_ms(p, ANSWER_MS);
        p->view.ask_view_again_ns = p->now + gw_peer_ms(p, p->view.ask_view_pause_ms);
        return true;
    }
    return false;
}

static bool is_reachable(gw_peer *p, const gw_contact *contact) {
    return p->now >= contact->blocked_until_ns && gw_links_lately(p, contact) &&
           !gw_links_path_broken(p, contact);
}

/* Asks for a new view if the link to a living member stays missing, as the step would wait for ever for the
 * word and the sum of that member. */
static void consider_links(gw_peer *p) {
    char text[GW_LINK_TEXT];
    const gw_contact *contact = gw_links_missing(p);
    if (contact != NULL) gw_agenda_change_view(p, "%s", gw_links_describe(contact, text, sizeof text));
}

static uint32_t living_members(gw_peer *p, gw_member *members) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        if (!gw_contacts_member_lives(p, &p->view.current, rank)) continue;
        const gw_contact *contact = gw_peer_contact(p, &p->view.current.members[rank].id);
        if (contact == NULL || is_reachable(p, contact)) members[count++] = p->view.current.members[rank];
    }
    return count;
}

/* The living members that can be reached, and the peers that asked to be admitted. */
static uint32_t members_to_propose(gw_peer *p, gw_member *members) {
    return gw_joiners_add(p, members, living_members(p, members));
}

static bool missed_view(const gw_peer *p) {
    return p->view.missed.epoch > p->view.current.epoch;
}

/* The leader that is to repair the view that this peer is in, or should be in. */
static const gw_peer_id *repairer(const gw_peer *p) {
    return missed_view(p) ? &p->view.missed.leader : &p->view.current.leader;
}

/* Whether this peer asks that leader for a repair. It does not if its links to the leader are missing: a
 * leader that is cut off would repair the view by itself, without the rest. */
static bool asks_for_repair(gw_peer *p) {
    if (gw_peer_id_equal(repairer(p), &p->config.id)) return false;
    const gw_contact *contact = gw_peer_contact(p, repairer(p));
    return contact == NULL || gw_links_lately(p, contact);
}

/* The time of the next request for a repair: twice a second, and not before this peer would propose itself.
 * The leader may not have heard of the cause yet, and proposes at once when it is asked. */
static uint64_t ask_time(const gw_peer *p) {
    uint64_t due = p->view.repair_sent_ns == 0 ? 0 : p->view.repair_sent_ns + gw_peer_ms(p, 500);
    return due > p->agenda.propose_at_ns ? due : p->agenda.propose_at_ns;
}

static void ask_for_repair(gw_peer *p) {
    if (!asks_for_repair(p) || p->now < ask_time(p)) return;
    char cause[sizeof p->agenda.cause];
    memcpy(cause, p->agenda.cause, sizeof cause);
    p->view.repair_sent_ns = p->now;
    gw_message message = gw_peer_about_view(p, GW_MSG_REPAIR);
    if (missed_view(p)) {
        message.epoch = p->view.missed.epoch;
        message.name = p->view.missed.name;
    }
    message.repair.reason = cause;
    message.repair.check_state = p->agenda.states_suspected;
    gw_peer_send(p, repairer(p), &message);
}

static uint64_t propose_time(gw_peer *p) {
    uint64_t since = p->agenda.cause_ns > p->agenda.patience_ns ? p->agenda.cause_ns : p->agenda.patience_ns;
    uint64_t due = since + own_position(p) * gw_peer_ms(p, STAGGER_MS);
    if (gw_halt_may_come(p) && due < p->agenda.cause_ns + gw_peer_ms(p, GW_PATIENCE_MS))
        due = p->agenda.cause_ns + gw_peer_ms(p, GW_PATIENCE_MS);
    return due > p->agenda.propose_at_ns ? due : p->agenda.propose_at_ns;
}

/* Tells people that this peer has waited for a proposer for long. The proposer lives, and goes on sending. */
static void say_waits_for_proposer(gw_peer *p) {
    char id[GW_SHORT_TEXT];
    if (gw_votes_wait_long(p))
        gw_peer_waits(p, "waiting for view %" PRIu64 ", which peer %s has proposed", p->view.voted.epoch,
                      gw_peer_id_short(&p->view.voted.leader, id));
}

/* Whether the proposer of the view that this peer voted for is gone. A proposer that left may have installed
 * the view, so it counts as present until its link ends, over which its messages still come. */
static bool proposer_is_gone(gw_peer *p) {
    int rank = gw_view_rank(&p->view.voted, &p->view.voted.leader);
    GW_ASSERT(rank >= 0);
    const gw_contact *contact = gw_peer_contact(p, &p->view.voted.leader);
    return !gw_contacts_member_lives(p, &p->view.voted, (uint32_t)rank) &&
           (contact == NULL || !contact->linked ||
            !gw_member_is(&p->view.voted.members[rank], &contact->linked_life));
}

/* Asks for a new view if the proposer for which this peer is frozen, or pauses, is gone or takes too long. */
static void consider_voted(gw_peer *p) {
    if (p->phase == GW_AT_PAUSED && p->now >= p->agenda.patience_ns)
        gw_agenda_change_view(p, "paused at step %" PRIu64 ", but no view was proposed", p->state.step);
    if (p->phase != GW_AT_FROZEN || gw_peer_id_equal(&p->view.voted.leader, &p->config.id)) return;
    bool gone = proposer_is_gone(p);
    if (!gone && p->now < p->agenda.patience_ns) {
        say_waits_for_proposer(p);
        return;
    }
    if (p->view.current.epoch == 0) {
        p->phase = GW_AT_WAITING;
        return;
    }
    if (gone && p->agenda.patience_ns > p->now) gw_agenda_set_patience(p, p->now);
    gw_agenda_change_view(p, "view %" PRIu64 " was proposed but not installed", p->view.voted.epoch);
}

static void keep_attempt(gw_peer *p);

void gw_views_consider(gw_peer *p) {
    consider_voted(p);
    if (p->view.attempt.active) keep_attempt(p);
    /* A peer that stood still, or was cut off, may have been left out of the view without seeing anything
     * break. */
    if (!p->agenda.view_change && p->view.current.epoch > 0 && p->phase != GW_AT_OVER) {
        asks_about_later_view(p);
        if (p->phase != GW_AT_FROZEN) consider_links(p);
    }
    if (!p->agenda.view_change || p->view.attempt.active || p->step.applying || p->phase == GW_AT_OVER)
        return;
    GW_ASSERT(p->view.current.epoch > 0);
    ask_for_repair(p);
    if (p->now < propose_time(p) || asks_about_later_view(p)) return;
    gw_member members[GW_MAX_MEMBERS];
    gw_views_propose(p, members, members_to_propose(p, members));
}

uint64_t gw_views_deadline(const gw_peer *p) {
    uint64_t next = UINT64_MAX;
    if (p->view.attempt.active) next = p->view.attempt.resend_ns;
    /* The functions below take a peer that is not const, but only read it. */
    if (p->agenda.view_change && !p->view.attempt.active && !p->step.applying) {
        gw_peer *reader = (gw_peer *)(uintptr_t)p;
        uint64_t due = propose_time(reader);
        if (due < p->view.ask_view_at_ns) due = p->view.ask_view_at_ns;
        if (asks_for_repair(reader) && ask_time(p) < due) due = ask_time(p);
        next = due;
    }
    bool patient = p->phase == GW_AT_FROZEN || p->phase == GW_AT_PAUSED;
    if (patient && p->agenda.patience_ns > p->now && p->agenda.patience_ns < next)
        next = p->agenda.patience_ns;
    return next > p->now ? next : p->now + GW_MS;
}

/* Proposing. */

static void propose_to(gw_peer *p, const gw_peer_id *to) {
    gw_attempt *a = &p->view.attempt;
    gw_message message = {.kind = GW_MSG_PROPOSE,
                          .epoch = a->view.epoch,
                          .name = a->view.name,
                          .propose.view = &a->view,
                          .propose.base = {a->base_epoch, a->base},
                          .propose.listed = a->listed,
                          .propose.listed_count = a->listed_count,
                          .propose.absorbed_count = a->absorbed_count,
                          .propose.check_state = p->agenda.states_suspected};
    memcpy(message.propose.absorbed, a->absorbed, sizeof message.propose.absorbed);
    gw_peer_send(p, to, &message);
}

static void propose_to_silent(gw_peer *p) {
    gw_attempt *a = &p->view.attempt;
    for (uint32_t i = 0; i < a->view.count; i++)
        if (a->reports[i] == NULL && !gw_peer_id_equal(&a->view.members[i].id, &p->config.id))
            propose_to(p, &a->view.members[i].id);
    a->resend_ns = p->now + gw_peer_ms(p, RESEND_MS);
}

/* Gives the attempt up. The next one comes after a short time that differs between peers. */
static void retry_later(gw_peer *p, uint64_t least_ms) {
    gw_votes_drop_attempt(p);
    p->view.join_at_ns = p->now + gw_peer_ms(p, least_ms) + gw_rng_below(&p->rng, gw_peer_ms(p, 40) + 1);
    gw_agenda_set_proposal(p, p->view.join_at_ns);
    if (p->view.current.epoch == 0) {
        p->phase = GW_AT_WAITING;
        return;
    }
    if (p->agenda.patience_ns > p->now) gw_agenda_set_patience(p, p->now);
    gw_agenda_change_view(p, "a proposal was refused");
}

/* Keeps a peer out of proposals for a while. If many newcomers cannot be reached by some member, only one is
 * found at a time; so the time grows with their number, and none is proposed again before the others were. */
static void block(gw_peer *p, const gw_contact *contact) {
    if (p->view.current.epoch == 0)
        gw_contacts_block(p, contact, LINKING_BLOCK_MS, MOST_FOUNDING_BLOCK_MS);
    else if (gw_contacts_is_member(p, contact))
        gw_contacts_block(p, contact, BLOCK_MS, MOST_BLOCK_MS);
    else
        gw_contacts_block(p, contact, LINKING_BLOCK_MS * (uint64_t)gw_joiners_count(p), MOST_BLOCK_MS);
}

/* The peer `from` has no link to the peer `named`, so one of them is kept out: rather a newcomer than a
 * member with the shards that it holds, unless a majority needs the newcomer. */
static void block_unlinked(gw_peer *p, const gw_contact *from, const gw_peer_id *named) {
    const gw_contact *other = gw_peer_contact(p, named);
    bool spares = other != NULL && !gw_contacts_is_member(p, from) && gw_contacts_is_member(p, other);
    const gw_contact *first =
        other == NULL || spares ? from : other; /* NULL: the link works in one direction only */
    block(p, first);
    gw_member members[GW_MAX_MEMBERS];
    if (!spares || !p->view.ballot.majority ||
        gw_majority_is_enough(p, members, members_to_propose(p, members)))
        return;
    gw_contacts_unblock(p, from);
    block(p, other);
}

/* Sets the learned views that stop a proposal aside for a while. They may have been taken back meanwhile,
 * which only a proposal can show: a peer that still demands one refuses it. */
static void set_learned_aside(gw_peer *p) {
    if (p->view.learned_count > 0 && p->now >= p->view.set_aside_until_ns + gw_peer_ms(p, ASIDE_AGAIN_MS))
        p->view.set_aside_until_ns = p->now + gw_peer_ms(p, ASIDE_MS);
}

static bool is_aside(const gw_peer *p) {
    return p->now < p->view.set_aside_until_ns;
}

static void absorb_views(gw_peer *p, const gw_view *view) {
    gw_attempt *a = &p->view.attempt;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *contact = &p->members.contacts[i];
        if (gw_view_rank(view, &contact->id) < 0 || gw_view_rank(&p->view.current, &contact->id) >= 0)
            continue;
        gw_joiners_absorb(p, contact, a->absorbed, &a->absorbed_count);
    }
}

/* Tells people why this peer cannot propose. `full`: its ballot is. `lacks`: a view of which the proposal has
 * no majority; NULL: the proposal cannot list all that it must. */
static void say_cannot_propose(gw_peer *p, bool full, const gw_view *lacks) {
    if (full)
        gw_peer_waits(p,
                      "%" PRIu32 " views were promised here, and none was installed or taken back: this "
                      "peer can vote for no other before their proposers propose again",
                      p->view.ballot.later_count);
    else if (lacks != NULL)
        gw_peer_waits(p,
                      "only %u of the %u members of view %" PRIu64
                      " can be reached: not a majority, so this side waits for more of them (gone for "
                      "good: godwit force-view)",
                      gw_view_common(lacks, &p->view.attempt.view), lacks->count, lacks->epoch);
    else
        gw_peer_waits(p,
                      "more than %d views were promised and never installed, too many for a proposal to "
                      "list: this side waits for more of their proposers",
                      GW_MAX_LISTED);
}

/* Leaves out peers whose promises would hold up a majority that can do without them. They are not asked for
 * votes for a while, and need not vote: the next view is later than the views that they demand, and admits
 * them as they are. */
static void leave_out_tellers(gw_peer *p, gw_view *view) {
    gw_view enough;
    if (!gw_majority_find_enough(p, view, &enough) || enough.count == view->count) return;
    for (uint32_t i = 0; i < view->count; i++)
        if (gw_view_rank(&enough, &view->members[i].id) < 0)
            gw_contacts_block(p, gw_peer_contact(p, &view->members[i].id), BLOCK_MS, MOST_BLOCK_MS);
    *view = enough;
    gw_view_seal(view);
}

void gw_views_propose(gw_peer *p, const gw_member *members, uint32_t count) {
    GW_ASSERT(!p->view.attempt.active);
    const gw_view *base = gw_majority_base(p);
    gw_attempt *a = &p->view.attempt;
    a->view = gw_majority_view(p, members, count);
    if (p->view.ballot.majority && !p->view.view_override) leave_out_tellers(p, &a->view);
    a->base_epoch = base->epoch;
    a->base = base->name;
    /* If the ballot is full, not even the operator can have this peer vote. */
    bool full = !gw_ballot_has_room(&p->view.ballot, &a->view, a->base_epoch);
    bool lists = !p->view.ballot.majority || gw_majority_list(p, a, base, &a->view, !is_aside(p));
    const gw_view *lacks =
        p->view.ballot.majority ? gw_ballot_no_majority_of(base, a->listed, a->listed_count, &a->view) : NULL;
    if (full || ((!lists || lacks != NULL) && !p->view.view_override)) {
        say_cannot_propose(p, full, lacks);
        gw_votes_drop_attempt(p);
        set_learned_aside(p);
        p->view.wait_since_ns = 0; /* with other voters the time for missing chunks begins anew */
        if (p->view.current.epoch == 0)
            p->phase = GW_AT_WAITING; /* it may be frozen for an earlier proposal */
        gw_agenda_set_proposal(p, p->now + gw_peer_ms(p, 500));
        if (!gw_end_with_others(p)) gw_end_consider(p);
        return;
    }
    if (p->view.current.epoch > 0 && !is_aside(p)) gw_end_forget_loneliness(p);
    absorb_views(p, &a->view);
    a->active = true;
    a->started_ns = p->now;
    gw_votes_give(p, &a->view, a->base_epoch);
    propose_to_silent(p);
}

/* Whether this peer would found a flock beside one that runs, for which it would get no votes. */
static bool is_new_beside_a_flock(const gw_peer *p) {
    return p->view.ballot.majority && p->view.current.epoch == 0 && p->view.ballot.installed.epoch == 0 &&
           gw_contacts_knows_flock(p);
}

void gw_views_force(gw_peer *p) {
    if (is_new_beside_a_flock(p)) {
        gw_peer_say(p, GW_WARN,
                    "no view is forced here, as this peer was in none so far and others are in one: force it "
                    "at one of them");
        return;
    }
    gw_peer_say(p, GW_WARN,
                "the operator forces a view of the peers that can be reached: the other side must not go on");
    p->view.view_override = true;
    gw_agenda_change_view(p, "the operator forces a view");
    retry_later(p, 0);
    gw_agenda_set_proposal(p, p->now);
    gw_agenda_set_patience(p, p->now);
}

static void conclude(gw_peer *p);

/* Whether more peers could be proposed by now, while the proposal of this peer, which is in a view, waits. */
static bool others_came(gw_peer *p) {
    gw_member members[GW_MAX_MEMBERS];
    if (p->view.current.epoch == 0) return false; /* widen_founding does so in founding */
    return members_to_propose(p, members) > p->view.attempt.view.count;
}

/* Goes on with a proposal that waits for votes, or for peers. If a peer dies after its vote, the proposal is
 * given up: others would give up their own states for one that nobody can fetch. */
static void keep_attempt(gw_peer *p) {
    gw_attempt *a = &p->view.attempt;
    bool all = true;
    if (a->deciding && others_came(p)) {
        retry_later(p, 0);
        gw_agenda_set_proposal(p, p->now);
        return;
    }
    for (uint32_t i = 0; i < a->view.count; i++) {
        all &= a->reports[i] != NULL;
        const gw_contact *contact = gw_peer_contact(p, &a->view.members[i].id);
        bool gone =
            !gw_contacts_member_lives(p, &a->view, i) || (contact != NULL && !gw_links_lately(p, contact));
        if (gone) {
            retry_later(p, 0);
            gw_agenda_set_proposal(p, p->now); /* there is no rival to give way to */
            return;
        }
    }
    if (all && (!a->deciding || p->now >= a->resend_ns)) {
        conclude(p);
        return;
    }
    if (!all && p->now >= a->resend_ns) propose_to_silent(p);
}

/* Forgets the request of a newcomer, and of all that were offered with it; they must ask again. */
static void forget_offer(gw_peer *p, const gw_contact *from) {
    const gw_view_name none = {0}, offered = from->offered;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *contact = &p->members.contacts[i];
        bool same = !gw_view_name_is_none(&offered) && gw_view_name_equal(&contact->offered, &offered);
        if (contact != from && !same) continue;
        gw_contacts_note_request(p, contact, 0, &none);
    }
}

/* Whether a refusal says that this peer is out of its view: a member of it lives in another one without this
 * peer. */
static bool tells_that_it_is_out(const gw_peer *p, const gw_contact *from, const gw_message *m) {
    const gw_incarnation *life = &p->config.incarnation;
    return m->refuse.why == GW_REFUSE_STALE && m->refuse.listed_count > 0 && gw_contacts_is_member(p, from) &&
           gw_view_rank_of_life(&m->refuse.listed[0], &p->config.id, life->boot, life->nonce) < 0;
}

static void on_refuse(gw_peer *p, const gw_contact *from, const gw_message *m) {
    uint64_t highest = m->refuse.highest_epoch;
    if (highest > p->view.ballot.highest) p->view.ballot.highest = highest;
    /* A message is from the life to which the link is. Learned views stay, although they may be among those
     * that are given up: the peers that named them are bound until they hear this themselves. */
    gw_ballot_take_back(&p->view.ballot, &from->id, &from->linked_life, m->refuse.given_up_since, highest);
    if (!gw_view_name_equal(&m->name, &p->view.voted.name)) return;
    /* The first refusal ends the attempt; what further ones say is of use for the next attempt. */
    for (uint32_t i = 0; i < m->refuse.listed_count && p->view.ballot.majority; i++)
        gw_majority_learn(p, &from->id, &m->refuse.listed[i], i == 0 && m->refuse.lived);
    gw_contacts_receive_refusal(p, from, m);
    if (m->refuse.listed_count > 0 && is_aside(p)) p->view.set_aside_until_ns = p->now;
    if (tells_that_it_is_out(p, from, m)) {
        retry_later(p, 200);
        gw_views_lost(p, "the others went on without it");
        return;
    }
    if (!p->view.attempt.active || !gw_view_name_equal(&m->name, &p->view.attempt.view.name)) return;
    if (m->refuse.why == GW_REFUSE_STALE && gw_view_rank(&p->view.current, &from->id) < 0)
        forget_offer(p, from); /* a newcomer has gone to another view; it is no reason to leave this one */
    if (m->refuse.why == GW_REFUSE_UNLINKED) {
        block_unlinked(p, from, &m->refuse.unlinked);
    } else if (m->refuse.why == GW_REFUSE_FULL) {
        block(p, from); /* others may be a majority without it */
    }
    retry_later(p, m->refuse.why == GW_REFUSE_DEAD || m->refuse.why == GW_REFUSE_BUSY ? 200 : 10);
}

/* Deciding what the view begins with. */

/* Whether the proposal leaves out a member of its base or of a listed view. */
static bool some_absent(const gw_peer *p) {
    const gw_attempt *a = &p->view.attempt;
    for (uint32_t v = 0; v <= a->listed_count; v++) {
        const gw_view *before = v < a->listed_count ? &a->listed[v] : &p->view.ballot.installed;
        for (uint32_t i = 0; i < before->count; i++)
            if (gw_view_rank(&a->view, &before->members[i].id) < 0) return true;
    }
    return false;
}

/* Ends this peer because a sum fails its checks whatever is tried. The message says what is wrong, and who
 * found it. */
static void give_up_sum(gw_peer *p, const char *text) {
    char finders[GW_SHORT_TEXT * 8] = "", id[GW_SHORT_TEXT];
    size_t used = 0;
    for (uint32_t rank = 0; rank < p->view.attempt.view.count && used + GW_SHORT_TEXT + 2 < sizeof finders;
         rank++) {
        if (p->view.attempt.reports[rank]->failures == 0) continue;
        int more = snprintf(finders + used, sizeof finders - used, "%s%s", used == 0 ? "" : ", ",
                            gw_peer_id_short(&p->view.attempt.view.members[rank].id, id));
        used += more > 0 ? (size_t)more : 0;
    }
    gw_peer_finish(p, GW_FINISH_FAILED, NULL, "%s (%s; found by %s)", text,
                   p->step.refused[0] == '\0' ? "not seen here" : p->step.refused, finders);
}

static void unite_losses(const gw_peer *p, gw_install *i) {
    i->losses = p->members.deaths;
    for (uint32_t k = 0; k < p->view.attempt.view.count; k++)
        gw_shard_deaths_unite(&i->losses, &p->view.attempt.reports[k]->losses);
    gw_shard_deaths_forget_before(&i->losses, i->step);
}

/* Whether a founding would begin the job with too few peers: none of them has a whole checkpoint, the rest
 * of which others may bring. The state from which a job goes on is no such checkpoint, since peers that
 * have never met may have it. */
static bool begins_too_few(const gw_peer *p, const gw_install *i) {
    bool founds = p->view.current.epoch == 0 && p->view.ballot.installed.epoch == 0 && !p->view.view_override;
    bool begins = i->load == GW_LOAD_INIT || (i->load == GW_LOAD_MANIFEST && i->step == p->config.first_step);
    return founds && begins && i->view.count < p->config.peers;
}

void gw_views_wait_for_founders(gw_peer *p, uint32_t here) {
    if (p->config.first_step > 0 && p->config.first_step != GW_STEP_UNKNOWN)
        gw_peer_waits(
            p, "step %" PRIu64 ", from which the job goes on, is for %u peers: %u here; waiting for them",
            p->config.first_step, p->config.peers, here);
    else
        gw_peer_waits(p, "no checkpoint is whole here, and step 0 is for %u peers: %u here; waiting for them",
                      p->config.peers, here);
}

static void found_too_few(gw_peer *p, uint32_t here) {
    gw_views_wait_for_founders(p, here);
    gw_votes_drop_attempt(p);
    p->phase = GW_AT_WAITING;
    p->view.wait_since_ns = 0;
    p->view.too_few = here;
    p->view.too_few_ns = p->now;
}

/* Whether this peer expects no other, and neither its directory nor gossip knows of any. */
static bool is_alone(const gw_peer *p) {
    return p->config.peers == 1 && !p->config.joins && p->config.known_count == 0 &&
           p->members.contact_count == 0 && !some_absent(p);
}

/* Tells that the view waits, as the plan's `text` says. */
static void tell_plan_waits(gw_peer *p, const char *text, bool alone) {
    if (!alone)
        gw_peer_waits(p, "%s; waiting for them", text);
    else if (p->config.first_step > 0)
        gw_peer_waits(p, "%s, and no other peer has been met from this directory; waiting for one", text);
    else
        gw_peer_waits(
            p,
            "%s, and no other peer has been met from this directory: waiting %.0f s for one "
            "(--resume-timeout), and then beginning without them. To go on from that step, end this "
            "peer and put a copy of the chunks into its directory",
            text, (double)p->config.resume_timeout_ns * 1e-9);
}

static void conclude(gw_peer *p) {
    gw_attempt *a = &p->view.attempt;
    if (gw_path_errors_halt(p)) return;
    gw_repair_rules rules = {.steps = p->config.steps,
                             .first_step = p->config.first_step,
                             .shards = p->config.shards,
                             .shards_context = p->config.shards_context,
                             .state_chunks = p->config.state_chunks,
                             .latest_view_only = p->config.fast,
                             .some_absent = some_absent(p),
                             .some_may_come = !p->view.view_override &&
                                              (some_absent(p) || a->view.count < p->config.peers),
                             .alone = is_alone(p),
                             .doubted = gw_set_of(a->view.count)};
    gw_install *i = calloc(1, sizeof *i);
    GW_ASSERT_MEMORY(i != NULL);
    i->view = a->view;
    gw_verdicts_unite(a, p->view.ballot.majority, &i->convictions);
    int changes_bits = gw_path_errors_judge(p, i);
    gw_verify_doubted(a, &rules.doubted);
    gw_verdicts_discount(a, p->view.ballot.majority, i);
    char text[240];
    bool settle = p->view.view_override || (p->view.wait_since_ns != 0 &&
                                            p->now >= p->view.wait_since_ns + p->config.resume_timeout_ns);
    gw_repair_answer answer =
        gw_repair_plan(&rules, (const gw_report *const *)a->reports, settle, i, text, sizeof text);
    gw_set_free(&rules.doubted);
    if (answer == GW_REPAIR_READY && begins_too_few(p, i)) {
        found_too_few(p, i->view.count);
        gw_install_free(i);
        return;
    }
    if (answer == GW_REPAIR_WAIT) {
        gw_install_free(i);
        if (p->view.wait_since_ns == 0) p->view.wait_since_ns = p->now;
        tell_plan_waits(p, text, rules.alone);
        a->deciding = true;
        propose_to_silent(p); /* sets the time of the next look */
        gw_agenda_set_patience(p, p->now + gw_peer_ms(p, GW_PATIENCE_MS));
        for (uint32_t k = 0; k < a->view.count; k++)
            if (!gw_peer_id_equal(&a->view.members[k].id, &p->config.id))
                propose_to(p, &a->view.members[k].id);
        return;
    }
    if (answer == GW_REPAIR_OVER) {
        gw_peer_say(p, GW_WARN, "%s", text);
        gw_end_decided(p, i);
        gw_install_free(i);
        return;
    }
    if (answer == GW_REPAIR_STOP || answer == GW_REPAIR_HALT) {
        gw_install_free(i);
        if (answer == GW_REPAIR_HALT)
            gw_halt(p, &a->view, "%s", text);
        else
            give_up_sum(p, text);
        return;
    }
    if (text[0] != '\0') gw_peer_say(p, GW_WARN, "%s", text);
    gw_path_errors_report(p, i, changes_bits);
    gw_verify_name_outvoted(p, i);
    gw_verdicts_spare(a, i);
    unite_losses(p, i);
    i->cause_age_ns = p->agenda.cause_ns == 0 ? 0 : p->now - p->agenda.cause_ns;
    snprintf(i->cause, sizeof i->cause, "%s", p->agenda.cause[0] == '\0' ? "founded" : p->agenda.cause);
    gw_install_free(p->view.installed);
    p->view.installed = i;
    gw_message message = {
        .kind = GW_MSG_INSTALL, .epoch = i->view.epoch, .name = i->view.name, .install.install = i};
    for (uint32_t k = 0; k < i->view.count; k++)
        if (!gw_peer_id_equal(&i->view.members[k].id, &p->config.id))
            gw_peer_send(p, &i->view.members[k].id, &message);
    gw_votes_drop_attempt(p);
    gw_install_adopt(p, i);
}

/* Other messages about views. */

void gw_views_lost(gw_peer *p, const char *why) {
    gw_peer_say(p, GW_WARN, "out of view %" PRIu64 ": %s; asking to be admitted again", p->view.current.epoch,
                why);
    gw_votes_drop_attempt(p);
    gw_saves_abandon(p);
    gw_retry_begin_anew(p);
    if (!p->step.applying) gw_votes_freeze(p);
    p->view.freeze_after_apply |= p->step.applying;
    p->view.current = (gw_view){0};
    p->phase = GW_AT_WAITING;
    gw_agenda_drop_change(p);
    p->view.repair_sent_ns = 0;
    p->view.healing = false;
    p->view.join_at_ns = p->now;
}

static void on_view(gw_peer *p, const gw_message *m) {
    const gw_view *view = m->view.view;
    if (p->view.current.epoch == 0 || view->epoch <= p->view.current.epoch ||
        !gw_hash_equal(&view->job, &p->job))
        return;
    if (view->epoch > p->view.ballot.highest) p->view.ballot.highest = view->epoch;
    if (view->epoch > p->view.view_answer_epoch) p->view.view_answer_epoch = view->epoch;
    const gw_incarnation *life = &p->config.incarnation;
    if (gw_view_rank_of_life(view, &p->config.id, life->boot, life->nonce) < 0) {
        gw_views_lost(p, "the others went on without it");
        return;
    }
    bool expected = p->phase == GW_AT_FROZEN && gw_view_name_equal(&p->view.voted.name, &view->name);
    if (expected) return; /* INSTALL is on its way */
    p->view.missed = (gw_missed){.epoch = view->epoch, .name = view->name, .leader = view->leader};
    gw_agenda_change_view(p, "view %" PRIu64 " was installed without it", view->epoch);
}

void gw_views_link_up(gw_peer *p, const gw_contact *contact) {
    gw_attempt *a = &p->view.attempt;
    int rank = a->active ? gw_view_rank(&a->view, &contact->id) : -1;
    if (rank >= 0 && a->reports[rank] == NULL) propose_to(p, &contact->id);
    if (p->phase == GW_AT_FROZEN && gw_peer_id_equal(&p->view.voted.leader, &contact->id)) {
        p->view.vote_sent = false;
        gw_votes_send_if_ready(p);
    }
    if (p->view.current.epoch == 0 || gw_view_rank(&p->view.current, &contact->id) < 0) return;
    gw_install_link_up(p, contact);
    gw_verify_link_up(p, contact);
    gw_saves_link_up(p, contact);
}

void gw_views_receive(gw_peer *p, const gw_contact *from, gw_message *m) {
    char id[GW_SHORT_TEXT];
    switch (m->kind) {
    case GW_MSG_PROPOSE:
        gw_votes_receive_proposal(p, from, m);
        break;
    case GW_MSG_VOTE:
        gw_votes_receive_vote(p, from, m);
        break;
    case GW_MSG_REFUSE:
        on_refuse(p, from, m);
        break;
    case GW_MSG_INSTALL:
        gw_install_receive(p, from, m);
        break;
    case GW_MSG_READY:
        gw_install_receive_ready(p, from, m);
        break;
    case GW_MSG_REPAIR:
        if (!gw_view_name_equal(&m->name, &p->view.current.name)) break;
        if (m->repair.check_state) gw_agenda_suspect_states(p);
        gw_agenda_change_view(p, "%.80s (asked by %s)", m->repair.reason, gw_peer_id_short(&from->id, id));
        break;
    case GW_MSG_ASK_VIEW:
        if (p->view.current.epoch > 0) {
            gw_message answer = gw_peer_about_view(p, GW_MSG_VIEW);
            answer.view.view = &p->view.current;
            gw_peer_send(p, &from->id, &answer);
        }
        break;
    case GW_MSG_VIEW:
        on_view(p, m);
        break;
    default:
        break;
    }
}
