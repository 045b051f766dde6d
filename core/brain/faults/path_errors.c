/* Bits that change between two members: what one member received is not what the other one had, of a sum
 * (net/collective/collective.h) or of a state. The result counts for nothing, and the next sum is arranged
 * differently, so that each member has other neighbours. If a particle has flipped a bit, the next sum is
 * right. If a machine flips bits again and again, it is the member that both pairs have in common. It is then
 * convicted like a member that holds wrong bits: its state counts for nothing, and the second time it leaves.
 * If the same pair sees changes again, or one member with two others in turn, the fault lies in the path
 * between them, which is treated like any path that fails (core/brain/step/retry.c). In a view of two members
 * nobody can tell which of them is at fault. */
#include "core/brain/faults/path_errors.h"

#include "core/base/assert.h"
#include "core/brain/faults/halt.h"
#include "core/brain/faults/verdicts.h"
#include "core/brain/faults/verify.h"
#include "core/brain/state.h"

#include <inttypes.h>

enum {
    MOST_BETWEEN_TWO = 3, /* changes in a row in a view of two members, after which both end */
    LEAST_IN_TURN =
        5, /* from this many changes on, two senders in turn count like one sender again and again */
};

/* Whether a change concerns both members of a view of two, so that neither may go on alone, as nobody can
 * tell which of them is at fault. That is so if this peer could go on alone: it has the state from which the
 * sum is made, or that of the step before the one it fetches. A peer without a state loses nothing when it
 * leaves, and the other one was alone before. */
static bool concerns_both(const gw_peer *p, const gw_event *event) {
    bool could_go_on = event->kind == GW_EV_REDUCED || p->view.load_step <= p->state.step + 1;
    return p->view.current.count == 2 && p->state.present && could_go_on;
}

bool gw_path_errors_note(gw_peer *p, const gw_event *event, const char *what) {
    gw_path_errors *c = &p->faults.path_errors;
    char from[GW_SHORT_TEXT], to[GW_SHORT_TEXT];
    GW_ASSERT(event->outcome == GW_FAILED);
    GW_ASSERT(event->kind == GW_EV_REDUCED ? event->reduced.changed : event->loaded.changed);
    int rank = gw_view_rank(&p->view.current, &event->peer);
    if (rank < 0) return false;
    bool same = gw_peer_id_equal(&c->from[0], &event->peer);
    bool in_turn = ++c->count >= LEAST_IN_TURN && gw_peer_id_equal(&c->from[1], &event->peer);
    c->arrangement = p->faults.arrangement;
    c->of_two = !concerns_both(p, event) ? 0 : same ? c->of_two + 1 : 1;
    if (!same) {
        c->from[1] = c->from[0];
        c->epoch[1] = c->epoch[0];
        c->boot[1] = c->boot[0];
        c->from[0] = event->peer;
    }
    c->epoch[0] = p->view.current.epoch;
    c->boot[0] = p->view.current.members[rank].boot;
    gw_verify_report(
        p, &event->peer,
        "bits of what it sent of %s changed: in the memory of peer %s, on the way, or in that of "
        "peer %s, which noticed",
        what, gw_peer_id_short(&event->peer, from), gw_peer_id_short(&p->config.id, to));
    return (same || in_turn) && p->view.current.count > 2; /* neither of two may go on alone */
}

void gw_path_errors_forget(gw_peer *p) {
    p->faults.path_errors = (gw_path_errors){0};
}

/* The pairs of members between which bits have changed, by rank in the proposal. */
typedef struct pairs {
    uint32_t count;
    struct {
        uint32_t from, to;
    } list[2 * GW_MAX_MEMBERS];
} pairs;

/* Whether a change between two members is explained: one of them was convicted then or since. (The member
 * that reports the change may not have been in the view that convicted.) */
static bool is_resolved(const gw_attempt *a, uint32_t from, uint32_t to, uint64_t epoch) {
    return gw_verdicts_has_heard(a, from, epoch) || gw_verdicts_has_heard(a, to, epoch);
}

/* Collects the pairs of each member and the latest `depth` senders that it has reported, as far as they
 * live. */
static pairs collect(const gw_attempt *a, int depth) {
    pairs all = {0};
    for (uint32_t to = 0; to < a->view.count; to++) {
        const gw_path_errors *reported = &a->reports[to]->path_errors;
        for (int k = 0; k < depth; k++) {
            int from =
                gw_peer_id_is_none(&reported->from[k]) ? -1 : gw_view_rank(&a->view, &reported->from[k]);
            if (from < 0 || (uint32_t)from == to || reported->boot[k] != a->view.members[from].boot) continue;
            if (is_resolved(a, (uint32_t)from, to, reported->epoch[k])) continue;
            all.list[all.count].from = (uint32_t)from;
            all.list[all.count++].to = to;
        }
    }
    return all;
}

/* The number of other members with which this one is in a pair. */
static uint32_t partners(const pairs *all, uint32_t rank) {
    bool seen[GW_MAX_MEMBERS] = {false};
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t from = all->list[i].from, to = all->list[i].to, other = from == rank ? to : from;
        if ((from != rank && to != rank) || seen[other]) continue;
        seen[other] = true;
        count++;
    }
    return count;
}

/* The member that is in pairs with several others, and with more than any other member is; -1: there is
 * none. */
static int find_common(const gw_attempt *a, const pairs *all) {
    int most = -1;
    uint32_t most_count = 1;
    for (uint32_t rank = 0; rank < a->view.count; rank++) {
        uint32_t count = partners(all, rank);
        if (count == most_count) most = -1;
        if (count <= most_count) continue;
        most = (int)rank;
        most_count = count;
    }
    return most;
}

static bool are_in_all(const pairs *all, uint32_t one, uint32_t other) {
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t from = all->list[i].from, to = all->list[i].to;
        if (from != one && from != other && to != one && to != other) return false;
    }
    return true;
}

/* If no single member stands out: the first one of the only pair that has a member in all pairs; -1: there is
 * none, or there are several. */
static int find_one_of_two(const gw_attempt *a, const pairs *all) {
    int found = -1;
    if (a->view.count <= 2) return -1;
    for (uint32_t one = 0; one < a->view.count; one++)
        for (uint32_t other = one + 1; other < a->view.count; other++) {
            if (!are_in_all(all, one, other)) continue;
            if (found >= 0) return -1;
            found = (int)one;
        }
    return found;
}

/* The arrangement after the one in which bits have changed last. */
static uint32_t next_arrangement(const gw_attempt *a) {
    uint32_t next = 0;
    for (uint32_t rank = 0; rank < a->view.count; rank++) {
        const gw_path_errors *reported = &a->reports[rank]->path_errors;
        if (reported->count > 0 && reported->arrangement >= next) next = reported->arrangement + 1;
    }
    return next;
}

/* Whether the other members' states are all older than the step before this member's. Then it is not
 * convicted; a member that cannot fetch the state from it is left out, as the path between them is broken. */
static bool is_only_holder(const gw_attempt *a, const gw_convictions *convictions, uint32_t rank) {
    const gw_report *own = a->reports[rank];
    for (uint32_t i = 0; i < a->view.count; i++) {
        const gw_report *r = a->reports[i];
        bool counts = i != rank && !gw_verdicts_count_against(a, convictions, i);
        if (counts && r->has_state && r->step + 1 >= own->step) return false;
    }
    return own->has_state;
}

int gw_path_errors_judge(gw_peer *p, gw_install *i) {
    const gw_attempt *a = &p->view.attempt;
    const pairs all = collect(a, 2), last = collect(a, 1);
    i->arrangement = next_arrangement(a);
    int rank = find_common(a, &last); /* earlier changes may have had another cause */
    if (rank < 0) rank = find_common(a, &all);
    if (rank < 0) rank = find_one_of_two(a, &all);
    if (rank < 0 || is_only_holder(a, &i->convictions, (uint32_t)rank)) return -1;
    const gw_report *r = a->reports[rank];
    gw_conviction one = {/* the member hears of it in the new view, and may be convicted there again */
                         .id = a->view.members[rank].id,
                         .boot = a->view.members[rank].boot,
                         .epoch = a->view.epoch - 1,
                         .step = UINT64_MAX}; /* its checkpoints have none of the bits that it held then */
    if (r->has_state) one.step = r->step > 0 ? r->step - 1 : 0;
    gw_convictions_add(&i->convictions, &one);
    return rank;
}

void gw_path_errors_report(gw_peer *p, const gw_install *i, int rank) {
    const gw_peer_id *id = rank < 0 ? NULL : &i->view.members[rank].id;
    if (id == NULL || gw_peer_id_equal(id, &p->config.id)) return;
    if (gw_convictions_of(&i->convictions, id) == NULL)
        return; /* its state is needed (gw_verdicts_discount) */
    gw_verify_report(p, id,
                     "bits changed between it and more than one other peer: it must fetch the state anew");
}

bool gw_path_errors_halt(gw_peer *p) {
    const gw_attempt *a = &p->view.attempt;
    char one[GW_SHORT_TEXT], other[GW_SHORT_TEXT];
    uint32_t times = 0;
    for (uint32_t to = 0; to < a->view.count && a->view.count == 2; to++) {
        const gw_path_errors *reported = &a->reports[to]->path_errors;
        if (gw_peer_id_equal(&reported->from[0], &a->view.members[1 - to].id)) times += reported->of_two;
    }
    if (times < MOST_BETWEEN_TWO) return false;
    gw_halt(
        p, &a->view,
        "at step %" PRIu64 " bits have changed %" PRIu32
        " times between peers %s and %s, and nobody can tell in whose memory, or whether on the way: start "
        "again with a third peer, or without the one that fails a memory test",
        p->state.step, times, gw_peer_id_short(&a->view.members[0].id, one),
        gw_peer_id_short(&a->view.members[1].id, other));
    return true;
}

void gw_path_errors_view_begins(gw_peer *p, const gw_install *i) {
    p->faults.arrangement = i->arrangement;
    for (uint32_t k = 0; k < i->convictions.count; k++)
        if (i->convictions.list[k].epoch >= p->faults.path_errors.epoch[0]) gw_path_errors_forget(p);
}
