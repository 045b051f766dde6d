#include "core/record/convictions.h"

#include "core/base/assert.h"
#include "core/record/view.h"

/* The index of the conviction of this peer; `count`: there is none. */
static uint32_t find(const gw_convictions *convictions, const gw_peer_id *id) {
    uint32_t at = 0;
    while (at < convictions->count && !gw_peer_id_equal(&convictions->list[at].id, id)) at++;
    return at;
}

static void remove_at(gw_convictions *convictions, uint32_t at) {
    GW_ASSERT(at < convictions->count);
    convictions->list[at] = convictions->list[--convictions->count];
}

/* Within one epoch, the lower peer id counts as earlier, so that all peers that unite the same sets forget
 * the same conviction. */
static bool is_earlier(const gw_conviction *a, const gw_conviction *b) {
    return a->epoch < b->epoch || (a->epoch == b->epoch && gw_peer_id_compare(&a->id, &b->id) < 0);
}

static uint32_t earliest(const gw_convictions *convictions) {
    uint32_t at = 0;
    for (uint32_t i = 1; i < convictions->count; i++)
        if (is_earlier(&convictions->list[i], &convictions->list[at])) at = i;
    return at;
}

bool gw_convictions_add(gw_convictions *convictions, const gw_conviction *one) {
    GW_ASSERT(convictions->count <= GW_MAX_CONVICTIONS);
    uint32_t found = find(convictions, &one->id);
    if (found < convictions->count) {
        gw_conviction *known = &convictions->list[found];
        bool later = one->epoch > known->epoch || (one->epoch == known->epoch && one->boot > known->boot);
        if (later) known->epoch = one->epoch, known->boot = one->boot;
        bool lower = one->step < known->step;
        if (lower) known->step = one->step;
        return later || lower;
    }
    if (convictions->count == GW_MAX_CONVICTIONS) {
        uint32_t at = earliest(convictions);
        if (is_earlier(one, &convictions->list[at])) return false;
        remove_at(convictions, at);
    }
    convictions->list[convictions->count++] = *one;
    return true;
}

bool gw_convictions_unite(gw_convictions *into, const gw_convictions *more) {
    bool changed = false;
    for (uint32_t i = 0; i < more->count; i++) changed |= gw_convictions_add(into, &more->list[i]);
    return changed;
}

const gw_conviction *gw_convictions_of(const gw_convictions *convictions, const gw_peer_id *id) {
    uint32_t found = find(convictions, id);
    return found < convictions->count ? &convictions->list[found] : NULL;
}

bool gw_convictions_drop(gw_convictions *convictions, const gw_peer_id *id) {
    uint32_t found = find(convictions, id);
    if (found == convictions->count) return false;
    remove_at(convictions, found);
    return true;
}

void gw_convictions_put(gw_writer *w, const gw_convictions *convictions) {
    gw_put_u32(w, convictions->count);
    for (uint32_t i = 0; i < convictions->count; i++) {
        gw_put_peer_id(w, &convictions->list[i].id);
        gw_put_u64(w, convictions->list[i].epoch);
        gw_put_u64(w, convictions->list[i].boot);
        gw_put_u64(w, convictions->list[i].step);
    }
}

void gw_convictions_get(gw_reader *r, gw_convictions *convictions) {
    *convictions = (gw_convictions){0};
    uint32_t count = gw_get_u32(r);
    if (count > GW_MAX_CONVICTIONS) r->failed = true;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_conviction one;
        gw_get_peer_id(r, &one.id);
        one.epoch = gw_get_epoch(r);
        one.boot = gw_get_u64(r);
        one.step = gw_get_u64(r);
        if (!r->failed && gw_convictions_of(convictions, &one.id) != NULL) r->failed = true;
        if (!r->failed) gw_convictions_add(convictions, &one);
    }
}

void gw_given_up_add(gw_given_up *given_up, const gw_hash *root) {
    gw_given_up_drop(given_up, root);
    if (given_up->count < GW_MAX_GIVEN_UP) given_up->roots[given_up->count++] = *root;
}

bool gw_given_up_drop(gw_given_up *given_up, const gw_hash *root) {
    for (uint32_t i = 0; i < given_up->count; i++)
        if (gw_hash_equal(&given_up->roots[i], root)) {
            given_up->roots[i] = given_up->roots[--given_up->count];
            return true;
        }
    return false;
}

void gw_given_up_put(gw_writer *w, const gw_given_up *given_up) {
    gw_put_u32(w, given_up->count);
    for (uint32_t i = 0; i < given_up->count; i++) gw_put_hash(w, &given_up->roots[i]);
}

void gw_given_up_get(gw_reader *r, gw_given_up *given_up) {
    *given_up = (gw_given_up){0};
    uint32_t count = gw_get_u32(r);
    if (count > GW_MAX_GIVEN_UP) r->failed = true;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_hash root;
        gw_get_hash(r, &root);
        gw_given_up_add(given_up, &root);
    }
}
