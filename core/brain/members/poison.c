/* Poison shards: which shard kills every peer that computes it, or makes it give up. After the first death in
 * a step the members of the view report their claims: each says which shard a worker is about to compute, and
 * when the worker has none any more. When a peer dies, its claims tell which shards it was computing; when it
 * comes back, it reports the same itself (gw_peer_config.fell); a peer that gives up names its shard in its
 * last words. These deaths are kept in the durable record, told with every vote and united in every
 * installation, so that they outlive the peers. Even if peers are started again whenever they crash, the
 * third life lost to a shard names it, on all peers alike (core/README.md, section 5).
 *
 * Where worker processes compute the shards, a process that ends at one is such a life as well. Its peer
 * lives on, has another process compute the shard, and gives the shard back after the second loss; then
 * the flock deals it again. A peer alone thus comes to name a poison shard by its own worker processes. */
#include "core/brain/members/poison.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/members/inside.h"
#include "core/brain/outbox.h"
#include "core/brain/record.h"
#include "core/brain/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LOST_CLAIMS = 2 }; /* of one step: a peer that loses more cannot do its share */

void gw_poison_note_gap(gw_peer *p) {
    p->members.claims_old = true;
}

void gw_poison_claim(gw_peer *p, const gw_event *event) {
    if (p->view.current.epoch == 0) return;
    gw_message message = gw_peer_about_view(p, GW_MSG_CLAIM);
    message.claim.step = p->state.step;
    message.claim.worker = event->claim.worker;
    message.claim.shard = event->claim.shard;
    gw_peer_send_members(p, &message);
}

/* A control link to this life of a peer stands. Claims that the peer sent between two links of the same life
 * are lost; before the first link of a life there may have been none. */
void gw_poison_linked(const gw_peer *p, gw_contact *contact, const gw_incarnation *life) {
    bool again = gw_same_life(&contact->linked_life, life);
    contact->claims_lost = again ? p->state.step : UINT64_MAX;
    if (again && gw_same_life(&contact->claims.life, life)) contact->claims.more = true;
}

/* Forgets the claims of a peer that is left out of the view: without a view it does not report which of its
 * shards are finished. */
void gw_poison_left_out(gw_contact *contact) {
    contact->claims.any = false;
}

/* Notes a claim. It may be about any view, since views may follow each other fast when several peers die, and
 * about the next step, if the sender has applied the sum before this peer. */
void gw_poison_receive_claim(gw_peer *p, const gw_contact *sender, const gw_message *m) {
    gw_contact *from = gw_contacts_own(p, sender);
    gw_reported_claims *claims = &from->claims;
    if (m->claim.step < p->state.step) return;
    if (!claims->any || claims->step != m->claim.step || !gw_same_life(&claims->life, &from->linked_life)) {
        *claims = (gw_reported_claims){.any = true, .step = m->claim.step, .life = from->linked_life};
        memset(claims->shard, 0xFF, sizeof claims->shard);
        bool lost = from->claims_lost != UINT64_MAX && m->claim.step <= from->claims_lost;
        /* A first message that withdraws a claim shows that an earlier one was lost. */
        claims->more = lost || m->claim.shard == GW_SHARD_ANY;
    }
    if (m->claim.worker < GW_MAX_CLAIMS)
        claims->shard[m->claim.worker] = m->claim.shard;
    else
        claims->more = true;
}

void gw_poison_forget(gw_peer *p, uint64_t step) {
    p->members.lost_claims = 0;
    p->members.claims_old = false;
    for (uint32_t i = 0; i < p->members.contact_count; i++)
        if (p->members.contacts[i].claims.step != step) p->members.contacts[i].claims.any = false;
    if (gw_shard_deaths_forget_before(&p->members.deaths, step)) gw_peer_record_write(p);
}

void gw_poison_open(gw_peer *p, const gw_shard_deaths *recorded) {
    bool changed = p->config.forget_losses && recorded->count > 0;
    p->members.deaths = *recorded;
    if (p->config.forget_losses) p->members.deaths.count = 0;
    for (uint32_t i = 0; i < p->config.fell_count && !p->config.forget_losses; i++)
        changed |= gw_shard_deaths_add(&p->members.deaths, &p->config.fell[i]);
    p->members.deaths_changed = changed;
}

/* The step in which a peer died. Its metadata or its claims may name a later step than this peer has reached,
 * in this view or in one that this peer has not heard of; then all that it claimed in earlier steps was
 * done. */
static uint64_t step_of_death(const gw_peer *p, const gw_contact *contact) {
    uint64_t step = p->state.step;
    if (contact->epoch >= p->view.current.epoch && contact->step > step) step = contact->step;
    bool claimed = contact->claims.any && gw_same_life(&contact->claims.life, &contact->incarnation);
    return claimed && contact->claims.step > step ? contact->claims.step : step;
}

/* Notes that a peer died while it computed a shard; returns whether that is news. */
static bool note_death(gw_peer *p, const gw_contact *contact, uint32_t shard) {
    return gw_shard_deaths_add(&p->members.deaths, &(gw_shard_death){.id = contact->id,
                                                                     .boot = contact->incarnation.boot,
                                                                     .step = step_of_death(p, contact),
                                                                     .shard = shard});
}

/* Writes the shards of which one is poison, up to a few: "4 or 5", "4, 5, 6, 7 or one of 2 more". */
static void list_shards(const gw_poison *poison, char *text, size_t capacity) {
    uint32_t named = poison->ties < GW_POISON_NAMED ? poison->ties : GW_POISON_NAMED - 1;
    int used = snprintf(text, capacity, "%" PRIu32, poison->shard);
    for (uint32_t i = 0; i < named; i++) {
        bool last = i + 1 == poison->ties;
        used += snprintf(text + used, capacity - (size_t)used, "%s%" PRIu32, last ? " or " : ", ",
                         poison->tied[i]);
    }
    if (poison->ties > named)
        snprintf(text + used, capacity - (size_t)used, " or one of %" PRIu32 " more", poison->ties - named);
}

/* Ends this peer, with a message that names the poison shard. */
static void end_by(gw_peer *p, const gw_poison *poison) {
    char shards[100]; /* several, if they were computed together each time */
    list_shards(poison, shards, sizeof shards);
    const gw_members_state *m = &p->members;
    bool knows =
        m->last_loss[0] != '\0' && m->last_loss_step == poison->step && m->last_loss_shard == poison->shard;
    if (poison->step == p->state.step) p->members.fatal_shard_plus_1 = poison->shard + 1;
    gw_peer_finish(p, GW_FINISH_FAILED, NULL,
                   "shard %s of step %" PRIu64
                   " is poison: every peer that computes it dies, fails or hangs (%" PRIu32
                   " so far%s%s); when its data or code are mended, start every peer with --forget-losses",
                   shards, poison->step, poison->lives, knows ? "; here: " : "", knows ? m->last_loss : "");
}

static void judge(gw_peer *p, uint64_t step) {
    gw_poison poison;
    bool alone = p->view.current.count <= 1;
    if (gw_shard_deaths_poison(&p->members.deaths, step, alone, &poison)) end_by(p, &poison);
}

void gw_poison_unite(gw_peer *p, const gw_shard_deaths *losses, uint64_t step) {
    if (p->state.step != step) p->members.lost_claims = 0;
    bool changed = gw_shard_deaths_unite(&p->members.deaths, losses);
    if (gw_shard_deaths_forget_before(&p->members.deaths, step) || changed) gw_peer_record_write(p);
    judge(p, step);
}

void gw_poison_worker_lost(gw_peer *p, const gw_event *event) {
    const gw_shard_death loss = {.id = p->config.id,
                                 .boot = p->config.incarnation.boot,
                                 .serial = event->worker_lost.serial,
                                 .step = event->worker_lost.step,
                                 .shard = event->worker_lost.shard};
    bool counts =
        event->worker_lost.kind == GW_WORKER_CRASHED || event->worker_lost.kind == GW_WORKER_STARVED;
    if (!counts || !gw_shard_deaths_add(&p->members.deaths, &loss)) return;
    if (event->text != NULL) {
        p->members.last_loss_step = loss.step;
        p->members.last_loss_shard = loss.shard;
        snprintf(p->members.last_loss, sizeof p->members.last_loss, "%s", event->text);
    }
    gw_peer_record_write(p);
    judge(p, p->state.step);
}

void gw_poison_give_up(gw_peer *p, uint32_t shard, const gw_event *event) {
    p->members.fatal_shard_plus_1 = shard + 1;
    const gw_shard_death own = {
        .id = p->config.id, .boot = p->config.incarnation.boot, .step = p->state.step, .shard = shard};
    if (gw_shard_deaths_add(&p->members.deaths, &own)) gw_peer_record_write(p);
    gw_peer_finish(p, GW_FINISH_FAILED, NULL,
                   "shard %" PRIu32 " of step %" PRIu64 " cannot be computed here: %s", shard, p->state.step,
                   gw_peer_why(event));
}

void gw_poison_give_back(gw_peer *p, uint32_t shard, const gw_event *event) {
    if (++p->members.lost_claims > MOST_LOST_CLAIMS)
        gw_poison_give_up(p, shard, event);
    else
        gw_agenda_change_view(p, "shard %u is given back: %.60s", shard, gw_peer_why(event));
}

void gw_poison_agree(gw_peer *p, const gw_shard_deaths *agreed) {
    p->members.agreed = *agreed;
}

static bool has_last_words(const gw_peer *p, const gw_contact *contact) {
    return contact->fatal_shard_plus_1 != 0 && contact->step == step_of_death(p, contact);
}

/* Notes the death of a peer at the shards that its workers have claimed, which are none if all workers had
 * finished. If its claims are not known, the death is noted at an unknown shard. */
static bool note_claims(gw_peer *p, const gw_contact *contact) {
    const gw_reported_claims *claims = &contact->claims;
    bool known = !p->members.claims_old && claims->any && claims->step == step_of_death(p, contact) &&
                 gw_same_life(&claims->life, &contact->incarnation);
    bool computed = false, changed = false;
    for (uint32_t worker = 0; worker < GW_MAX_CLAIMS && known; worker++) {
        if (claims->shard[worker] == GW_SHARD_ANY) continue;
        computed = true;
        changed |= note_death(p, contact, claims->shard[worker]);
    }
    return known && (computed || !claims->more) ? changed : note_death(p, contact, GW_SHARD_ANY);
}

void gw_poison_note_death(gw_peer *p, gw_contact *contact) {
    const gw_incarnation *life = &contact->incarnation;
    if (p->view.current.epoch == 0 ||
        gw_view_rank_of_life(&p->view.current, &contact->id, life->boot, life->nonce) < 0)
        return;
    bool told = has_last_words(p, contact);
    if (told ? note_death(p, contact, contact->fatal_shard_plus_1 - 1) : note_claims(p, contact))
        gw_peer_record_write(p);
    judge(p, p->state.step);
}

void gw_poison_farewell(gw_peer *p, bool failed) {
    p->members.blameless = p->members.fatal_shard_plus_1 == 0;
    if (!failed || p->view.current.epoch == 0) return;
    gw_message message = gw_peer_about_view(p, GW_MSG_FELL);
    message.fell.step = p->state.step;
    message.fell.shard_plus_1 = p->members.fatal_shard_plus_1;
    message.fell.blameless = p->members.blameless;
    gw_peer_send_members(p, &message);
}

void gw_poison_receive_last_words(gw_peer *p, const gw_contact *sender, const gw_message *m) {
    gw_contact *from = gw_contacts_own(p, sender);
    from->sent_fell = true;
    from->fell.epoch = m->epoch;
    from->fell.step = m->fell.step;
    from->fell.shard_plus_1 = m->fell.shard_plus_1;
    from->fell.blameless = m->fell.blameless;
}

void gw_poison_apply_last_words(gw_contact *contact) {
    if (!contact->sent_fell) return;
    if (contact->fell.epoch > contact->epoch) contact->epoch = contact->fell.epoch;
    contact->step = contact->fell.step;
    contact->fatal_shard_plus_1 = contact->fell.shard_plus_1;
    contact->blameless = contact->fell.blameless;
}

void gw_poison_note_last_words(gw_peer *p, gw_contact *contact) {
    if (!has_last_words(p, contact) ||
        !gw_shard_deaths_lacks_shard(&p->members.deaths, &contact->id, contact->incarnation.boot,
                                     step_of_death(p, contact)))
        return;
    bool news = note_death(p, contact, contact->fatal_shard_plus_1 - 1);
    GW_ASSERT(news); /* the known shard replaces the unknown one */
    gw_peer_record_write(p);
    judge(p, p->state.step);
}
