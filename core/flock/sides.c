#include "core/flock/sides.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

typedef struct life {
    gw_peer_id id;
    bool live;
    gw_incarnation life;        /* the last one that is known; zeros: none is */
    uint64_t lost_ns, until_ns; /* of one that is away: since when it is, and until when it counts */
    gw_claims claims;           /* of one that is away: as it told last */
} life;

struct gw_sides {
    gw_peer_id self;
    life *list;
    uint32_t count, room, live, met_again;
};

static life *find(const gw_sides *sides, const gw_peer_id *id) {
    for (uint32_t i = 0; i < sides->count; i++)
        if (gw_peer_id_equal(&sides->list[i].id, id)) return &sides->list[i];
    return NULL;
}

static void drop(gw_sides *sides, life *l) {
    sides->live -= l->live;
    gw_claims_free(&l->claims);
    *l = sides->list[--sides->count];
}

/* A member's entry, as of one that is away and has told nothing; of one that was known, its life is kept. */
static life *find_or_add(gw_sides *sides, const gw_peer_id *id) {
    life *l = find(sides, id);
    if (l == NULL) {
        if (sides->count == sides->room) {
            sides->room = 2 * sides->room + 8;
            sides->list = realloc(sides->list, sides->room * sizeof *sides->list);
            GW_ASSERT_MEMORY(sides->list != NULL);
        }
        l = &sides->list[sides->count++];
        *l = (life){.id = *id};
    }
    sides->live -= l->live;
    gw_claims_free(&l->claims);
    *l = (life){.id = *id, .life = l->life};
    return l;
}

void gw_sides_known(gw_sides *sides, const gw_peer_id *id, uint64_t ago_ns, uint64_t now_ns) {
    if (ago_ns >= GW_SIDES_SEEN_NS || gw_peer_id_equal(id, &sides->self) || find(sides, id) != NULL) return;
    life *l = find_or_add(sides, id);
    l->lost_ns = now_ns;
    l->until_ns = now_ns + GW_SIDES_SEEN_NS - ago_ns;
}

void gw_sides_live(gw_sides *sides, const gw_peer_id *id, const gw_incarnation *life_now) {
    life *l = find(sides, id);
    if (gw_peer_id_equal(id, &sides->self)) return;
    if (l == NULL || !l->live) {
        sides->met_again += l != NULL && gw_same_life(&l->life, life_now);
        l = find_or_add(sides, id);
        l->live = true;
        sides->live++;
    }
    l->life = *life_now;
}

void gw_sides_lost(gw_sides *sides, const gw_peer_id *id, const gw_claims *claims, uint64_t now_ns) {
    const life *known = find(sides, id);
    if (known == NULL || !known->live) return;
    for (uint32_t i = sides->count; i-- > 0;)
        if (!sides->list[i].live && sides->list[i].until_ns <= now_ns) drop(sides, &sides->list[i]);
    life *l = find_or_add(sides, id);
    l->lost_ns = now_ns;
    l->until_ns = now_ns + GW_SIDES_SEEN_NS;
    if (claims != NULL) l->claims = gw_claims_copy(claims);
}

void gw_sides_left(gw_sides *sides, const gw_peer_id *id) {
    life *l = find(sides, id);
    if (l != NULL) drop(sides, l);
}

static bool is_away(const life *l, uint64_t now_ns) {
    return !l->live && now_ns < l->until_ns;
}

/* The lowest of the ids of live members that count; NULL: none does. */
static const gw_peer_id *lowest(const gw_claims *const *lists, uint32_t count) {
    const gw_peer_id *low = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!lists[i]->drained && (low == NULL || gw_peer_id_compare(&lists[i]->member, low) < 0))
            low = &lists[i]->member;
    return low;
}

bool gw_sides_is_lesser(const gw_sides *sides, const gw_claims *const *lists, uint32_t count,
                        uint64_t now_ns) {
    uint32_t live = sides->live + 1, away = 0;
    const gw_peer_id *low = lowest(lists, count);
    bool is_lower = false;
    for (uint32_t i = 0; i < count; i++) live -= lists[i]->drained;
    for (uint32_t i = 0; i < sides->count; i++) {
        const life *l = &sides->list[i];
        if (!is_away(l, now_ns) || l->claims.drained) continue;
        away++;
        is_lower |= low == NULL || gw_peer_id_compare(&l->id, low) < 0;
    }
    return away > live || (away == live && is_lower);
}

/* Until when, for so long after the last loss of a member that is away, a job may be that member's: it was lost since then,
 * or it had claimed the job (`runs`: it had told that it runs it). 0: the job is none of theirs. */
static uint64_t theirs_until(const gw_sides *sides, const gw_job_record_id *job, uint64_t since_ns, bool runs,
                             uint64_t for_ns, uint64_t now_ns) {
    uint64_t last_ns = 0;
    for (uint32_t i = 0; i < sides->count; i++) {
        const life *l = &sides->list[i];
        if (!is_away(l, now_ns) || l->lost_ns <= last_ns || l->lost_ns + for_ns <= now_ns) continue;
        const gw_claim *claim = gw_claims_find(&l->claims, job);
        bool claimed =
            claim != NULL && (runs ? claim->state == GW_CLAIM_RUNNING : claim->state != GW_CLAIM_STRUCK);
        if (since_ns <= l->lost_ns || claimed) last_ns = l->lost_ns;
    }
    return last_ns > 0 ? last_ns + for_ns : 0;
}

uint64_t gw_sides_taken_until(const gw_sides *sides, const gw_job_record_id *job, uint64_t since_ns,
                              uint64_t takeover_ns, uint64_t now_ns) {
    return theirs_until(sides, job, since_ns, false, takeover_ns, now_ns);
}

uint64_t gw_sides_run_until(const gw_sides *sides, const gw_job_record_id *job, uint64_t now_ns) {
    return theirs_until(sides, job, UINT64_MAX, true, GW_SIDES_BRIEF_NS, now_ns);
}

uint32_t gw_sides_met_again(const gw_sides *sides) {
    return sides->met_again;
}

gw_sides *gw_sides_open(const gw_peer_id *self) {
    gw_sides *sides = calloc(1, sizeof *sides);
    GW_ASSERT_MEMORY(sides != NULL);
    sides->self = *self;
    return sides;
}

void gw_sides_close(gw_sides *sides) {
    if (sides == NULL) return;
    for (uint32_t i = 0; i < sides->count; i++) gw_claims_free(&sides->list[i].claims);
    free(sides->list);
    free(sides);
}
