/* Admission. A peer without a view founds one or asks to be admitted to one. A leader admits others, and
 * heals two views of one job (core/README.md, section 3, "Heal"). */
#include "core/brain/view/admit.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/members/contacts.h"
#include "core/brain/members/links.h"
#include "core/brain/members/strangers.h"
#include "core/brain/outbox.h"
#include "core/brain/save/checkpoint.h"
#include "core/brain/save/job_end.h"
#include "core/brain/save/leave.h"
#include "core/brain/self.h"
#include "core/brain/state.h"
#include "core/brain/view/joiners.h"
#include "core/brain/view/majority.h"
#include "core/brain/view/propose.h"
#include "core/brain/view/vote.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    POLL_MS = 100,         /* a waiting peer looks around this often */
    JOIN_MS = 500,         /* between two requests to be admitted */
    JOIN_LASTS_MS = 3000,  /* a request counts for this long */
    SEED_SILENT_MS = 1000, /* seeds that answer within this time are not worth a message */
    SEED_MS = 3000,        /* time that a seed has to answer, however late its address became known */
    SETTLE_MS = 1500,      /* after this time without a new peer all are taken to be here */
    /* After this time without a peer that is here for the first time, a flock is founded although others
     * come and go. */
    UNSETTLED_MS = 10000,
    GREETING_MS = 5000,      /* a living peer without a link is waited for this long */
    FOUND_STAGGER_MS = 1000, /* each peer with a lower id delays the founding by this peer */
    ASKS_IN_VAIN = 10,       /* after so many requests to the leader, each time, one goes to all members */
    HEAL_AFTER_MS = 100,     /* another view of this job must be seen for this long */
    OFFER_MS = 300,          /* between two offers of this view */
    OFFER_LASTS_MS = 120000, /* then the offer ends; the other side may be in the middle of a long step */
    HEAL_BLOCK_MS = 5000,    /* pause after an offer that came to nothing */
    ADMIT_MS = 50,           /* newcomers wait this long for further ones, or for the step's end */
    LINKING_MS = 1000,       /* the same while members of an offered view have no links yet */
};

/* Without a view. */

/* Whether a peer that is not ready may be so in a moment: it has come, or lost its link, a short time ago.
 * Without the limit two peers that never get a link to each other would keep all others waiting. */
static bool is_coming(const gw_peer *p, const gw_contact *c) {
    uint64_t since = c->alive_since_ns > c->unlinked_since_ns ? c->alive_since_ns : c->unlinked_since_ns;
    return p->now < since + gw_peer_ms(p, GREETING_MS);
}

/* Whether a peer can be asked now or in a moment, even if it is kept out of proposals for a while. */
static bool is_near(const gw_peer *p, const gw_contact *c) {
    return gw_contacts_greeted(c) || (c->alive && is_coming(p, c));
}

/* Compares two flocks in the order by which a heal chooses: by step, then size, then name. */
static int compare_flocks(const gw_contact *a, uint64_t step, uint32_t count, const gw_view_name *name) {
    if (a->step != step) return a->step < step ? -1 : 1;
    if (a->view_count != count) return a->view_count < count ? -1 : 1;
    return gw_view_name_compare(&a->view_name, name);
}

/* Whether the flock of one peer is a better one to be admitted to than that of another. A peer that can be
 * asked comes first. If a majority rules, views are not healed: the members of the later view go on, and may
 * need this peer for it, while a peer that has missed that view can do nothing without them. */
static bool is_better_flock(const gw_peer *p, const gw_contact *one, const gw_contact *best) {
    bool near = is_near(p, one);
    if (near != is_near(p, best)) return near;
    if (p->view.ballot.majority && one->epoch != best->epoch) return one->epoch > best->epoch;
    return compare_flocks(one, best->step, best->view_count, &best->view_name) > 0;
}

static const gw_contact *best_flock(const gw_peer *p) {
    const gw_contact *best = NULL;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *one = &p->members.contacts[i];
        if (gw_contacts_runs_this_job(p, one) && (best == NULL || is_better_flock(p, one, best))) best = one;
    }
    return best;
}

static void send_join(gw_peer *p, const gw_peer_id *leader, bool whole_view) {
    gw_view newcomers = {.epoch = 1, .leader = p->config.id, .job = p->job, .count = 1};
    newcomers.members[0] = (gw_member){
        .id = p->config.id, .boot = p->config.incarnation.boot, .nonce = p->config.incarnation.nonce};
    if (whole_view) {
        newcomers.count = 0;
        for (uint32_t rank = 0; rank < p->view.current.count; rank++)
            if (gw_contacts_member_lives(p, &p->view.current, rank))
                newcomers.members[newcomers.count++] = p->view.current.members[rank];
    }
    newcomers.epoch = p->view.ballot.highest + 1;
    gw_view_seal(&newcomers);
    gw_message message = gw_peer_about_view(p, GW_MSG_JOIN);
    message.join.newcomers = &newcomers;
    message.join.step = p->state.step;
    message.join.whole_view = whole_view;
    gw_peer_send(p, leader, &message);
}

/* Whether it is time for the next request to be admitted; if so, notes that it is made. */
static bool is_due_to_ask(gw_peer *p, const gw_contact *flock) {
    if (!gw_view_name_equal(&p->view.asked_view, &flock->view_name)) {
        p->view.asked_view = flock->view_name;
        p->view.asked_times = 0;
    }
    if (p->now < p->view.join_at_ns) return false;
    p->view.join_at_ns = p->now + gw_peer_ms(p, JOIN_MS);
    p->view.asked_times++;
    return true;
}

static void send_join_to_members(gw_peer *p, const gw_contact *flock) {
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *one = &p->members.contacts[i];
        if (gw_contacts_runs_this_job(p, one) && gw_links_ready(p, one) &&
            gw_view_name_equal(&one->view_name, &flock->view_name))
            send_join(p, &one->id, false);
    }
}

/* Asks all members of a flock, because its leader cannot be asked: it is dead, unknown here, not in that view
 * any more, or no link to it comes up. Any member that still lives in the view may propose the next one, and
 * if a majority of them are dead or in new lives, none can without this peer. Members that see nothing wrong
 * with their view ignore the request. */
static void ask_members_to_join(gw_peer *p, const gw_contact *flock) {
    gw_peer_waits_briefly(p, "asking the members of view %" PRIu64 " to be admitted at step %" PRIu64,
                          flock->epoch, flock->step);
    if (is_due_to_ask(p, flock)) send_join_to_members(p, flock);
}

static void say_no_room(gw_peer *p) {
    if (p->view.no_room_logged) return;
    p->view.no_room_logged = true;
    gw_peer_say(p, GW_WARN,
                "the flock has %d members, as many as there can be: this peer waits for one of them to go",
                GW_MAX_MEMBERS);
}

/* Whether a flock has been asked again and again, and is still in the same view. */
static bool is_asked_in_vain(const gw_peer *p, const gw_contact *flock) {
    return gw_view_name_equal(&p->view.asked_view, &flock->view_name) && p->view.asked_times >= ASKS_IN_VAIN;
}

/* The leader of a flock, if it still leads it and can be asked now or in a moment; otherwise NULL. */
static const gw_contact *leader_to_ask(gw_peer *p, const gw_contact *flock) {
    const gw_contact *leader = gw_peer_contact(p, &flock->leader);
    bool leads = leader != NULL && gw_contacts_runs_this_job(p, leader) &&
                 gw_view_name_equal(&leader->view_name, &flock->view_name);
    return leads && is_near(p, leader) ? leader : NULL;
}

static void say_no_link(gw_peer *p, const gw_contact *flock, const gw_contact *leader) {
    char text[GW_LINK_TEXT];
    gw_peer_waits_briefly(p, "a flock of %u runs at step %" PRIu64 "; waiting for its leader: %s",
                          flock->view_count, flock->step, gw_links_describe(leader, text, sizeof text));
}

static void ask_to_join(gw_peer *p, const gw_contact *flock) {
    const gw_contact *leader = leader_to_ask(p, flock);
    if (flock->view_count >= GW_MAX_MEMBERS) say_no_room(p);
    if (leader == NULL) {
        ask_members_to_join(p, flock);
        return;
    }
    char id[GW_SHORT_TEXT];
    gw_peer_id_short(&flock->leader, id);
    if (!gw_links_ready(p, leader)) {
        say_no_link(p, flock, leader);
        return;
    }
    gw_peer_waits_briefly(p, "asking leader %s to be admitted at step %" PRIu64, id, flock->step);
    if (!is_due_to_ask(p, flock)) return;
    if (p->view.asked_times % ASKS_IN_VAIN == 0)
        send_join_to_members(p, flock); /* a promise may keep the leader from proposing, but not them */
    else
        send_join(p, &leader->id, false);
}

/* The peers with which this one may found a view. */
typedef struct muster {
    uint32_t ready;     /* peers that can be proposed now, this one included */
    uint32_t unready;   /* peers that may be ready in a moment */
    uint32_t lower;     /* peers without a view that have a lower id */
    uint64_t newest_ns; /* when the last of them came */
    uint64_t first_ns;  /* when the last of them came for the first time */
    bool met_anybody;   /* a peer of this job lives */
    bool checkpoint;    /* this peer or one of them has a checkpoint to resume from */
    gw_member members[GW_MAX_MEMBERS];
} muster;

/* Counts the peers without a view. If a majority rules, peers in views of epochs below `end` count as
 * well. */
static void take_muster(const gw_peer *p, uint64_t end, muster *m) {
    m->ready = 1;
    m->unready = m->lower = 0;
    m->newest_ns = m->first_ns = p->started_ns;
    m->met_anybody = false;
    m->members[0] = (gw_member){
        .id = p->config.id, .boot = p->config.incarnation.boot, .nonce = p->config.incarnation.nonce};
    m->checkpoint = gw_peer_inventory_newest(&p->inventory) != NULL;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (!c->alive) continue;
        if (c->differs) continue;
        m->met_anybody = true;
        bool counts =
            !c->has_view || (p->view.ballot.majority && gw_contacts_same_job(p, c) && c->epoch < end);
        if (!counts) continue;
        if (c->alive_since_ns > m->newest_ns) m->newest_ns = c->alive_since_ns;
        if (c->came_ns > m->first_ns) m->first_ns = c->came_ns;
        if (gw_contacts_same_job(p, c) && !c->has_view) {
            m->lower += gw_peer_id_compare(&c->id, &p->config.id) < 0;
            m->checkpoint |= c->checkpoint_step != UINT64_MAX && !p->config.fresh;
        }
        if (!gw_links_ready(p, c)) {
            m->unready += is_coming(p, c);
            continue;
        }
        if (m->ready == GW_MAX_MEMBERS) continue; /* no view has more members */
        m->members[m->ready++] =
            (gw_member){.id = c->id, .boot = c->incarnation.boot, .nonce = c->incarnation.nonce};
    }
}

/* Whether these peers have recently been found too few to begin at step 0 and without a whole checkpoint.
 * Their disks may have one by the next time. */
static bool are_too_few(const gw_peer *p, const muster *m) {
    bool lately = p->view.too_few_ns != 0 && p->now < p->view.too_few_ns + p->config.resume_timeout_ns;
    return lately && m->ready < p->config.peers && m->ready <= p->view.too_few &&
           m->newest_ns <= p->view.too_few_ns;
}

static void say_too_few(gw_peer *p, uint32_t ready) {
    char text[GW_LINK_TEXT];
    const gw_contact *missing = gw_links_newcomer_without_data(p);
    if (missing == NULL)
        gw_peer_waits(p, "waiting for %u peers: %u here", p->config.peers, ready);
    else
        gw_peer_waits(p, "waiting for %u peers: %u here; %s", p->config.peers, ready,
                      gw_links_describe(missing, text, sizeof text));
}

/* The time until which this peer waits for a seed to answer. A seed whose address has just become known gets
 * time, too. */
static uint64_t seeds_deadline(const gw_peer *p) {
    uint64_t timeout_ns = p->config.join_timeout_ns, answer_ns = gw_peer_ms(p, SEED_MS);
    uint64_t deadline_ns = p->started_ns + timeout_ns;
    if (p->seeds_ns == 0) return deadline_ns;
    uint64_t answered_ns = p->seeds_ns + (answer_ns < timeout_ns ? answer_ns : timeout_ns);
    return answered_ns > deadline_ns ? answered_ns : deadline_ns;
}

/* Whether this peer waits, and says for what: for a seed, for the peers that are to begin the job, or for the
 * rest of a checkpoint. */
static bool waits_for_others(gw_peer *p, const muster *m) {
    const gw_peer_config *c = &p->config;
    p->view.met_once |= m->met_anybody;
    if (c->joins && !m->met_anybody && p->now < seeds_deadline(p)) {
        const char *none = p->view.met_once     ? "the peers that were met are gone"
                           : c->seed_count == 0 ? "no name of a seed could be resolved yet"
                                                : "no seed answers yet";
        if (p->now < p->started_ns + gw_peer_ms(p, SEED_SILENT_MS)) return true;
        if (p->view.unmet_for_good)
            gw_peer_waits(
                p, "%s: this peer ends %g s after its start, unless another seed answers (--join-timeout)",
                p->view.unmet, (double)c->join_timeout_ns * 1e-9);
        else
            gw_peer_waits(p, "%s: waiting up to %g s for one (--join-timeout)", none,
                          (double)c->join_timeout_ns * 1e-9);
        return true;
    }
    /* If a majority rules, the founding view has all --peers: a checkpoint without a record of a view does
     * not prove that no others go on from it. */
    bool resumes = p->view.ballot.installed.epoch > 0 || (m->checkpoint && !p->view.ballot.majority);
    if (!resumes && m->ready < c->peers) {
        say_too_few(p, m->ready);
        return true;
    }
    if (are_too_few(p, m)) {
        gw_views_wait_for_founders(p, m->ready);
        return true;
    }
    return false;
}

/* Whether this peer should found a view now. An operator who forces a view answers for the peers that are not
 * here. */
static bool may_found(gw_peer *p, const muster *m) {
    const gw_peer_config *c = &p->config;
    if (!p->view.view_override && waits_for_others(p, m)) return false;
    bool enough = c->peers > 1 && m->ready >= c->peers;
    bool alone = !c->joins && c->known_count == 0 && c->peers == 1 && m->ready + m->unready == 1;
    bool settled = m->unready == 0 && p->now >= m->newest_ns + gw_peer_ms(p, SETTLE_MS);
    bool restless = p->now >= m->first_ns + gw_peer_ms(p, UNSETTLED_MS);
    return enough || alone || settled || restless;
}

/* Counts the founders. They may found past a flock that cannot go on without them; its living members belong
 * into the new view, and may hold the latest state. */
static void muster_founders(const gw_peer *p, muster *m) {
    take_muster(p, UINT64_MAX, m);
}

static void say_alone(gw_peer *p) {
    const gw_peer_config *c = &p->config;
    double seconds = (double)(p->now - (c->seed_count > 0 ? p->seeds_ns : p->started_ns)) * 1e-9;
    p->view.alone_logged = true;
    if (c->seed_count == 0) {
        gw_peer_say(p, GW_WARN, "no name of a seed could be resolved for %.0f s: beginning alone", seconds);
        return;
    }
    char seed[GW_ADDR_TEXT];
    gw_peer_say(
        p, GW_WARN,
        "no peer of this job has answered at the seeds (%s%s) for %.0f s%s%s: beginning alone. A seed that "
        "starts later is joined then",
        gw_addr_text(&c->seeds[0], seed), c->seed_count > 1 ? ", ..." : "", seconds,
        p->view.unmet[0] != '\0' ? ", as " : "", p->view.unmet);
}

void gw_admit_note_unmet(gw_peer *p, const gw_event *event) {
    snprintf(p->view.unmet, sizeof p->view.unmet, "%s", event->text != NULL ? event->text : "");
    p->view.unmet_for_good = event->text != NULL && event->unmet.for_good;
}

/* Ends this peer where it knows, after the time for seeds, that one is there which it cannot meet: alone
 * it would compute a second time what others compute. */
static bool is_turned_away(gw_peer *p, const muster *m) {
    bool alone = p->config.joins && !m->met_anybody && p->now >= seeds_deadline(p);
    if (!alone || !p->view.unmet_for_good || p->view.view_override) return false;
    gw_peer_finish(
        p, GW_FINISH_DENIED, NULL,
        "%s, and no other seed of --join has answered: this peer does not begin beside a flock that it "
        "cannot join. Mend that, or leave that seed out of --join to begin alone",
        p->view.unmet);
    return true;
}

static void consider_founding(gw_peer *p) {
    muster m;
    muster_founders(p, &m);
    if (is_turned_away(p, &m)) return;
    if (!may_found(p, &m)) {
        p->view.found_since_ns = 0;
        return;
    }
    if (p->view.found_since_ns == 0) p->view.found_since_ns = p->now;
    uint64_t due = p->view.found_since_ns + m.lower * gw_peer_ms(p, FOUND_STAGGER_MS);
    if (p->now < due || p->now < p->agenda.propose_at_ns) return;
    p->view.found_since_ns = 0;
    if (p->config.joins && !m.met_anybody && !p->view.alone_logged) say_alone(p);
    gw_agenda_begin_change(p, NULL);
    gw_views_propose(p, m.members, m.ready);
}

/* Proposes again if more peers have come while this peer's proposal waits for the holders of a checkpoint. */
static void widen_founding(gw_peer *p) {
    if (!p->view.attempt.active || !p->view.attempt.deciding) return;
    muster m;
    muster_founders(p, &m);
    if (m.ready <= p->view.attempt.view.count) return;
    gw_votes_drop_attempt(p);
    gw_views_propose(p, m.members, m.ready);
}

/* If a majority rules: whether, as far as is known, half of a flock's members or more are gone, so that it
 * may be the rest of one that has ended and can admit nobody. Any other flock admits this peer once its
 * shards or its checkpoint are done. */
static bool may_be_remnant(const gw_peer *p, const gw_contact *flock) {
    uint32_t living = 0;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *one = &p->members.contacts[i];
        living += gw_contacts_runs_this_job(p, one) && gw_view_name_equal(&one->view_name, &flock->view_name);
    }
    return p->view.ballot.majority && 2 * living <= flock->view_count;
}

/* If a majority rules: whether this peer founds a view although a flock runs. The flock does not admit it,
 * because the flock is left behind, out of reach, or bound by a promise; and the peers that have no view, or
 * are left behind in one, are enough to go on, or an operator says so. Then the flock alone cannot go on, and
 * nothing is interrupted. A peer whose record names a view that leads nowhere, on the other hand, joins the
 * flock. */
static bool goes_past(gw_peer *p, const gw_contact *flock) {
    if (!p->view.ballot.majority || p->view.ballot.installed.epoch == 0) return false;
    if (p->view.view_override && may_be_remnant(p, flock)) return true;
    if (!is_asked_in_vain(p, flock)) return false;
    muster m;
    take_muster(p, p->view.ballot.installed.epoch, &m);
    return gw_majority_is_enough(p, m.members, m.ready);
}

/* Admitting. */

void gw_admit_receive_join(gw_peer *p, const gw_contact *from, const gw_message *m) {
    bool inside = gw_contacts_is_member(p, from);
    bool may_propose = gw_peer_is_leader(p) || ((inside || p->agenda.view_change) && !m->join.whole_view);
    if (!may_propose || p->save.end_sent) return;
    if (m->epoch > p->view.ballot.highest) p->view.ballot.highest = m->epoch;
    /* A member asks, which may be this view's leader: it voted for the view and then believed itself left
     * behind, or went on with others. Without a new view the step would wait for it for ever. */
    if (inside && !m->join.whole_view) {
        gw_agenda_change_view(p, "a member asks to be admitted");
        return;
    }
    if (m->join.whole_view && p->view.healing) {
        if (gw_view_name_compare(&p->view.current.name, &m->name) < 0)
            return; /* both views offer themselves, and the other one takes this one in */
        p->view.healing = false;
    }
    const gw_view_name none = {0};
    for (uint32_t i = 0; i < m->join.newcomers->count; i++) {
        const gw_member *member = &m->join.newcomers->members[i];
        const gw_contact *c = gw_peer_contact(p, &member->id);
        if (c == NULL || !c->alive || c->differs || !gw_member_is(member, &c->incarnation)) continue;
        if (!m->join.whole_view && c != from) continue; /* a newcomer asks for itself only */
        gw_contacts_note_request(p, c, p->now + gw_peer_ms(p, JOIN_LASTS_MS),
                                 m->join.whole_view ? &m->name : &none);
    }
    if (p->phase == GW_AT_PAUSED || p->phase == GW_AT_ENDING) gw_admit_at_pause(p);
}

/* Healing. */

/* The leader of the best other view of this job; NULL: there is none. */
static const gw_contact *other_flock(gw_peer *p) {
    const gw_contact *best = NULL;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        bool leads =
            gw_contacts_runs_this_job(p, c) && gw_peer_id_equal(&c->id, &c->leader) && gw_links_ready(p, c);
        if (!leads || c->at_end || gw_view_rank(&p->view.current, &c->id) >= 0) continue;
        if (gw_view_name_equal(&c->view_name, &p->view.current.name)) continue;
        if (best == NULL || compare_flocks(c, best->step, best->view_count, &best->view_name) > 0) best = c;
    }
    return best;
}

/* Whether this view offers itself to the other one, and not the other way round. Both leaders must decide
 * alike, although each knows the other one's step only as it was a while ago; therefore size and name decide,
 * which do not change. The reports of the members decide from which *state* the merged view goes on: the one
 * of the higher step. */
static bool is_to_offer(const gw_peer *p, const gw_contact *other) {
    if (other->view_count != p->view.current.count) return other->view_count > p->view.current.count;
    return gw_view_name_compare(&other->view_name, &p->view.current.name) > 0;
}

/* Offers this view to the other leader, which admits its members together with newcomers. That may take a
 * while, and the step goes on meanwhile: what accumulators hold is reported with the votes. */
static void offer_view(gw_peer *p) {
    const gw_contact *leader = gw_peer_contact(p, &p->view.heal_leader);
    bool leads = leader != NULL && gw_links_ready(p, leader) && gw_contacts_runs_this_job(p, leader) &&
                 gw_peer_id_equal(&leader->leader, &leader->id);
    if (p->now >= p->view.offer_until_ns || !leads) {
        p->view.healing = false; /* if another peer leads that view now, this one is offered to it */
        if (leads) p->view.heal_block_ns = p->now + gw_peer_ms(p, HEAL_BLOCK_MS);
        return;
    }
    if (p->now < p->view.offer_at_ns) return;
    p->view.offer_at_ns = p->now + gw_peer_ms(p, OFFER_MS);
    send_join(p, &leader->id, true);
}

static void consider_healing(gw_peer *p) {
    bool steady = gw_peer_is_leader(p) && !p->view.ballot.majority && !p->agenda.view_change &&
                  !p->view.attempt.active && !p->save.end_sent && p->phase != GW_AT_FROZEN &&
                  !gw_leave_comes_first(p);
    const gw_contact *other = steady && p->now >= p->view.heal_block_ns ? other_flock(p) : NULL;
    if (p->view.healing) {
        if (steady) offer_view(p);
        return;
    }
    if (other == NULL) {
        p->view.heal_since_ns = 0;
        return;
    }
    if (p->view.heal_since_ns == 0) p->view.heal_since_ns = p->now;
    if (p->now < p->view.heal_since_ns + gw_peer_ms(p, HEAL_AFTER_MS)) return;
    if (!is_to_offer(p, other)) return; /* the other view offers itself to this one */
    char id[GW_SHORT_TEXT];
    gw_peer_notice(p, GW_NOTICE_HEALED,
                   "another view of this job, led by %s, is at step %" PRIu64 ": offering this one to it",
                   gw_peer_id_short(&other->id, id), other->step);
    p->view.healing = true;
    p->view.heal_leader = other->id;
    p->view.offer_at_ns = 0;
    p->view.offer_until_ns = p->now + gw_peer_ms(p, OFFER_LASTS_MS);
    offer_view(p);
}

void gw_admit_at_boundary(gw_peer *p) {
    p->view.pause_since_ns = p->now;
    gw_agenda_set_patience(p, p->now + gw_peer_ms(p, GW_PATIENCE_MS));
    gw_admit_at_pause(p);
}

void gw_admit_at_pause(gw_peer *p) {
    GW_ASSERT(p->phase == GW_AT_PAUSED || p->phase == GW_AT_ENDING);
    if (!gw_peer_is_leader(p) || p->view.attempt.active || p->save.end_sent) return;
    bool saves = p->phase == GW_AT_ENDING || gw_saves_before_leaving(p);
    if (gw_leave_comes_first(p) || (saves && !gw_joiners_may_come(p))) return;
    if (p->agenda.cause[0] == '\0') gw_agenda_begin_change(p, "newcomers");
    gw_member members[GW_MAX_MEMBERS];
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++)
        if (gw_contacts_member_lives(p, &p->view.current, rank))
            members[count++] = p->view.current.members[rank];
    gw_views_propose(p, members, gw_joiners_add(p, members, count));
}

/* Admitting in the middle of a step. */

/* Whether members of an offered view have no links yet. If they were left out now, they would come one by one
 * later, and without the shards that they hold. */
static bool some_are_linking(const gw_peer *p) {
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (c->joining_until_ns > p->now && c->alive && !gw_contacts_greeted(c)) return true;
    }
    return false;
}

static uint64_t admission_time(const gw_peer *p) {
    GW_ASSERT(p->view.joiners_since_ns != 0);
    uint64_t due = p->view.joiners_since_ns + gw_peer_ms(p, some_are_linking(p) ? LINKING_MS : ADMIT_MS);
    return due > p->view.admit_at_ns ? due : p->view.admit_at_ns;
}

/* Whether this peer is the leader, is computing, and a new view would cost little. A new view would end a
 * checkpoint under way, and both candidates for a chosen shard that is held would compute it again. If this
 * peer has nothing left to do, the end of the step is near anyway. */
static bool may_admit(const gw_peer *p) {
    bool computes = gw_peer_is_leader(p) && p->phase == GW_AT_COMPUTING && !p->step.thief.active;
    bool changes = p->agenda.view_change || p->view.attempt.active || p->save.end_sent || p->save.want_stop;
    bool twice = p->config.verify > 0 && (p->step.careful || p->faults.chosen_count > p->view.current.count);
    return computes && !changes && !p->save.open.active && !twice && !gw_leave_comes_first(p);
}

/* Admits newcomers in the middle of a step, as a repair would: a step may be long, and newcomers have nothing
 * to do until they are admitted. Shards that are computed stay, and shards in flight go on. */
static void consider_admitting(gw_peer *p) {
    if (!may_admit(p) || !gw_joiners_may_come(p)) {
        p->view.joiners_since_ns = 0;
        return;
    }
    if (p->view.joiners_since_ns == 0) p->view.joiners_since_ns = p->now;
    if (p->now < admission_time(p)) return;
    if (p->view.pause_since_ns == 0) p->view.pause_since_ns = p->now;
    p->view.joiners_since_ns = 0;
    gw_agenda_change_view(p, "newcomers");
}

/* Time. */

void gw_admit_consider(gw_peer *p) {
    consider_admitting(p);
    if (p->view.current.epoch > 0) {
        consider_healing(p);
        return;
    }
    const gw_contact *flock = best_flock(p);
    if (flock != NULL && goes_past(p, flock)) flock = NULL;
    if (flock != NULL) p->view.wait_since_ns = 0; /* the peers that it waits for join that flock as well */
    /* A flock runs, so there is no need to found one. */
    if (flock != NULL && p->view.attempt.active && p->view.attempt.deciding) {
        gw_votes_drop_attempt(p);
        p->phase = GW_AT_WAITING;
    }
    widen_founding(p);
    if (p->phase != GW_AT_WAITING || p->view.attempt.active || p->step.applying) return;

    if (flock != NULL) {
        if (p->save.end.known && !p->config.fast && is_asked_in_vain(p, flock) && may_be_remnant(p, flock))
            gw_end_consider(p);
        else
            gw_end_forget_loneliness(p);
        if (p->phase != GW_AT_OVER) ask_to_join(p, flock);
        return;
    }
    if (gw_end_with_others(p)) return;
    gw_end_consider(p);
    if (p->phase != GW_AT_OVER) gw_strangers_consider(p);
    if (p->phase != GW_AT_OVER) consider_founding(p);
}

uint64_t gw_admit_deadline(const gw_peer *p) {
    uint64_t poll = p->now + gw_peer_ms(p, POLL_MS);
    if (p->phase == GW_AT_WAITING || (p->view.attempt.active && p->view.attempt.deciding)) return poll;
    uint64_t next = p->view.healing || p->view.heal_since_ns != 0 ? poll : UINT64_MAX;
    if (p->view.joiners_since_ns != 0 && admission_time(p) < next) next = admission_time(p);
    return next;
}
