/* Convictions of peers that do not hear of them. A peer that was found to compute or to hold wrong bits
 * (core/brain/faults/verify.c) may be cut off before it hears of the verdict. It may go on alone and come
 * back ahead of those that convicted it, or be started again and bring what it has saved meanwhile. Until it
 * has heard, its state counts for nothing, and neither do checkpoints of later steps that it alone has.
 * Convictions are kept like deaths at shards (core/brain/members/poison.c): in the durable record, sent with
 * every vote, united in every installation. By the installation the peer hears of its own conviction, gives
 * up what must not count, and its next vote says so. */
#include "core/brain/faults/verdicts.h"

#include "core/base/assert.h"
#include "core/brain/record.h"
#include "core/brain/state.h"

#include <stdlib.h>

void gw_verdicts_remember(gw_peer *p, const gw_peer_id *id, uint64_t step) {
    int rank = gw_view_rank(&p->view.current, id);
    GW_ASSERT(rank >= 0);
    const gw_conviction one = {
        .id = *id, .epoch = p->view.current.epoch, .boot = p->view.current.members[rank].boot, .step = step};
    bool own = gw_peer_id_equal(id, &p->config.id), news = own && p->faults.heard_epoch < one.epoch;
    if (news) p->faults.heard_epoch = one.epoch;
    if (!own) news = gw_convictions_add(&p->faults.convictions, &one);
    if (news) gw_peer_record_write(p);
}

/* At a proposer. */

/* Whether a conviction is served: the voter has heard of it, and its durable record says so. If a majority
 * rules, no peer goes on alone, so a view that the voter has installed since serves it as well: the members
 * of that view agree with it, and may have shown what it holds. */
static bool is_served(const gw_attempt *a, uint32_t rank, const gw_conviction *conviction, bool majority) {
    const gw_report *r = a->reports[rank];
    bool recorded = r->recorded_epoch >= conviction->epoch && r->recorded_epoch < a->view.epoch;
    return recorded || (majority && r->installed_epoch > conviction->epoch);
}

void gw_verdicts_unite(const gw_attempt *a, bool majority, gw_convictions *all) {
    for (uint32_t i = 0; i < a->view.count; i++) {
        const gw_convictions *reported = &a->reports[i]->convictions;
        for (uint32_t k = 0; k < reported->count; k++) {
            int rank = gw_view_rank(&a->view, &reported->list[k].id);
            if (rank < 0 || !is_served(a, (uint32_t)rank, &reported->list[k], majority))
                gw_convictions_add(all, &reported->list[k]);
        }
    }
}

/* A heard epoch beyond the proposal's is ignored: it may be as wrong as the voter's other bits. */
bool gw_verdicts_has_heard(const gw_attempt *a, uint32_t rank, uint64_t epoch) {
    uint64_t heard = a->reports[rank]->heard_epoch;
    return heard >= epoch && heard < a->view.epoch;
}

bool gw_verdicts_count_against(const gw_attempt *a, const gw_convictions *all, uint32_t rank) {
    const gw_conviction *one = gw_convictions_of(all, &a->view.members[rank].id);
    return one != NULL && !gw_verdicts_has_heard(a, rank, one->epoch);
}

/* Whether a voter that is not convicted reports this checkpoint, even if its own disk has refused it. */
static bool others_have(const gw_attempt *a, const gw_convictions *convictions, const gw_hash *root) {
    for (uint32_t i = 0; i < a->view.count; i++) {
        const gw_report *r = a->reports[i];
        if (gw_verdicts_count_against(a, convictions, i)) continue;
        if (r->whole_step > 0 && gw_hash_equal(&r->whole_root, root)) return true;
        for (uint32_t k = 0; k < r->inventory_count; k++)
            if (gw_hash_equal(&r->inventory[k].root, root)) return true;
    }
    return false;
}

/* Removes from a report the checkpoints after `step` that no other voter has. */
static void discount_inventory(const gw_attempt *a, gw_report *r, uint64_t step, const gw_convictions *all) {
    uint32_t kept = 0;
    for (uint32_t k = 0; k < r->inventory_count; k++) {
        gw_inventory *one = &r->inventory[k];
        if (one->step <= step || others_have(a, all, &one->root))
            r->inventory[kept++] = *one;
        else
            gw_set_free(&one->chunks);
    }
    r->inventory_count = kept;
    if (r->whole_step > step) r->whole_step = 0;
}

/* If a majority rules: whether the state of a convicted voter is needed. It holds a state from before the
 * conviction, on which all had agreed and which they may have shown, and no other voter does. */
static bool is_needed(const gw_attempt *a, const gw_convictions *all, const gw_conviction *one,
                      const gw_report *r) {
    if (!r->has_state || r->step > one->step) return false;
    for (uint32_t i = 0; i < a->view.count; i++)
        if (a->reports[i]->has_state && a->reports[i]->installed_epoch >= r->installed_epoch &&
            !gw_verdicts_count_against(a, all, i))
            return false;
    return true;
}

void gw_verdicts_discount(const gw_attempt *a, bool majority, gw_install *i) {
    gw_convictions *all = &i->convictions;
    for (uint32_t rank = 0; rank < a->view.count; rank++) {
        gw_report *r = a->reports[rank];
        if (!gw_verdicts_count_against(a, all, rank)) continue;
        const gw_conviction *one = gw_convictions_of(all, &a->view.members[rank].id);
        if (majority && is_needed(a, all, one, r)) {
            gw_convictions_drop(all, &a->view.members[rank].id);
            continue;
        }
        r->has_state = false;
        if (!majority) discount_inventory(a, r, one->step, all);
    }
}

void gw_verdicts_spare(const gw_attempt *a, gw_install *i) {
    GW_ASSERT(i->spared == NULL);
    i->spared = calloc((size_t)i->convictions.count * GW_MAX_INVENTORY + 1, sizeof *i->spared);
    GW_ASSERT_MEMORY(i->spared != NULL);
    for (uint32_t rank = 0; rank < a->view.count; rank++) {
        if (!gw_verdicts_count_against(a, &i->convictions, rank)) continue;
        const gw_report *r = a->reports[rank];
        const gw_conviction *one = gw_convictions_of(&i->convictions, &a->view.members[rank].id);
        for (uint32_t k = 0; k < r->inventory_count; k++)
            if (r->inventory[k].step > one->step && others_have(a, &i->convictions, &r->inventory[k].root))
                i->spared[i->spared_count++] = r->inventory[k].root;
    }
}

/* At a member of the new view. */

bool gw_verdicts_take_over(gw_peer *p, const gw_install *i, bool *changed) {
    const gw_conviction *own = gw_convictions_of(&i->convictions, &p->config.id);
    bool hears = own != NULL && own->epoch > p->faults.heard_epoch;
    gw_convictions others = i->convictions;
    gw_convictions_drop(&others, &p->config.id);
    *changed =
        gw_convictions_unite(&p->faults.convictions, &others) || p->faults.convictions.count != others.count;
    p->faults.convictions = others;
    if (hears) p->faults.heard_epoch = own->epoch;
    *changed |= hears;
    return hears;
}

void gw_verdicts_open(gw_peer *p, const gw_convictions *convictions, uint64_t heard_epoch) {
    p->faults.convictions = *convictions;
    p->faults.heard_epoch = p->faults.recorded_epoch = heard_epoch;
}

void gw_verdicts_recorded(gw_peer *p) {
    p->faults.recorded_epoch = p->faults.heard_epoch;
}
