/* Which peers a proposal needs. Where a majority rules, it must list every later view that one of its voters has promised
 * or installed, and have a majority of each (core/record/ballot.h). What others have told of such views is kept here. */
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

/* The same peers, led by the same life: the one must be listed where the other must. */
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

/* Lists a view, unless it is listed, or no voter of the proposal can ask for it. */
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

/* One that nobody who is proposed has told of is asked for by nobody, and needs no majority: those who told
 * of it may be gone for good. Should one of the voters know it all the same, it tells of it. */
static bool list_learned(const gw_peer *p, gw_attempt *a, const gw_view *base, const gw_view *view,
                         uint32_t index) {
    return gw_view_rank(view, &p->view.learned_from[index]) < 0 ||
           list_view(a, base, view, &p->view.learned[index], p->view.learned_lived[index]);
}

/* Of what was learned all, or what does not stop the proposal. False: there are more than it can list. */
bool gw_majority_list(const gw_peer *p, gw_attempt *a, const gw_view *base, const gw_view *view, bool all) {
    /* No more than can be listed: a view is 8 KiB, and most proposals list none. */
    a->listed = malloc((p->view.ballot.later_count + p->view.learned_count + 1) * sizeof *a->listed);
    GW_ASSERT_MEMORY(a->listed != NULL);
    for (uint32_t i = 0; i < p->view.ballot.later_count; i++)
        if (!list_view(a, base, view, &p->view.ballot.later[i], false)) return false;
    for (uint32_t i = 0; i < p->view.learned_count; i++)
        if ((all || gw_view_majority(&p->view.learned[i], view)) && !list_learned(p, a, base, view, i))
            return false;
    return true;
}

/* Of what was learned keeps what the proposal that was refused should have listed: whoever asks for more
 * tells it again. */
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
    if (gw_view_compare(view, &p->view.ballot.installed) <= 0) return; /* nobody need list it */
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

/* Float sums: it has a state, which cannot be made again, and which may be later than all that is here. Not
 * where a later view has left a checkpoint on the disk here: all that it had shown came of another state. */
static bool is_needed(gw_peer *p, const gw_peer_id *id) {
    const gw_contact *contact = gw_peer_contact(p, id);
    if (!p->config.fast || contact == NULL || contact->told_state.epoch == 0) return false;
    const gw_view_ref *its = &contact->told_state;
    const gw_inventory *newest = gw_peer_inventory_newest(&p->inventory);
    if (newest != NULL && newest->epoch > its->epoch) return false;
    if (!p->state.present || p->view.state_view.epoch < its->epoch) return true;
    return p->view.state_view.epoch == its->epoch &&
           !gw_view_name_equal(&p->view.state_view.name, &its->name);
}

static void drop_tellers(gw_peer *p, const gw_view *told, gw_view *view) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        const gw_member *member = &view->members[i];
        bool stays = !has_told_of(p, &member->id, told) || is_needed(p, &member->id);
        if (stays) view->members[kept++] = *member;
    }
    view->count = kept;
}

/* Where a majority rules: of the members of `view` those who may be proposed without any others. They are a
 * majority of all views that they must name, without those who ask for a view of which there is none here.
 * False: there are not enough. */
bool gw_majority_find_enough(gw_peer *p, const gw_view *view, gw_view *enough) {
    const gw_view *base = gw_majority_base(p);
    *enough = *view;
    for (;;) {
        gw_attempt a = {0};
        bool lists = gw_majority_list(p, &a, base, enough, true);
        const gw_view *lacks = gw_ballot_no_majority_of(base, a.listed, a.listed_count, enough);
        uint32_t count = enough->count;
        if (lacks != NULL) drop_tellers(p, lacks, enough);
        bool settled = enough->count == count; /* nobody can be left out any more */
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
