#include "core/record/ballot.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { VIEW_WIRE_BYTES = 16 + 76 + GW_MAX_MEMBERS * 32 };

void gw_ballot_open(gw_ballot *ballot, bool majority) {
    memset(ballot, 0, sizeof *ballot);
    ballot->majority = majority;
    ballot->later = malloc(GW_BALLOT_LATER * sizeof *ballot->later);
    GW_ASSERT_MEMORY(ballot->later != NULL);
}

void gw_ballot_close(gw_ballot *ballot) {
    free(ballot->later);
    ballot->later = NULL;
}

static bool is_listed(const gw_view *view, const gw_view *listed, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (gw_view_same_peers(view, &listed[i])) return true;
    return false;
}

static bool later_than(const gw_view *view, uint64_t epoch, const gw_view_name *name) {
    if (view->epoch != epoch) return view->epoch > epoch;
    return gw_view_name_compare(&view->name, name) > 0;
}

static const gw_member *leader_of(const gw_view *view) {
    return &view->members[gw_view_rank(view, &view->leader)];
}

bool gw_ballot_must_list(const gw_view *promise, const gw_view *view) {
    const gw_member *leader = leader_of(promise);
    return gw_view_rank_of_life(view, &leader->id, leader->boot, leader->nonce) < 0;
}

/* Promises in rising order of the views. */
typedef struct promises {
    const gw_view *view[GW_BALLOT_LATER + 1];
    uint32_t count;
} promises;

/* Whether the life that leads the promised view has ended: a later life of that leader has had a vote. */
static bool is_of_the_past(const promises *all, const gw_view *promise) {
    for (uint32_t i = 0; i < all->count; i++)
        if (gw_peer_id_equal(&all->view[i]->leader, &promise->leader) &&
            leader_of(all->view[i])->boot > leader_of(promise)->boot)
            return true;
    return false;
}

/* Whether a vote for `view` takes the promise back: the same life leads both views, and it had not installed
 * the earlier one when it proposed the later one. A promise to a life that has ended may stand for others and
 * is kept, even if a proposal of that life arrives late. */
static bool is_taken_back(const promises *all, const gw_view *promise, const gw_view *view,
                          uint64_t base_epoch) {
    return gw_peer_id_equal(&promise->leader, &view->leader) && !gw_ballot_must_list(promise, view) &&
           base_epoch < promise->epoch && !is_of_the_past(all, promise);
}

/* Whether a later promise, to a life that has ended, stands for the promise at `index`. */
static bool is_stood_for(const promises *all, uint32_t index) {
    const gw_view *promise = all->view[index];
    for (uint32_t i = index + 1; i < all->count; i++)
        if (gw_peer_id_equal(&all->view[i]->leader, &promise->leader) &&
            gw_view_same_peers(all->view[i], promise) && is_of_the_past(all, all->view[i]))
            return true;
    return false;
}

static void forget(promises *all, uint32_t index) {
    all->count--;
    memmove(&all->view[index], &all->view[index + 1], (all->count - index) * sizeof(const gw_view *));
}

static promises promised(const gw_ballot *ballot) {
    promises all = {.count = ballot->later_count};
    for (uint32_t i = 0; i < all.count; i++) all.view[i] = &ballot->later[i];
    return all;
}

/* The promises that are outstanding once this peer has voted for `view`, which is the last of them. */
static promises promised_with(const gw_ballot *ballot, const gw_view *view, uint64_t base_epoch) {
    promises all = promised(ballot);
    for (uint32_t i = all.count; i-- > 0;)
        if (is_taken_back(&all, all.view[i], view, base_epoch)) forget(&all, i);
    all.view[all.count++] = view;
    for (uint32_t i = all.count; i-- > 0;)
        if (is_stood_for(&all, i)) forget(&all, i);
    return all;
}

/* Stores promises, which are some of the ballot's own and perhaps a new one behind them. */
static void keep(gw_ballot *ballot, const promises *all) {
    GW_ASSERT(all->count <= GW_BALLOT_LATER);
    ballot->later_count = all->count;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->view[i] != &ballot->later[i]) ballot->later[i] = *all->view[i];
}

bool gw_ballot_has_room(const gw_ballot *ballot, const gw_view *view, uint64_t base_epoch) {
    return !ballot->majority || promised_with(ballot, view, base_epoch).count <= GW_BALLOT_LATER;
}

gw_ballot_answer gw_ballot_consider(const gw_ballot *ballot, const gw_view *view, uint64_t base_epoch,
                                    const gw_view_name *base, const gw_view *listed, uint32_t listed_count) {
    if (view->epoch <= ballot->voted || view->epoch <= ballot->installed.epoch) return GW_BALLOT_OLD;
    if (!ballot->majority) return GW_BALLOT_YES;
    if (ballot->installed.epoch > 0 && later_than(&ballot->installed, base_epoch, base) &&
        !is_listed(&ballot->installed, listed, listed_count))
        return GW_BALLOT_UNLISTED;
    for (uint32_t i = 0; i < ballot->later_count; i++)
        if (later_than(&ballot->later[i], base_epoch, base) && gw_ballot_must_list(&ballot->later[i], view) &&
            !is_listed(&ballot->later[i], listed, listed_count))
            return GW_BALLOT_UNLISTED;
    return gw_ballot_has_room(ballot, view, base_epoch) ? GW_BALLOT_YES : GW_BALLOT_FULL;
}

void gw_ballot_vote(gw_ballot *ballot, const gw_view *view, uint64_t base_epoch) {
    GW_ASSERT(view->epoch > ballot->voted);
    ballot->voted = view->epoch;
    if (view->epoch > ballot->highest) ballot->highest = view->epoch;
    if (!ballot->majority) return;
    const promises all = promised_with(ballot, view, base_epoch);
    keep(ballot, &all);
}

void gw_ballot_install(gw_ballot *ballot, const gw_view *view) {
    GW_ASSERT(view->epoch > ballot->installed.epoch);
    ballot->installed = *view;
    if (view->epoch > ballot->voted) ballot->voted = view->epoch;
    if (view->epoch > ballot->highest) ballot->highest = view->epoch;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ballot->later_count; i++)
        if (gw_view_compare(&ballot->later[i], view) > 0) ballot->later[kept++] = ballot->later[i];
    ballot->later_count = kept;
}

void gw_ballot_take_back(gw_ballot *ballot, const gw_peer_id *leader, const gw_incarnation *life,
                         uint64_t since, uint64_t until) {
    promises all = promised(ballot);
    for (uint32_t i = all.count; i-- > 0;) {
        const gw_view *view = all.view[i];
        bool its_own = gw_peer_id_equal(&view->leader, leader) && gw_member_is(leader_of(view), life);
        bool told_of = view->epoch > since && view->epoch <= until;
        if (its_own && told_of && !is_of_the_past(&all, view)) forget(&all, i);
    }
    keep(ballot, &all);
}

const gw_view *gw_ballot_no_majority_of(const gw_view *base, const gw_view *listed, uint32_t listed_count,
                                        const gw_view *view) {
    if (base->epoch > 0 && !gw_view_majority(base, view)) return base;
    for (uint32_t i = 0; i < listed_count; i++)
        if (!gw_view_majority(&listed[i], view)) return &listed[i];
    return NULL;
}

size_t gw_ballot_bytes(const gw_ballot *ballot) {
    return 64 + (size_t)(1 + ballot->later_count) * VIEW_WIRE_BYTES;
}

void gw_ballot_put(gw_writer *w, const gw_ballot *ballot) {
    gw_put_u8(w, GW_BALLOT_VERSION);
    gw_put_u64(w, ballot->highest);
    gw_put_u64(w, ballot->voted);
    gw_put_u8(w, ballot->installed.epoch > 0);
    if (ballot->installed.epoch > 0) gw_view_put(w, &ballot->installed);
    gw_put_u32(w, ballot->later_count);
    for (uint32_t i = 0; i < ballot->later_count; i++) gw_view_put(w, &ballot->later[i]);
}

void gw_ballot_get(gw_reader *r, gw_ballot *ballot) {
    if (gw_get_u8(r) != GW_BALLOT_VERSION) r->failed = true;
    ballot->highest = gw_get_epoch(r);
    ballot->voted = gw_get_epoch(r);
    if (gw_get_u8(r) != 0) gw_view_get(r, &ballot->installed);
    uint32_t count = gw_get_u32(r);
    if (count > GW_BALLOT_LATER) r->failed = true;
    ballot->later_count = 0;
    for (uint32_t i = 0; i < count && !r->failed; i++) gw_view_get(r, &ballot->later[ballot->later_count++]);
}
