/* Machines that change bits of what they send, of what they receive, or of either, so and so often: a sum
 * then fails at who has received it, and a state that is fetched does, with the member whose bits came
 * changed (core/brain/faults/path_errors.c). Each such pair is kept, with whose fault it was, which no peer
 * knows: so it can be said whether those are named that should be. */
#include "tools/sim/world/cluster.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

static const char ACCUSATION[] = "bits of what it sent of ", VERDICT[] = "bits changed between it ",
                  HEARD[] = "others found that it computed or held other bits";

enum {
    OF_TWO_THAT_END = 3,
    MOST_UNFOUND =
        12, /* while all else goes wrong, so that who remembers is gone, or several machines do it */
};

static bool begins_with(const gw_action *notice, const char *phrase) {
    return notice->text != NULL && strncmp(notice->text, phrase, strlen(phrase)) == 0;
}

static bool is_end(const sim_change *change, const gw_peer_id *id) {
    return gw_peer_id_equal(&change->from, id) || gw_peer_id_equal(&change->to, id);
}

/* ---- the fault ---- */

static uint32_t draw_times(sim_cluster *c) {
    double lot = gw_rng_unit(&c->rng);
    uint32_t some = (uint32_t)sim_between(c, 3, 6);
    return lot < 0.35 ? 1 : lot < 0.65 ? 2 : lot < 0.85 ? some : SIM_UNTIL_IT_ENDS;
}

bool sim_sums_are_small(const sim_cluster *c) {
    return sim_lot(c->options, 0x5a11) % 2 == 0;
}

void sim_begin_to_change(sim_cluster *c) {
    sim_peer *p = &c->peers[sim_between(c, 0, c->count - 1)];
    bool received = sim_chance(c, 0.5), both = sim_lot(c->options, sim_now(c)) % 3 == 0;
    uint32_t times = draw_times(c);
    if (!sim_runs(p) || p->changes != 0) return;
    c->result->faults[GW_SIM_CHANGING_MACHINE]++;
    p->changes = times;
    p->changes_received = received || both;
    p->changes_sent = !received || both;
    sim_trace(c, "peer %u changes bits of what it %s from now on, %u times", p->number,
              both       ? "sends and receives"
              : received ? "receives"
                         : "sends",
              times);
}

void sim_changes_ended(sim_peer *p) {
    if (p->changes == SIM_UNTIL_IT_ENDS) p->changes = 0;
    p->unfound = 0;
}

static sim_peer *at_fault(sim_cluster *c, uint32_t from, uint32_t to) {
    sim_peer *sender = &c->peers[from], *receiver = &c->peers[to];
    if (receiver->changes != 0 && receiver->changes_received) return receiver;
    return sender->changes != 0 && sender->changes_sent ? sender : NULL;
}

bool sim_would_change(sim_cluster *c, uint32_t from, uint32_t to) {
    return !c->calm && at_fault(c, from, to) != NULL;
}

uint32_t sim_change_bits(sim_cluster *c, uint32_t from, uint32_t to) {
    sim_peer *whose = at_fault(c, from, to);
    GW_ASSERT(whose != NULL);
    if (whose->changes != SIM_UNTIL_IT_ENDS) whose->changes--;
    if (c->change_count == c->change_capacity) {
        c->change_capacity = 2 * c->change_capacity + 16;
        c->changes = realloc(c->changes, c->change_capacity * sizeof *c->changes);
        GW_ASSERT_MEMORY(c->changes != NULL);
    }
    c->changes[c->change_count] = (sim_change){
        .from = c->peers[from].id, .to = c->peers[to].id, .whose = whose->id, .boot = whose->boot};
    sim_trace(c, "bits change between peer %u and peer %u, in the memory of %u", from, to, whose->number);
    return c->change_count++;
}

/* ---- who is told of ---- */

/* Who is in a view with another does not keep to itself what came of that one. */
static bool should_tell(const sim_peer *p, const sim_change *change) {
    gw_peer_status status;
    if (p->finished) return false;
    gw_peer_status_get(p->brain, &status);
    return status.view != NULL && gw_view_rank(status.view, &change->from) >= 0;
}

static uint32_t members_of_view(const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    return status.view == NULL ? 0 : status.view->count;
}

void sim_hears_of_change(sim_cluster *c, sim_peer *p, uint32_t which, bool holds, gw_event *event) {
    bool tells = should_tell(p, &c->changes[which]);
    c->changes[which].of_two = tells && members_of_view(p) == 2;
    c->changes[which].held = holds;
    event->changed = true;
    event->peer = c->changes[which].from;
    event->text = "other bits than it had there";
    sim_event(c, p, event);
    if (tells && !c->changes[which].told)
        sim_violation(c, "peer %u does not tell that bits of what it was sent have changed", p->number);
}

/* What is between two such machines is of either, and what is between others hides who it is. */
static bool others_change(const sim_cluster *c, const sim_peer *p) {
    for (uint32_t i = 0; i < c->count; i++)
        if (&c->peers[i] != p && sim_runs(&c->peers[i]) && c->peers[i].changes != 0) return true;
    return false;
}

void sim_hears_of_changed_sum(sim_cluster *c, sim_peer *p, uint32_t which, gw_event *event) {
    sim_hears_of_change(c, p, which, true, event);
    const sim_change *change = &c->changes[which];
    sim_peer *whose = sim_by_id(c, &change->whose);
    if (!change->told || change->of_two || whose == NULL || whose->changes == 0 || others_change(c, whose))
        return;
    if (++whose->unfound > MOST_UNFOUND)
        sim_violation(c, "bits change in the memory of peer %u for the %uth time, and nobody has found it",
                      whose->number, whose->unfound);
}

bool sim_accuses(sim_cluster *c, const sim_peer *by, const gw_action *notice) {
    if (!begins_with(notice, ACCUSATION)) return false;
    for (uint32_t i = c->change_count; i > 0; i--) {
        sim_change *change = &c->changes[i - 1];
        if (change->told || !gw_peer_id_equal(&change->to, &by->id) ||
            !gw_peer_id_equal(&change->from, &notice->peer))
            continue;
        change->told = true;
        return true;
    }
    const sim_peer *p = sim_by_id(c, &notice->peer);
    sim_violation(c, "peer %u says that bits of what peer %d sent have changed, and none have", by->number,
                  p == NULL ? -1 : (int)p->number);
    return true;
}

bool sim_is_verdict_on_changes(const gw_action *notice) {
    return begins_with(notice, VERDICT);
}

/* It was in accusations with machines of several others that change bits, so that it is what these have in
 * common: nobody can know better. */
static bool is_between_several(const sim_cluster *c, const gw_peer_id *id) {
    const gw_peer_id *first = NULL;
    for (uint32_t i = 0; i < c->change_count; i++) {
        const sim_change *change = &c->changes[i];
        if (!change->told || !is_end(change, id)) continue;
        if (first != NULL && !gw_peer_id_equal(first, &change->whose)) return true;
        first = &change->whose;
    }
    return false;
}

/* This life's doing, of which others have been told, and for which it has not been found wrong yet. */
static bool is_owed(const sim_change *change, const sim_peer *by) {
    return change->told && !change->paid && gw_peer_id_equal(&change->whose, &by->id) &&
           change->boot == by->boot;
}

/* Others have been told of bits that its machine has changed. */
static bool has_changed(const sim_cluster *c, const gw_peer_id *id) {
    bool any = false;
    for (uint32_t i = 0; i < c->change_count && !any; i++)
        any = c->changes[i].told && gw_peer_id_equal(&c->changes[i].whose, id);
    return any;
}

/* It hears that it was found to. */
static bool pays(sim_cluster *c, const sim_peer *by) {
    bool owed = false;
    for (uint32_t i = 0; i < c->change_count; i++) {
        if (!is_owed(&c->changes[i], by)) continue;
        c->changes[i].paid = owed = true;
    }
    return owed;
}

bool sim_convicts_rightly(sim_cluster *c, const sim_peer *by, const gw_action *notice) {
    bool heard = begins_with(notice, HEARD);
    if (!heard && !sim_is_verdict_on_changes(notice)) return false;
    sim_peer *found = sim_by_id(c, &notice->peer);
    if (found != NULL) found->unfound = 0;
    bool changed = heard ? pays(c, by) : has_changed(c, &notice->peer);
    bool excused = !changed && is_between_several(c, &notice->peer);
    c->result->mistaken += excused && heard;
    return changed || excused;
}

bool sim_has_changed(const sim_cluster *c, const sim_peer *p) {
    return has_changed(c, &p->id);
}

bool sim_halts_rightly(const sim_cluster *c, const sim_peer *p) {
    bool rightly = false;
    for (uint32_t other = 0; other < c->count && !rightly; other++) {
        uint32_t times = 0;
        for (uint32_t i = 0; i < c->change_count && other != p->number; i++) {
            const sim_change *change = &c->changes[i];
            times += change->told && change->of_two && change->held && is_end(change, &p->id) &&
                     is_end(change, &c->peers[other].id);
        }
        rightly = times >= OF_TWO_THAT_END;
    }
    return rightly;
}

bool sim_cannot_be_fetched_from(const sim_cluster *c, const sim_peer *p) {
    for (uint32_t i = 0; i < c->change_count; i++)
        if (gw_peer_id_equal(&c->changes[i].from, &p->id)) return true;
    return false;
}

bool sim_cannot_fetch(const sim_cluster *c, const sim_peer *p) {
    for (uint32_t i = c->change_count; i-- > 0;)
        if (gw_peer_id_equal(&c->changes[i].to, &p->id)) return c->changes[i].of_two || sim_has_changed(c, p);
    return false;
}
