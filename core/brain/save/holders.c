/* The peers that have the chunks of the complete checkpoints. A checkpoint stays complete when a holder dies,
 * since that peer may come back with its disk. Until then nobody can load it, and people are told so. The
 * members that take chunks are known alike to all of them (p->save.unwritable_to_all), and the placement
 * of the chunks follows from these. */
#include "core/brain/save/holders.h"

#include "core/base/assert.h"
#include "core/brain/members/contacts.h"
#include "core/brain/state.h"
#include "core/state/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gw_holders *find(const gw_peer *p, const gw_hash *root) {
    for (uint32_t i = 0; i < p->save.holders_count; i++)
        if (gw_hash_equal(&p->save.holders[i].root, root)) return &p->save.holders[i];
    return NULL;
}

static bool is_kept(const gw_peer *p, const gw_hash *root) {
    if (p->state.best.kept.step > 0 && gw_hash_equal(&p->state.best.kept.root, root)) return true;
    for (uint32_t i = 0; i < p->save.kept_count; i++)
        if (gw_hash_equal(&p->save.kept[i].root, root)) return true;
    return false;
}

/* Forgets this checkpoint, and those that are not kept any more. */
static void forget(gw_peer *p, const gw_hash *root) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < p->save.holders_count; i++) {
        gw_holders *one = &p->save.holders[i];
        if (is_kept(p, &one->root) && !gw_hash_equal(&one->root, root))
            p->save.holders[left++] = *one;
        else
            free(one->members);
    }
    p->save.holders_count = left;
}

void gw_holders_note(gw_peer *p, const gw_hash *root, const gw_set *ranks) {
    const gw_view *view = &p->view.current;
    forget(p, root);
    gw_holders *grown = realloc(p->save.holders, (p->save.holders_count + 1) * sizeof *grown);
    GW_ASSERT_MEMORY(grown != NULL);
    p->save.holders = grown;
    gw_holders *one = &grown[p->save.holders_count++];
    *one = (gw_holders){.root = *root, .members = calloc(view->count + 1, sizeof *one->members)};
    GW_ASSERT_MEMORY(one->members != NULL);
    /* Where no disk was known to write, the chunks were placed on all, and some of them have written. */
    bool all = gw_set_count(ranks) == 0;
    for (uint32_t rank = 0; rank < view->count; rank++)
        if (all || gw_set_has(ranks, rank)) one->members[one->count++] = view->members[rank];
}

void gw_holders_close(gw_peer *p) {
    for (uint32_t i = 0; i < p->save.holders_count; i++) free(p->save.holders[i].members);
    free(p->save.holders);
}

/* Whether a peer lives and has on its disk what it had of a checkpoint. A later life of it says what it
 * found. */
static bool holder_lives(const gw_peer *p, const gw_member *member, uint64_t step) {
    const gw_contact *contact = gw_peer_contact(p, &member->id);
    if (contact == NULL || !contact->alive) return false;
    bool same = contact->incarnation.boot == member->boot && contact->incarnation.nonce == member->nonce;
    return same || (contact->checkpoint_step != UINT64_MAX && contact->checkpoint_step >= step);
}

/* Whether a living peer says that it has a checkpoint of this step or a later one. */
static bool is_told(const gw_peer *p, uint64_t step) {
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *contact = &p->members.contacts[i];
        if (contact->alive && contact->checkpoint_step != UINT64_MAX && contact->checkpoint_step >= step &&
            gw_contacts_same_job(p, contact))
            return true;
    }
    return false;
}

bool gw_holders_live(const gw_peer *p, const gw_checkpoint_ref *one) {
    const gw_inventory *here = gw_peer_inventory_find(&p->inventory, &one->root);
    const gw_holders *holders = find(p, &one->root);
    if (here != NULL && gw_set_count(&here->chunks) == here->chunks.size) return true;
    if (holders == NULL) return is_told(p, one->step);
    bool lives[GW_MAX_MEMBERS];
    gw_peer_id ids[GW_MAX_MEMBERS];
    uint32_t dead = 0, own = UINT32_MAX, order[GW_MAX_REPLICAS];
    for (uint32_t i = 0; i < holders->count; i++) {
        ids[i] = holders->members[i].id;
        if (gw_peer_id_equal(&ids[i], &p->config.id)) own = i;
        lives[i] = i != own && holder_lives(p, &holders->members[i], one->step);
        dead += !lives[i];
    }
    if (dead < p->config.replicas && dead < holders->count)
        return true; /* a copy of each chunk is elsewhere */
    for (uint32_t chunk = 0; chunk < p->config.state_chunks; chunk++) {
        bool held = here != NULL && chunk < here->chunks.size && gw_set_has(&here->chunks, chunk);
        uint32_t count = gw_placement_holders(chunk, ids, holders->count, p->config.replicas, order);
        for (uint32_t i = 0; i < count && !held; i++) held = lives[order[i]];
        if (!held) return false;
    }
    return true;
}

bool gw_holders_surely_live(const gw_peer *p, const gw_checkpoint_ref *one) {
    const gw_inventory *here = gw_peer_inventory_find(&p->inventory, &one->root);
    bool whole = here != NULL && gw_set_count(&here->chunks) == here->chunks.size;
    return (whole || find(p, &one->root) != NULL) && gw_holders_live(p, one);
}

static void take_newer(const gw_peer *p, gw_checkpoint_ref *newest, const gw_checkpoint_ref *one) {
    if (one->step > newest->step && gw_holders_live(p, one)) *newest = *one;
}

gw_checkpoint_ref gw_holders_newest(const gw_peer *p) {
    gw_checkpoint_ref newest = {0};
    for (uint32_t i = p->save.kept_count; i-- > 0;) take_newer(p, &newest, &p->save.kept[i]);
    /* Before this peer has loaded anything, and where it has no part of what the others have saved. */
    const gw_inventory *here = gw_peer_inventory_newest(&p->inventory);
    if (here != NULL && p->save.kept_count == 0 && gw_set_count(&here->chunks) == here->chunks.size)
        take_newer(p, &newest, &(gw_checkpoint_ref){here->step, here->root});
    take_newer(p, &newest, &p->view.ready_whole);
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *contact = &p->members.contacts[i];
        bool knows = contact->alive && contact->has_view && contact->checkpoint_step != UINT64_MAX &&
                     gw_contacts_same_job(p, contact);
        /* What a member says of a checkpoint that this peer knows has been judged above. */
        bool news =
            knows && (p->save.saved_step == UINT64_MAX || contact->checkpoint_step > p->save.saved_step);
        if (news && contact->checkpoint_step > newest.step)
            newest = (gw_checkpoint_ref){.step = contact->checkpoint_step};
    }
    return newest;
}

const char *gw_holders_unsaved(const gw_peer *p, char text[GW_HOLDERS_TEXT]) {
    const gw_checkpoint_ref newest = gw_holders_newest(p);
    uint64_t first = p->config.first_step != GW_STEP_UNKNOWN ? p->config.first_step : 0;
    uint64_t from = newest.step > first ? newest.step : first;
    uint64_t steps = p->state.step > from ? p->state.step - from : 0;
    const char *s = steps == 1 ? "" : "s", *are = steps == 1 ? "is" : "are";
    if (newest.step > 0)
        snprintf(text, GW_HOLDERS_TEXT,
                 "%" PRIu64 " step%s %s unsaved: the newest complete checkpoint is that of step %" PRIu64,
                 steps, s, are, newest.step);
    else
        snprintf(text, GW_HOLDERS_TEXT, "%" PRIu64 " step%s %s unsaved: no complete checkpoint is here",
                 steps, s, are);
    return text;
}
