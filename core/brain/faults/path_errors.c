/* Bits that change between two members: what came to one is not what the other had, of a sum
 * (net/collective/collective.h) or of a state. That sum counts for nothing here, and the next one goes round
 * in another order, so that each member has other neighbours: a bit that a particle has flipped is right now,
 * and where a machine flips some again and again it is in both pairs. It is found to hold other bits then, as
 * one that is outvoted: what it has of the job counts for nothing, and the second time it leaves. Where the
 * same two see it again, or one with two others in turn, it is the way between them, as with any path that
 * fails (core/brain/step/retry.c); but of two members that are all, nobody can tell which it is. */
#include "core/brain/faults/path_errors.h"

#include "core/base/assert.h"
#include "core/brain/faults/halt.h"
#include "core/brain/faults/verdicts.h"
#include "core/brain/faults/verify.h"
#include "core/brain/state.h"

#include <inttypes.h>

enum {
    MOST_BETWEEN_TWO = 3,
    LEAST_IN_TURN = 5, /* from so many on two members in turn are taken as the same one again and again */
};

/* Of two members neither is to go on alone when nobody can tell which of them it is: who has the state that
 * is summed from, or that of the step before the one it fetches. Who has none loses nothing as it leaves, and
 * whom it comes to was alone before. */
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
    return (same || in_turn) && p->view.current.count > 2; /* of two, neither is to go on alone */
}

void gw_path_errors_forget(gw_peer *p) {
    p->faults.path_errors = (gw_path_errors){0};
}

/* Between whom: members of the proposal by rank. */
typedef struct pairs {
    uint32_t count;
    struct {
        uint32_t from, to;
    } list[2 * GW_MAX_MEMBERS];
} pairs;

/* One of them was found to hold other bits then or since: that was what it was for. (Who has told of it may
 * not have been in the view that found so.) */
static bool is_paid_for(const gw_attempt *a, uint32_t from, uint32_t to, uint64_t epoch) {
    return gw_verdicts_has_heard(a, from, epoch) || gw_verdicts_has_heard(a, to, epoch);
}

/* Of the latest `depth` senders that each has told of, and that live. */
static pairs collect(const gw_attempt *a, int depth) {
    pairs all = {0};
    for (uint32_t to = 0; to < a->view.count; to++) {
        const gw_path_errors *told = &a->reports[to]->path_errors;
        for (int k = 0; k < depth; k++) {
            int from = gw_peer_id_is_none(&told->from[k]) ? -1 : gw_view_rank(&a->view, &told->from[k]);
            if (from < 0 || (uint32_t)from == to || told->boot[k] != a->view.members[from].boot) continue;
            if (is_paid_for(a, (uint32_t)from, to, told->epoch[k])) continue;
            all.list[all.count].from = (uint32_t)from;
            all.list[all.count++].to = to;
        }
    }
    return all;
}

/* With how many others this member has seen it, or they with it. */
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

/* Who is in pairs with several others, and with more than anybody else; -1: nobody. */
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

/* Where no single one stands out: the first of the only two that explain it all; -1: there are none, or
 * several. */
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

/* One further than that in which bits have changed last. */
static uint32_t next_arrangement(const gw_attempt *a) {
    uint32_t next = 0;
    for (uint32_t rank = 0; rank < a->view.count; rank++) {
        const gw_path_errors *told = &a->reports[rank]->path_errors;
        if (told->count > 0 && told->arrangement >= next) next = told->arrangement + 1;
    }
    return next;
}

/* Whether all that the others would go on from without it is further behind than the step that is being made.
 * Then whoever fetches, and cannot, is left out, as the path to it is broken. */
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
    int rank = find_common(a, &last); /* what was seen before that may have been with another faulty one */
    if (rank < 0) rank = find_common(a, &all);
    if (rank < 0) rank = find_one_of_two(a, &all);
    if (rank < 0 || is_only_holder(a, &i->convictions, (uint32_t)rank)) return -1;
    const gw_report *r = a->reports[rank];
    gw_conviction one = {/* in this one it hears so, and may be found wrong again */
                         .id = a->view.members[rank].id,
                         .boot = a->view.members[rank].boot,
                         .epoch = a->view.epoch - 1,
                         .step = UINT64_MAX}; /* of its checkpoints none is of bits that it held then */
    if (r->has_state) one.step = r->step > 0 ? r->step - 1 : 0;
    gw_convictions_add(&i->convictions, &one);
    return rank;
}

void gw_path_errors_report(gw_peer *p, const gw_install *i, int rank) {
    const gw_peer_id *id = rank < 0 ? NULL : &i->view.members[rank].id;
    if (id == NULL || gw_peer_id_equal(id, &p->config.id)) return;
    if (gw_convictions_of(&i->convictions, id) == NULL) return; /* it is needed, where a majority rules */
    gw_verify_report(p, id,
                     "bits changed between it and more than one other peer: it must fetch the state anew");
}

bool gw_path_errors_halt(gw_peer *p) {
    const gw_attempt *a = &p->view.attempt;
    char one[GW_SHORT_TEXT], other[GW_SHORT_TEXT];
    uint32_t times = 0;
    for (uint32_t to = 0; to < a->view.count && a->view.count == 2; to++) {
        const gw_path_errors *told = &a->reports[to]->path_errors;
        if (gw_peer_id_equal(&told->from[0], &a->view.members[1 - to].id)) times += told->of_two;
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
