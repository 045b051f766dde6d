/* Reductions of a whole view, and applying what comes of them. */
#include "tests/core/brain/flock/inside.h"

#include "core/rng.h"
#include "net/collective/doubling.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static bool path_is_broken(const flock *f, uint32_t a, uint32_t b) {
    return f->data_broken[a][b] || f->data_lost[a][b] || f->cut[a][b];
}

/* A reduction over a broken path fails at all; the two ends of the path know whom they missed. */
static bool fail_reduction(flock *f, const gw_view *view) {
    bool broken = f->reductions_to_fail > 0;
    if (broken) f->reductions_to_fail--;
    for (uint32_t a = 0; a < f->count; a++)
        for (uint32_t b = 0; b < a; b++)
            broken |= path_is_broken(f, a, b) && gw_view_rank(view, &f->peers[a].config.id) >= 0 &&
                      gw_view_rank(view, &f->peers[b].config.id) >= 0;
    for (uint32_t rank = 0; broken && rank < view->count; rank++) {
        uint32_t i = (uint32_t)flock_index(f, &view->members[rank].id);
        gw_event event = {.kind = GW_EV_REDUCED,
                          .token = f->peers[i].reducing,
                          .outcome = GW_FAILED,
                          .text = "no data connection"};
        for (uint32_t k = 0; k < f->count; k++)
            if (path_is_broken(f, i, k) && gw_view_rank(view, &f->peers[k].config.id) >= 0)
                event.peer = f->peers[k].config.id;
        flock_post(f, i, 1000000, event);
        f->peers[i].reducing = 0;
    }
    return broken;
}

static bool changes_between(const flock_peer *from, const flock_peer *to, flock_peer **whose) {
    bool sender = from->changes > 0 && (from->changes_both || !from->changes_received);
    bool receiver = to->changes > 0 && (to->changes_both || to->changes_received);
    *whose = (flock_peer *)(receiver ? to : from);
    return sender || receiver;
}

/* Whether bits of what it is sent change. Who sees that has no sum. */
static bool change_bits(flock *f, uint32_t i, uint32_t to) {
    flock_peer *from = &f->peers[i], *receiver = &f->peers[to], *whose;
    if (receiver->reducing == 0 || !changes_between(from, receiver, &whose)) return false;
    whose->changes--;
    flock_post(f, to, 1000,
               (gw_event){.kind = GW_EV_REDUCED,
                          .token = receiver->reducing,
                          .outcome = GW_FAILED,
                          .text = "other bits",
                          .peer = from->config.id,
                          .reduced.changed = true});
    receiver->reducing = 0;
    return true;
}

static uint32_t peer_at(const flock *f, const gw_view *view, uint32_t rank) {
    return (uint32_t)flock_index(f, &view->members[rank].id);
}

static bool some_change_in_ring(flock *f, const gw_view *view, const uint32_t *ranks) {
    bool any = false;
    for (uint32_t k = 0; k < view->count; k++)
        any |= change_bits(f, peer_at(f, view, ranks[k]), peer_at(f, view, ranks[(k + 1) % view->count]));
    return any;
}

/* Who has seen it goes no further, nor do those who wait for what it does not send. */
static bool some_change_in_pairs(flock *f, const gw_view *view, const uint32_t *ranks) {
    bool stuck[GW_MAX_MEMBERS] = {false}, before[GW_MAX_MEMBERS], any = false;
    uint32_t last = gw_doubling_rounds(view->count) + 1;
    for (uint32_t stage = 0; stage <= last; stage++) {
        memcpy(before, stuck, sizeof before);
        for (uint32_t k = 0; k < view->count; k++) {
            uint32_t other = gw_doubling_partner(view->count, k, stage);
            bool receives = stage == 0 ? k % 2 == 1 : stage == last ? k % 2 == 0 : true;
            if (other == k || !receives || before[k]) continue;
            bool changed =
                !before[other] && change_bits(f, peer_at(f, view, ranks[other]), peer_at(f, view, ranks[k]));
            stuck[k] = changed || before[other];
            any |= changed;
        }
    }
    return any;
}

/* Nobody has a sum before all have seen that no bits have changed: the others' end with the view. */
static bool some_change(flock *f, const gw_view *view, uint32_t arrangement) {
    uint32_t ranks[GW_MAX_MEMBERS];
    gw_view_arrange(view, arrangement, ranks);
    if (view->count == 1) return false;
    return f->small_sums ? some_change_in_pairs(f, view, ranks) : some_change_in_ring(f, view, ranks);
}

/* When every member of the view has entered: the sum, checked, for all of them. */
static void tell_reduced(flock *f, const gw_view *view, uint32_t arrangement) {
    int64_t slots[GW_MAX_MEMBERS * GW_SLOTS + GW_VERIFY_TABLE] = {0};
    int64_t *table = slots + view->count * GW_SLOTS;
    int adds[FLOCK_SHARDS] = {0};
    bool bad = false, spoilt = false;
    for (uint32_t rank = 0; rank < view->count; rank++) {
        flock_peer *p = &f->peers[flock_index(f, &view->members[rank].id)];
        if (p->brain == NULL || p->reducing == 0 || !gw_view_name_equal(&p->fence.name, &view->name)) return;
        memcpy(slots + rank * GW_SLOTS, p->slots, sizeof p->slots);
        for (int k = 0; k < GW_VERIFY_TABLE; k++)
            table[k] = (int64_t)((uint64_t)table[k] + (uint64_t)p->table[k]);
        for (int s = 0; s < FLOCK_SHARDS; s++) adds[s] += p->adds[s];
        bad |= p->bad_shard;
        spoilt |= p->spoils_sums;
    }
    if (fail_reduction(f, view) || some_change(f, view, arrangement)) return;
    bool right = f->sums_to_spoil == 0;
    if (!right) f->sums_to_spoil--;
    right &= !spoilt;
    if (f->rows_to_damage > 0) {
        f->rows_to_damage--;
        slots[GW_SLOTS - 2] ^= 1;
    }
    for (uint32_t s = 0; s < FLOCK_SHARDS; s++) right &= adds[s] == 1;
    for (uint32_t rank = 0; rank < view->count; rank++) {
        uint32_t i = (uint32_t)flock_index(f, &view->members[rank].id);
        gw_event event = {.kind = GW_EV_REDUCED,
                          .token = f->peers[i].reducing,
                          .outcome = GW_DONE,
                          .reduced.coverage_ok = right,
                          .reduced.fingerprint_ok = right,
                          .text = right ? NULL : "bucket 4",
                          .reduced.damaged = !right && f->peers[i].part_damaged,
                          .reduced.bad_count = bad};
        bool lost = f->sum_for != 0 && f->sum_for != i + 1;
        if (lost) {
            event.outcome = GW_FAILED;
            event.text = "no data connection";
        }
        flock_event *e = flock_post(f, i, lost != f->sum_last ? 4000000 : 1000, event);
        f->peers[i].reducing = 0;
        if (!right || lost) continue; /* of a wrong sum nothing is believed */
        e->slots = malloc(sizeof slots);
        memcpy(e->slots, slots, sizeof slots);
        e->table_at = view->count * GW_SLOTS;
    }
    f->sum_for = 0;
    f->sum_last = false;
}

void flock_reduce(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    if (p->damaged_state) {
        p->damaged_state = false;
        flock_post(
            f, i, 1000,
            (gw_event){
                .kind = GW_EV_REDUCED, .token = a->token, .outcome = GW_FAILED, .reduced.damaged = true});
        return;
    }
    memset(p->table, 0, sizeof p->table);
    if (a->reduce.check_table != NULL) memcpy(p->table, a->reduce.check_table, sizeof p->table);
    p->reducing = a->token;
    p->reduces_entered++;
    memcpy(p->slots, a->reduce.slots, sizeof p->slots);
    tell_reduced(f, &p->fence, a->reduce.arrangement);
}

void flock_apply(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    gw_event event = {.kind = GW_EV_APPLIED, .token = a->token, .outcome = GW_FAILED, .text = f->reason};
    cr_assert_eq(a->step, p->step);
    p->skipped += a->apply.skip_update;
    event.applied.damaged = a->apply.check_state && p->damaged_later;
    if (p->apply_fails || event.applied.damaged) {
        p->damaged_later = false;
        flock_post(f, i, 1000, event);
        return;
    }
    p->state = gw_mix64(p->state + p->step);
    p->step++;
    cr_assert_eq(p->state, flock_state_after(p->step));
    if (p->step == p->flip_step) {
        p->state ^= 1;
        p->flipped = true;
        p->flip_step = 0;
    }
    event = (gw_event){.kind = GW_EV_APPLIED,
                       .token = a->token,
                       .outcome = GW_DONE,
                       .applied.fingerprint = p->state,
                       .applied.stop = f->stop_step != 0 && p->step >= f->stop_step};
    event.applied.evaluated = f->values != NULL;
    if (f->values != NULL) event.applied.value = f->values[a->step];
    flock_post(f, i, 2000000 + p->apply_ns, event);
}

void flock_look(flock *f, uint32_t i, const gw_action *a) {
    const flock_peer *p = &f->peers[i];
    bool sound = p->state == flock_state_after(p->step);
    flock_post(f, i, 1000,
               (gw_event){.kind = GW_EV_LOOKED,
                          .token = a->token,
                          .outcome = sound && !p->look_fails ? GW_DONE : GW_FAILED,
                          .text = f->reason,
                          .looked.damaged = !sound});
}
