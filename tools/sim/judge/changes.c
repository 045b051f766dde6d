/* Promise: the receiver of changed bits notices them and accuses the sender; the machine at fault is
 * convicted before long; and no sound machine is convicted, unless several machines change bits. A sum or
 * a fetched state with changed bits fails at its receiver, which names the sender
 * (core/brain/faults/path_errors.c). The judge records each change with the machine at fault, which no
 * peer knows. */
#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

static const char ACCUSATION[] = "bits of what it sent of ", VERDICT[] = "bits changed between it ",
                  HEARD[] = "others found that it computed or held other bits";

static bool begins_with(const gw_action *notice, const char *phrase) {
    return notice->notice.text != NULL && strncmp(notice->notice.text, phrase, strlen(phrase)) == 0;
}

static bool is_end(const sim_change *change, const gw_peer_id *id) {
    return gw_peer_id_equal(&change->from, id) || gw_peer_id_equal(&change->to, id);
}

static void on_changed(void *context, const sim_changed_bits *bits) {
    sim_judges *j = context;
    sim_changes *all = &j->changes;
    const sim_peer *peers = j->c->peers, *whose = &peers[bits->at_fault];
    if (all->count == all->capacity) {
        all->capacity = 2 * all->capacity + 16;
        all->list = realloc(all->list, all->capacity * sizeof *all->list);
        GW_ASSERT_MEMORY(all->list != NULL);
    }
    all->list[all->count++] = (sim_change){
        .from = peers[bits->from].id, .to = peers[bits->to].id, .whose = whose->id, .boot = whose->boot};
}

/* Notes what the receiver must do: if it is in a view with the sender, it must report the change. */
static void on_arrives(void *context, sim_peer *p, uint32_t which, bool holds) {
    sim_judges *j = context;
    sim_change *change = &j->changes.list[which];
    gw_peer_status status = {.view = NULL};
    if (!p->finished) gw_peer_status_get(p->brain, &status);
    j->changes.tells = status.view != NULL && gw_view_rank(status.view, &change->from) >= 0;
    change->of_two = j->changes.tells && status.view->count == 2;
    change->held = holds;
}

/* Whether another machine changes bits, too. Then changes between the two may be the fault of either, and
 * changes with third machines hide who it is. */
static bool others_change(const sim_cluster *c, const sim_peer *p) {
    for (uint32_t i = 0; i < c->count; i++)
        if (&c->peers[i] != p && sim_runs(&c->peers[i]) && c->peers[i].changes != 0) return true;
    return false;
}

static void on_heard(void *context, sim_peer *p, uint32_t which, bool in_sum) {
    /* The bound is generous: because of other faults, peers that remember changes may be gone, or several
     * machines may change bits. */
    enum { MOST_UNFOUND = 12 };
    sim_judges *j = context;
    const sim_change *change = &j->changes.list[which];
    if (j->changes.tells && !change->told)
        sim_violation(j->c, "peer %u does not report that bits sent to it have changed", p->number);
    const sim_peer *whose = sim_by_id(j->c, &change->whose);
    if (!in_sum || !change->told || change->of_two || whose == NULL || whose->changes == 0 ||
        others_change(j->c, whose))
        return;
    uint32_t unfound = ++j->changes.unfound[whose->number];
    if (unfound > MOST_UNFOUND)
        sim_violation(j->c,
                      "bits change in the memory of peer %u for the %uth time, and it has not been convicted",
                      whose->number, unfound);
}

bool sim_accuses(sim_judges *j, const sim_peer *by, const gw_action *notice) {
    if (!begins_with(notice, ACCUSATION)) return false;
    for (uint32_t i = j->changes.count; i > 0; i--) {
        sim_change *change = &j->changes.list[i - 1];
        if (change->told || !gw_peer_id_equal(&change->to, &by->id) ||
            !gw_peer_id_equal(&change->from, &notice->peer))
            continue;
        change->told = true;
        return true;
    }
    const sim_peer *p = sim_by_id(j->c, &notice->peer);
    sim_violation(j->c, "peer %u reports that bits sent by peer %d have changed, and none have", by->number,
                  p == NULL ? -1 : (int)p->number);
    return true;
}

bool sim_is_verdict_on_changes(const gw_action *notice) {
    return begins_with(notice, VERDICT);
}

/* Whether several machines that change bits were in accusations with this one. Then this machine is what
 * these accusations have in common, and no peer can know better. */
static bool is_between_several(const sim_changes *all, const gw_peer_id *id) {
    const gw_peer_id *first = NULL;
    for (uint32_t i = 0; i < all->count; i++) {
        const sim_change *change = &all->list[i];
        if (!change->told || !is_end(change, id)) continue;
        if (first != NULL && !gw_peer_id_equal(first, &change->whose)) return true;
        first = &change->whose;
    }
    return false;
}

/* Whether other peers have reported bits that this peer's machine has changed. */
static bool has_changed(const sim_changes *all, const gw_peer_id *id) {
    for (uint32_t i = 0; i < all->count; i++)
        if (all->list[i].told && gw_peer_id_equal(&all->list[i].whose, id)) return true;
    return false;
}

/* Settles all reported changes by this life, which hears that it was convicted of changing bits. Returns
 * whether there were any. */
static bool settle_changes(sim_changes *all, const sim_peer *by) {
    bool any = false;
    for (uint32_t i = 0; i < all->count; i++) {
        sim_change *change = &all->list[i];
        if (!change->told || change->settled || change->boot != by->boot) continue;
        if (gw_peer_id_equal(&change->whose, &by->id)) change->settled = any = true;
    }
    return any;
}

bool sim_convicts_rightly(sim_judges *j, const sim_peer *by, const gw_action *notice) {
    bool heard = begins_with(notice, HEARD);
    if (!heard && !sim_is_verdict_on_changes(notice)) return false;
    const sim_peer *found = sim_by_id(j->c, &notice->peer);
    if (found != NULL) j->changes.unfound[found->number] = 0;
    bool changed = heard ? settle_changes(&j->changes, by) : has_changed(&j->changes, &notice->peer);
    bool excused = !changed && is_between_several(&j->changes, &notice->peer);
    j->c->result->mistaken += excused && heard;
    return changed || excused;
}

bool sim_halts_rightly(const sim_judges *j, const sim_peer *p) {
    enum { OF_TWO_THAT_END = 3 };
    const sim_changes *all = &j->changes;
    for (uint32_t other = 0; other < j->c->count; other++) {
        uint32_t times = 0;
        for (uint32_t i = 0; i < all->count && other != p->number; i++) {
            const sim_change *change = &all->list[i];
            times += change->told && change->of_two && change->held && is_end(change, &p->id) &&
                     is_end(change, &j->c->peers[other].id);
        }
        if (times >= OF_TWO_THAT_END) return true;
    }
    return false;
}

bool sim_cannot_be_fetched_from(const sim_judges *j, const sim_peer *p) {
    for (uint32_t i = 0; i < j->changes.count; i++)
        if (gw_peer_id_equal(&j->changes.list[i].from, &p->id)) return true;
    return false;
}

bool sim_cannot_fetch(const sim_judges *j, const sim_peer *p) {
    for (uint32_t i = j->changes.count; i-- > 0;) {
        const sim_change *change = &j->changes.list[i];
        if (gw_peer_id_equal(&change->to, &p->id)) return change->of_two || has_changed(&j->changes, &p->id);
    }
    return false;
}

static void on_end(void *context, sim_peer *p) {
    ((sim_judges *)context)->changes.unfound[p->number] = 0;
}

const sim_observer sim_changes_observer = {.bits_changed = on_changed,
                                           .change_arrives = on_arrives,
                                           .change_heard = on_heard,
                                           .process_ends = on_end};
