/* Majority mode never forks: every interleaving of proposals, votes and installs of three peers is visited,
 * with the real ballots and the real quorum rule. And the other way round: with the rule that a proposal
 * lists what its voters promised taken out, the same search finds a fork, so it would have found one.
 *
 * A view is committed when all its members live in it at once; a fork is two committed views neither of which
 * descends from the other (by base, or by being listed; listing a view lists every other of the same peers
 * after the base, of whose members it needs the same majority). Proposal k has epoch k + 1: epochs are
 * distinct, since peers that vote for different proposals of one epoch cannot both be a majority. */
#include "core/ballot.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum {
    PEERS = 3,
    ATTEMPTS = 3,
    VIEWS = ATTEMPTS + 1,
    ALL = (1 << PEERS) - 1,
    TABLE = 1 << 22,
    MOST_STATES = 1 << 21
};

typedef struct proposal {
    uint8_t members, base, listed, votes;
} proposal;

typedef struct state { /* compared as bytes: no padding */
    proposal proposals[VIEWS];
    uint8_t count, committed;
    uint8_t installed[PEERS], voted[PEERS], later[PEERS]; /* later: mask of views promised */
} state;

typedef struct search {
    state *states;
    uint32_t count;
    uint32_t *table; /* index + 1, open addressing */
    bool listing;    /* the rule under test */
    bool fork;
} search;

static gw_view view_of(const state *s, uint8_t k) {
    gw_view view = {.epoch = (uint64_t)k + 1};
    for (uint8_t i = 0; i < PEERS; i++)
        if (s->proposals[k].members >> i & 1)
            view.members[view.count++] = (gw_member){.id = {{(uint8_t)(i + 1)}}};
    view.leader = view.members[0].id;
    view.name.bytes[0] = (uint8_t)(k + 1); /* distinct is all that the rules need */
    return view;
}

static uint32_t listed_views(const state *s, uint8_t mask, gw_view *views) {
    uint32_t count = 0;
    for (uint8_t k = 0; k < s->count; k++)
        if (mask >> k & 1) views[count++] = view_of(s, k);
    return count;
}

static bool descends(const state *s, uint8_t younger, uint8_t older) {
    if (younger == older) return true;
    if (younger == 0) return false;
    const proposal *p = &s->proposals[younger];
    uint8_t from = (uint8_t)(p->listed | 1 << p->base);
    for (uint8_t k = (uint8_t)(p->base + 1); k < younger; k++)
        for (uint8_t l = 0; l < younger; l++)
            if ((p->listed >> l & 1) && s->proposals[l].members == s->proposals[k].members)
                from |= (uint8_t)(1 << k);
    for (uint8_t k = 0; k < younger; k++)
        if ((from >> k & 1) && descends(s, k, older)) return true;
    return false;
}

static void commit_and_check(search *x, state *s) {
    for (uint8_t k = 1; k < s->count; k++) {
        bool all = true;
        for (int i = 0; i < PEERS; i++)
            if (s->proposals[k].members >> i & 1) all &= s->installed[i] == k && s->voted[i] <= k;
        if (all) s->committed |= (uint8_t)(1 << k);
    }
    for (uint8_t a = 1; a < s->count; a++)
        for (uint8_t b = (uint8_t)(a + 1); b < s->count; b++)
            if ((s->committed >> a & 1) && (s->committed >> b & 1) && !descends(s, b, a)) x->fork = true;
}

static void push(search *x, state s) {
    commit_and_check(x, &s);
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof s; i++) hash = (hash ^ ((uint8_t *)&s)[i]) * 1099511628211u;
    for (uint32_t at = (uint32_t)hash & (TABLE - 1);; at = (at + 1) & (TABLE - 1)) {
        if (x->table[at] != 0) {
            if (memcmp(&x->states[x->table[at] - 1], &s, sizeof s) == 0) return;
            continue;
        }
        cr_assert_lt(x->count, MOST_STATES);
        x->states[x->count++] = s;
        x->table[at] = x->count;
        return;
    }
}

static void propose(search *x, const state *s, uint8_t by) {
    uint8_t base = s->installed[by], k = s->count;
    uint8_t candidates = 0;
    for (uint8_t v = (uint8_t)(base + 1); v < k && x->listing; v++) candidates |= (uint8_t)(1 << v);
    for (uint8_t members = 1; members <= ALL; members++) {
        if (!(members >> by & 1)) continue;
        for (uint8_t listed = candidates;; listed = (uint8_t)((listed - 1) & candidates)) {
            state t = *s;
            t.proposals[k] = (proposal){members, base, listed, (uint8_t)(1 << by)};
            t.count++;
            gw_view views[VIEWS], base_view = view_of(&t, base), view = view_of(&t, k);
            uint32_t count = listed_views(&t, listed, views);
            bool own_promises = !x->listing || (s->later[by] & ~listed) == 0;
            if (own_promises && gw_ballot_quorum(&base_view, views, count, &view)) {
                t.voted[by] = k;
                t.later[by] |= (uint8_t)(1 << k);
                push(x, t);
            }
            if (listed == 0) break;
        }
    }
}

static void vote(search *x, const state *s, uint8_t k, uint8_t by, gw_ballot *ballot) {
    const proposal *p = &s->proposals[k];
    if (!(p->members >> by & 1) || (p->votes >> by & 1)) return;
    gw_view views[VIEWS], view = view_of(s, k), base = view_of(s, p->base);
    ballot->installed = view_of(s, s->installed[by]);
    ballot->voted = (uint64_t)s->voted[by] + 1;
    ballot->later_count = x->listing ? listed_views(s, s->later[by], ballot->later) : 0;
    if (!x->listing)
        ballot->installed.epoch = 1; /* the naive rule: one rising vote an epoch and a majority of the base */
    uint32_t count = listed_views(s, p->listed, views);
    if (s->installed[by] >= k) return;
    if (gw_ballot_consider(ballot, &view, base.epoch, &base.name, views, count) != GW_BALLOT_YES) return;
    state t = *s;
    t.proposals[k].votes |= (uint8_t)(1 << by);
    t.voted[by] = k;
    t.later[by] |= (uint8_t)(1 << k);
    push(x, t);
}

static void install(search *x, const state *s, uint8_t k, uint8_t by) {
    const proposal *p = &s->proposals[k];
    if (p->votes != p->members || !(p->members >> by & 1) || s->installed[by] >= k) return;
    state t = *s;
    t.installed[by] = k;
    if (t.voted[by] < k) t.voted[by] = k;
    t.later[by] &= (uint8_t) ~((2 << k) - 1);
    push(x, t);
}

static search explore(bool listing) {
    search x = {.listing = listing};
    x.states = malloc(sizeof *x.states * MOST_STATES);
    x.table = calloc(TABLE, sizeof *x.table);
    cr_assert(x.states != NULL && x.table != NULL);
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    state first;
    memset(&first, 0, sizeof first);
    first.count = first.committed = 1;
    first.proposals[0] = (proposal){ALL, 0, 0, ALL};
    push(&x, first);
    for (uint32_t at = 0; at < x.count && !x.fork; at++) {
        state s = x.states[at];
        for (uint8_t i = 0; i < PEERS; i++) {
            if (s.count < VIEWS) propose(&x, &s, i);
            for (uint8_t k = 1; k < s.count; k++) {
                vote(&x, &s, k, i, &ballot);
                install(&x, &s, k, i);
            }
        }
    }
    gw_ballot_close(&ballot);
    free(x.states);
    free(x.table);
    return x;
}

Test(forks, majority_mode_never_forks_with_three_peers_and_three_attempts) {
    search x = explore(true);
    cr_assert(!x.fork);
    cr_assert_gt(x.count, 10000, "only %u states: the search is broken", x.count);
    cr_log_info("%u states", x.count);
}

Test(forks, without_listing_promises_the_same_search_finds_a_fork) {
    search x = explore(false);
    cr_assert(x.fork);
}
