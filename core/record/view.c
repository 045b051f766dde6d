#include "core/record/view.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { MEMBER_BYTES = 32, VIEW_BYTES = 8 + 16 + 16 + 32 + 4 };

static int compare_members(const void *a, const void *b) {
    return gw_peer_id_compare(&((const gw_member *)a)->id, &((const gw_member *)b)->id);
}

static void put_contents(gw_writer *w, const gw_view *view) {
    gw_put_u64(w, view->epoch);
    gw_put_view_name(w, &view->parent);
    gw_put_peer_id(w, &view->leader);
    gw_put_hash(w, &view->job);
    gw_put_u32(w, view->count);
    for (uint32_t i = 0; i < view->count; i++) {
        gw_put_peer_id(w, &view->members[i].id);
        gw_put_u64(w, view->members[i].boot);
        gw_put_u64(w, view->members[i].nonce);
    }
}

static gw_view_name name_of(const gw_view *view) {
    uint8_t bytes[VIEW_BYTES + GW_MAX_MEMBERS * MEMBER_BYTES];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    put_contents(&w, view);
    GW_ASSERT(!w.failed);
    gw_view_name name;
    gw_blake2b(bytes, w.length, name.bytes, sizeof name.bytes);
    return name;
}

void gw_view_seal(gw_view *view) {
    GW_ASSERT(view->count > 0 && view->count <= GW_MAX_MEMBERS && view->epoch > 0);
    qsort(view->members, view->count, sizeof view->members[0], compare_members);
    for (uint32_t i = 1; i < view->count; i++)
        GW_ASSERT(compare_members(&view->members[i - 1], &view->members[i]) < 0);
    GW_ASSERT(gw_view_rank(view, &view->leader) >= 0);
    view->name = name_of(view);
}

int gw_view_rank(const gw_view *view, const gw_peer_id *id) {
    gw_member key = {.id = *id};
    const gw_member *found =
        bsearch(&key, view->members, view->count, sizeof view->members[0], compare_members);
    return found == NULL ? -1 : (int)(found - view->members);
}

bool gw_member_is(const gw_member *member, const gw_incarnation *life) {
    return member->boot == life->boot && member->nonce == life->nonce;
}

int gw_view_rank_of_life(const gw_view *view, const gw_peer_id *id, uint64_t boot, uint64_t nonce) {
    int rank = gw_view_rank(view, id);
    const gw_incarnation life = {.boot = boot, .nonce = nonce};
    return rank >= 0 && gw_member_is(&view->members[rank], &life) ? rank : -1;
}

int gw_view_compare(const gw_view *a, const gw_view *b) {
    if (a->epoch != b->epoch) return a->epoch < b->epoch ? -1 : 1;
    return gw_view_name_compare(&a->name, &b->name);
}

bool gw_view_same_peers(const gw_view *a, const gw_view *b) {
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!gw_peer_id_equal(&a->members[i].id, &b->members[i].id)) return false;
    return true;
}

uint32_t gw_view_common(const gw_view *of, const gw_view *some) {
    uint32_t common = 0;
    for (uint32_t i = 0; i < of->count; i++) common += gw_view_rank(some, &of->members[i].id) >= 0;
    return common;
}

bool gw_view_majority(const gw_view *of, const gw_view *some) {
    uint32_t common = gw_view_common(of, some);
    if (2 * common == of->count) return gw_view_rank(some, &of->members[0].id) >= 0;
    return 2 * common > of->count;
}

void gw_view_put(gw_writer *w, const gw_view *view) {
    gw_put_view_name(w, &view->name);
    put_contents(w, view);
}

/* The number at `place` of the ring 0, 1, -1, 2, -2, ... modulo the count. If one is added to all numbers,
 * each has other neighbours (Walecki's decomposition of the complete graph into such rings). */
static uint32_t zigzag(uint32_t count, uint32_t place) {
    return place % 2 == 1 ? (place + 1) / 2 : (count - place / 2) % count;
}

static uint32_t place_in_zigzag(uint32_t count, uint32_t number) {
    if (number == 0) return 0;
    return number <= count / 2 ? 2 * number - 1 : 2 * (count - number);
}

/* Views of three or four members have few such rings, so each ring is used in both directions. */
void gw_view_arrange(const gw_view *view, uint32_t arrangement, uint32_t *ranks) {
    enum { FEW = 4 };
    bool few = view->count <= FEW, back = few && arrangement % 2 == 1;
    uint32_t turned = few ? arrangement / 2 : arrangement;
    for (uint32_t i = 0; i < view->count; i++) {
        uint32_t place = back ? (2 * view->count - 2 - i) % view->count : i;
        uint32_t number = (turned % view->count + zigzag(view->count, place)) % view->count;
        ranks[i] = place_in_zigzag(view->count, number);
    }
}

uint64_t gw_get_epoch(gw_reader *r) {
    uint64_t epoch = gw_get_u64(r);
    if (epoch < GW_EPOCH_END) return epoch;
    r->failed = true;
    return 0;
}

void gw_view_get(gw_reader *r, gw_view *view) {
    memset(view, 0, sizeof *view);
    gw_get_view_name(r, &view->name);
    view->epoch = gw_get_epoch(r);
    gw_get_view_name(r, &view->parent);
    gw_get_peer_id(r, &view->leader);
    gw_get_hash(r, &view->job);
    view->count = gw_get_u32(r);
    if (r->failed || view->count == 0 || view->count > GW_MAX_MEMBERS || view->epoch == 0) {
        view->count = 0;
        r->failed = true;
        return;
    }
    for (uint32_t i = 0; i < view->count; i++) {
        gw_get_peer_id(r, &view->members[i].id);
        view->members[i].boot = gw_get_u64(r);
        view->members[i].nonce = gw_get_u64(r);
        if (i > 0 && compare_members(&view->members[i - 1], &view->members[i]) >= 0) r->failed = true;
    }
    if (r->failed) return;
    gw_view_name name = name_of(view);
    if (gw_view_rank(view, &view->leader) < 0 || !gw_view_name_equal(&name, &view->name)) r->failed = true;
}
