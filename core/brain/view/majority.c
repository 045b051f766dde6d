/* The peers that a proposal needs. If a majority rules, a proposal must list every later view that one of its
 * voters has promised or installed, and have a majority of each (core/record/ballot.h). This file keeps the
 * *learned* views: those that other peers have named in refusals. */
#include "core/brain/view/majority.h"

#include "core/base/assert.h"
#include "core/brain/members/contacts.h"
#include "core/brain/state.h"

#include <stdlib.h>
#include <string.h>

const gw_view *gw_majority_base(const gw_peer *p) {
    return p->view.ballot.majority ? &p->view.ballot.installed : &p->view.current;
}

gw_view gw_majority_view(const gw_peer *p, const gw_member *members, uint32_t count) {
    GW_ASSERT(count > 0 && count <= GW_MAX_MEMBERS);
    gw_view view = {.epoch = p->view.ballot.highest + 1,
                    .leader = p->config.id,
                    .job = p->job,
                    .count = count,
                    .parent = gw_majority_base(p)->name};
    memcpy(view.members, members, count * sizeof *members);
    gw_view_seal(&view);
    return view;
}

/* Whether two views have the same peers and are led by the same life; one must be listed exactly if the other
 * must. */
static bool same_promise(const gw_view *a, const gw_view *b) {
    const gw_member *leader = &a->members[gw_view_rank(a, &a->leader)];
    return gw_view_same_peers(a, b) && gw_peer_id_equal(&a->leader, &b->leader) &&
           gw_view_rank_of_life(b, &leader->id, leader->boot, leader->nonce) >= 0;
}

void gw_majority_keep_learned(gw_peer *p, uint32_t index, uint32_t at) {
    GW_ASSERT(at <= index && index < p->view.learned_count);
    if (at == index) return;
    p->view.learned_from[at] = p->view.learned_from[index];
    p->view.learned_lived[at] = p->view.learned_lived[index];
    p->view.learned[at] = p->view.learned[index];
}

/* Lists a view in a proposal, unless it is listed or no voter can demand it. Returns false if the list is
 * full. */
static bool list_view(gw_attempt *a, const gw_view *base, const gw_view *view, const gw_view *one,
                      bool lived) {
    if (gw_view_compare(one, base) <= 0 || one->epoch >= view->epoch) return true;
    if (!lived && !gw_ballot_must_list(one, view)) return true;
    for (uint32_t k = 0; k < a->listed_count; k++)
        if (gw_view_same_peers(&a->listed[k], one)) return true;
    if (a->listed_count == GW_MAX_LISTED) return false;
    a->listed[a->listed_count++] = *one;
    return true;
}

/* Lists a learned view, unless no proposed peer has named it. Such a view needs no majority, as nobody
 * demands it; the peers that named it may be gone for good. If one of the voters knows it nevertheless, it
 * says so when it refuses. */
static bool list_learned(const gw_peer *p, gw_attempt *a, const gw_view *base, const gw_view *view,
                         uint32_t index) {
    return gw_view_rank(view, &p->view.learned_from[index]) < 0 ||
           list_view(a, base, view, &p->view.learned[index], p->view.learned_lived[index]);
}

/* Lists the promises of this peer and the learned views: all of these, or only those that do not stop the
 * proposal. Returns false if there are more than a proposal can list. */
bool gw_majority_list(const gw_peer *p, gw_attempt *a, const gw_view *base, const gw_view *view, bool all) {
    /* Just as many as needed: a view takes 8 KiB, and most proposals list none. */
    a->listed = malloc((p->view.ballot.later_count + p->view.learned_count + 1) * sizeof *a->listed);
    GW_ASSERT_MEMORY(a->listed != NULL);
    for (uint32_t i = 0; i < p->view.ballot.later_count; i++)
        if (!list_view(a, base, view, &p->view.ballot.later[i], false)) return false;
    for (uint32_t i = 0; i < p->view.learned_count; i++)
        if ((all || gw_view_majority(&p->view.learned[i], view)) && !list_learned(p, a, base, view, i))
            return false;
    return true;
}

/* Makes room for learned views: keeps those that the refused proposal should have listed. Peers that demand
 * others name them again. */
static void forget_unlisted(gw_peer *p) {
    gw_attempt list = {.listed = malloc(GW_MAX_LISTED * sizeof *list.listed)};
    GW_ASSERT_MEMORY(list.listed != NULL);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->view.learned_count; i++) {
        uint32_t before = list.listed_count;
        list_learned(p, &list, &p->view.ballot.installed, &p->view.voted, i);
        if (list.listed_count > before) gw_majority_keep_learned(p, i, kept++);
    }
    p->view.learned_count = kept;
    free(list.listed);
}

void gw_majority_learn(gw_peer *p, const gw_peer_id *from, const gw_view *view, bool lived) {
    if (view->epoch > p->view.ballot.highest) p->view.ballot.highest = view->epoch;
    if (gw_view_compare(view, &p->view.ballot.installed) <= 0) return; /* it need not be listed */
    for (uint32_t i = 0; i < p->view.learned_count; i++)
        if (gw_peer_id_equal(&p->view.learned_from[i], from) && same_promise(&p->view.learned[i], view)) {
            if (gw_view_compare(&p->view.learned[i], view) < 0) p->view.learned[i] = *view;
            p->view.learned_lived[i] |= lived;
            return;
        }
    if (p->view.learned_count == GW_MAX_LISTED) forget_unlisted(p);
    if (p->view.learned_count == GW_MAX_LISTED) return;
    p->view.learned_lived[p->view.learned_count] = lived;
    p->view.learned_from[p->view.learned_count] = *from;
    p->view.learned[p->view.learned_count++] = *view;
}

static bool has_told_of(const gw_peer *p, const gw_peer_id *id, const gw_view *view) {
    for (uint32_t i = 0; i < p->view.learned_count; i++)
        if (gw_peer_id_equal(&p->view.learned_from[i], id) && gw_view_same_peers(&p->view.learned[i], view))
            return true;
    return false;
}

/* With float sums: whether a peer has a state that this peer lacks, which cannot be computed again and may be
 * later than all that is here. It is not needed if a later view has left a checkpoint on this peer's disk, as
 * that view went on from another state. */
static bool is_needed(gw_peer *p, const gw_peer_id *id) {
    const gw_contact *contact = gw_peer_contact(p, id);
    if (!p->config.fast || contact == NULL || contact->refusal_state.epoch == 0) return false;
    const gw_view_ref *its = &contact->refusal_state;
    const gw_inventory *newest = gw_peer_inventory_newest(&p->inventory);
    if (newest != NULL && newest->epoch > its->epoch) return false;
    if (!p->state.present || p->view.state_view.epoch < its->epoch) return true;
    return p->view.state_view.epoch == its->epoch &&
           !gw_view_name_equal(&p->view.state_view.name, &its->name);
}

/* Removes from `view` the members that have named the view `told`, except those whose state is needed. */
static void drop_tellers(gw_peer *p, const gw_view *told, gw_view *view) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        const gw_member *member = &view->members[i];
        bool stays = !has_told_of(p, &member->id, told) || is_needed(p, &member->id);
        if (stays) view->members[kept++] = *member;
    }
    view->count = kept;
}

/* If a majority rules: finds the members of `view` that can be proposed without any others. They are a
 * majority of all views that they must list; peers that demand a view of which there is no majority here are
 * left out. Returns false if there are not enough. */
bool gw_majority_find_enough(gw_peer *p, const gw_view *view, gw_view *enough) {
    const gw_view *base = gw_majority_base(p);
    *enough = *view;
    for (;;) {
        gw_attempt a = {0};
        bool lists = gw_majority_list(p, &a, base, enough, true);
        const gw_view *lacks = gw_ballot_no_majority_of(base, a.listed, a.listed_count, enough);
        uint32_t count = enough->count;
        if (lacks != NULL) drop_tellers(p, lacks, enough);
        bool settled = enough->count == count; /* no further member can be left out */
        free(a.listed);
        if (settled) return lists && lacks == NULL;
    }
}

bool gw_majority_is_enough(gw_peer *p, const gw_member *members, uint32_t count) {
    GW_ASSERT(p->view.ballot.majority);
    const gw_view view = gw_majority_view(p, members, count);
    gw_view enough;
    return gw_majority_find_enough(p, &view, &enough);
}
