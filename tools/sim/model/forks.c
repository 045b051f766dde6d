#include "tools/sim/model/forks.h"

#include "core/base/assert.h"
#include "core/record/ballot.h"
#include "core/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = GW_FORKS_PEERS, ATTEMPTS = GW_FORKS_ATTEMPTS, VIEWS = ATTEMPTS + 1, FIRST_TABLE = 1 << 16 };

typedef unsigned __int128 packed_state;

/* The order of proposals: by epoch, and within one epoch by name. */
typedef enum order {
    NEW_EPOCH = 0, /* an epoch after all earlier ones */
    SAME_LATER,    /* the epoch of the previous proposal, and a later name than all others of that epoch */
    SAME_EARLIER,  /* the epoch of the previous proposal, and an earlier name than all others of that epoch */
} order;

/* A proposal. Masks of peers: members; votes, which their voters remember; unsaved, votes that are not
 * durable, or, if they are not in `votes`, that were answered and forgotten; stale, members that have
 * restarted since it was proposed. Masks of views: listed, and known (what any of its voters came from,
 * committed or not). View 0 is the founding view of all peers. */
typedef struct proposal {
    uint8_t members, votes, unsaved, stale, base, leader, listed, known, order;
    bool concluded; /* its leader has lived in it */
    bool given_up;  /* its leader has reported that it never will, and all have heard that */
} proposal;

/* A state. The votes and promises of a peer follow from the votes: the last view that it voted for, and
 * those after the view that it lives in that were not taken back. */
typedef struct state {
    proposal views[VIEWS];
    /* number of views; mask of views that were committed; mask of restarted peers */
    uint8_t count, committed, restarted;
    /* by peer: the view that it lives in; the view that its record names */
    uint8_t installed[PEERS], home[PEERS];
} state;

/* Remembered answers of the real rules, by what they depend on: visiting a state takes less time than
 * building a view. */
typedef struct memo {
    packed_state *keys; /* key + 1; 0 = free */
    uint8_t *values;
    uint64_t size, used;
} memo;

typedef struct search {
    gw_forks_size size;
    uint32_t views, view_bits, peer_bits;
    gw_forks_without without;
    packed_state *states; /* in the order of discovery */
    uint64_t count, most;
    uint32_t *table; /* index + 1; open addressing */
    uint64_t table_size;
    memo quorum, answer;
    gw_ballot ballot;
    bool fork, full;
} search;

/* States in 128 bits. */

static uint32_t bits_for(uint32_t values) {
    uint32_t bits = 1;
    while (1U << bits < values) bits++;
    return bits;
}

/* Returns the bits for unsaved votes: without restarts nothing is forgotten. */
static uint32_t unsaved_bits(const search *x) {
    return x->size.restarts > 0 ? x->size.peers : 0;
}

static uint32_t home_bits(const search *x) {
    return x->size.restarts > 0 ? x->view_bits : 0;
}

static uint32_t order_bits(const search *x) {
    return x->size.shared > 0 ? 2 : 0;
}

static uint32_t state_bits(const search *x) {
    uint32_t peers = x->size.peers, attempts = x->size.attempts;
    uint32_t each = 3 * peers + unsaved_bits(x) + x->view_bits + x->peer_bits + order_bits(x) + 2;
    uint32_t views = attempts * attempts; /* the masks `listed` and `known` of all proposals */
    return attempts * each + views + peers * (x->view_bits + home_bits(x)) + peers + attempts;
}

static void push_bits(packed_state *packed, uint32_t bits, uint32_t value) {
    GW_ASSERT(value < 1U << bits || bits == 0);
    *packed = *packed << bits | value;
}

static uint8_t pop_bits(packed_state *packed, uint32_t bits) {
    uint8_t value = (uint8_t)(*packed & ((1U << bits) - 1));
    *packed >>= bits;
    return value;
}

/* Packs a state. Masks of views do not contain view 0; `listed` has the earlier views, and `known` these
 * and the proposal itself. */
static packed_state pack(const search *x, const state *s) {
    packed_state packed = 0;
    for (uint32_t k = 1; k < x->views; k++) {
        const proposal *v = &s->views[k];
        push_bits(&packed, x->size.peers, v->members);
        push_bits(&packed, x->size.peers, v->votes);
        push_bits(&packed, unsaved_bits(x), v->unsaved);
        push_bits(&packed, x->size.peers, v->stale);
        push_bits(&packed, x->view_bits, v->base);
        push_bits(&packed, x->peer_bits, v->leader);
        push_bits(&packed, k - 1, v->listed >> 1);
        push_bits(&packed, k, v->known >> 1);
        push_bits(&packed, order_bits(x), v->order);
        push_bits(&packed, 1, v->concluded);
        push_bits(&packed, 1, v->given_up);
    }
    for (uint32_t i = 0; i < x->size.peers; i++) {
        push_bits(&packed, x->view_bits, s->installed[i]);
        push_bits(&packed, home_bits(x), x->size.restarts > 0 ? s->home[i] : 0);
    }
    push_bits(&packed, x->size.peers, s->restarted);
    push_bits(&packed, x->views - 1, s->committed >> 1);
    return packed;
}

static state unpack(const search *x, packed_state packed) {
    state s = {.count = 1};
    s.committed = (uint8_t)(pop_bits(&packed, x->views - 1) << 1 | 1);
    s.restarted = pop_bits(&packed, x->size.peers);
    for (uint32_t i = x->size.peers; i-- > 0;) {
        s.home[i] = pop_bits(&packed, home_bits(x));
        s.installed[i] = pop_bits(&packed, x->view_bits);
    }
    for (uint32_t k = VIEWS; k-- > 1;) {
        if (k >= x->views)
            continue; /* the compiler sees the bound of the array only in this form of the loop */
        proposal *v = &s.views[k];
        v->given_up = pop_bits(&packed, 1);
        v->concluded = pop_bits(&packed, 1);
        v->order = pop_bits(&packed, order_bits(x));
        v->known = (uint8_t)(pop_bits(&packed, k) << 1 | 1);
        v->listed = (uint8_t)(pop_bits(&packed, k - 1) << 1);
        v->leader = pop_bits(&packed, x->peer_bits);
        v->base = pop_bits(&packed, x->view_bits);
        v->stale = pop_bits(&packed, x->size.peers);
        v->unsaved = pop_bits(&packed, unsaved_bits(x));
        v->votes = pop_bits(&packed, x->size.peers);
        v->members = pop_bits(&packed, x->size.peers);
        if (v->members != 0 && s.count == 1) s.count = (uint8_t)(k + 1);
        if (v->members == 0) *v = (proposal){0};
    }
    uint8_t all = (uint8_t)((1 << x->size.peers) - 1);
    s.views[0] = (proposal){.members = all, .votes = all, .known = 1, .concluded = true};
    return s;
}

/* The real rules, with remembered answers. */

static uint64_t hash_of(packed_state packed) {
    return gw_mix64((uint64_t)packed ^ gw_mix64((uint64_t)(packed >> 64)));
}

static uint64_t slot_of(const memo *m, packed_state key) {
    uint64_t at = hash_of(key) & (m->size - 1);
    while (m->keys[at] != 0 && m->keys[at] != key + 1) at = (at + 1) & (m->size - 1);
    return at;
}

static bool memo_find(const memo *m, packed_state key, uint8_t *value) {
    if (m->size == 0) return false;
    uint64_t at = slot_of(m, key);
    *value = m->values[at];
    return m->keys[at] != 0;
}

static void memo_add(memo *m, packed_state key, uint8_t value) {
    if (2 * m->used >= m->size) {
        memo bigger = {.size = m->size == 0 ? 1024 : 2 * m->size};
        bigger.keys = calloc(bigger.size, sizeof *bigger.keys);
        bigger.values = calloc(bigger.size, 1);
        GW_ASSERT_MEMORY(bigger.keys != NULL && bigger.values != NULL);
        for (uint64_t i = 0; i < m->size; i++)
            if (m->keys[i] != 0) memo_add(&bigger, m->keys[i] - 1, m->values[i]);
        free(m->keys);
        free(m->values);
        *m = bigger;
    }
    uint64_t at = slot_of(m, key);
    m->keys[at] = key + 1;
    m->values[at] = value;
    m->used++;
}

/* Epochs and names. */

/* Returns the epoch of a view. Epochs rise with the order of the proposals: one that is proposed late with
 * an early epoch has heard of no later ones. */
static uint64_t epoch_of(const state *s, uint8_t k) {
    uint64_t epoch = 1;
    for (uint8_t l = 1; l <= k; l++) epoch += s->views[l].order == NEW_EPOCH;
    return epoch;
}

/* Returns the place of the view's name among those of its epoch. */
static uint8_t rank_of(const state *s, uint8_t k) {
    enum { MIDDLE = 128 };
    uint8_t first = k, lowest = MIDDLE, highest = MIDDLE;
    while (s->views[first].order != NEW_EPOCH) first--;
    for (uint8_t l = (uint8_t)(first + 1); l < k; l++) {
        highest = (uint8_t)(highest + (s->views[l].order == SAME_LATER));
        lowest = (uint8_t)(lowest - (s->views[l].order == SAME_EARLIER));
    }
    if (s->views[k].order == NEW_EPOCH) return MIDDLE;
    return (uint8_t)(s->views[k].order == SAME_LATER ? highest + 1 : lowest - 1);
}

static bool later(const state *s, uint8_t one, uint8_t other) {
    uint64_t a = epoch_of(s, one), b = epoch_of(s, other);
    return a > b || (a == b && rank_of(s, one) > rank_of(s, other));
}

static uint32_t shared_epochs(const state *s) {
    uint32_t count = 0;
    for (uint8_t k = 1; k < s->count; k++) count += s->views[k].order != NEW_EPOCH;
    return count;
}

static void make_view(const search *x, const state *s, uint8_t k, gw_view *view) {
    const proposal *v = &s->views[k];
    *view = (gw_view){.epoch = epoch_of(s, k)};
    for (uint8_t i = 0; i < x->size.peers; i++) {
        bool former = (v->stale >> i & 1) && x->without != GW_FORKS_WITHOUT_LIVES;
        if (v->members >> i & 1)
            view->members[view->count++] = (gw_member){.id = {{(uint8_t)(i + 1)}}, .boot = former ? 1 : 2};
    }
    view->leader = (gw_peer_id){{(uint8_t)(v->leader + 1)}};
    view->name.bytes[0] = rank_of(s, k);
    view->name.bytes[1] = (uint8_t)(k + 1);
}

static uint32_t make_views(const search *x, const state *s, uint8_t mask, gw_view *views) {
    uint32_t count = 0;
    for (uint8_t k = 0; k < s->count; k++)
        if (mask >> k & 1) make_view(x, s, k, &views[count++]);
    return count;
}

static bool is_half(uint8_t of, uint8_t some) {
    return 2 * __builtin_popcount(of & some) == __builtin_popcount(of);
}

/* Returns the answer of gw_ballot_no_majority_of for view k, the last one; it depends on members alone. */
static bool quorum(search *x, const state *s, uint8_t k) {
    const proposal *v = &s->views[k];
    uint8_t listed = x->without == GW_FORKS_WITHOUT_LISTED ? 0 : v->listed, yes;
    packed_state key = s->views[v->base].members;
    for (uint8_t l = 1; l < k; l++) key = key << PEERS | (listed >> l & 1 ? s->views[l].members : 0);
    key = key << PEERS | v->members;
    if (memo_find(&x->quorum, key, &yes)) return yes;
    gw_view view, *views = calloc(VIEWS, sizeof *views);
    GW_ASSERT_MEMORY(views != NULL);
    make_view(x, s, k, &view);
    yes = true;
    for (uint8_t l = 0; l < k;
         l++) { /* one view at a time, so that a half can be accepted where that rule is taken out */
        if (l != v->base && !(listed >> l & 1)) continue;
        make_view(x, s, l, views);
        bool enough = (l == v->base ? gw_ballot_no_majority_of(views, NULL, 0, &view)
                                    : gw_ballot_no_majority_of(&view, views, 1, &view)) == NULL;
        enough |= x->without == GW_FORKS_WITHOUT_LOWEST && is_half(s->views[l].members, v->members);
        yes &= enough;
    }
    free(views);
    memo_add(&x->quorum, key, yes);
    return yes;
}

static uint8_t voted_for(const state *s, uint32_t peer) {
    for (uint8_t k = s->count; k-- > 1;)
        if (s->views[k].votes >> peer & 1) return k;
    return 0;
}

/* Takes the promise back as soon as the peer has voted: a peer that hears later that this view was given
 * up is bound by no less until then. */
static void take_back(gw_ballot *ballot, const gw_view *view) {
    const gw_member *leader = &view->members[gw_view_rank(view, &view->leader)];
    const gw_incarnation life = {.boot = leader->boot, .nonce = leader->nonce};
    gw_ballot_take_back(ballot, &view->leader, &life, view->epoch - 1, view->epoch);
}

/* Makes the ballot of this peer from its votes and the view that it lives in. */
static void make_ballot(search *x, const state *s, uint32_t peer, gw_view *view) {
    gw_ballot *ballot = &x->ballot;
    ballot->voted = ballot->highest = 0;
    ballot->later_count = 0;
    ballot->installed = (gw_view){0};
    for (uint8_t k = 1; k < s->count; k++) {
        if (!(s->views[k].votes >> peer & 1)) continue;
        make_view(x, s, k, view);
        if (x->without == GW_FORKS_WITHOUT_ONCE) ballot->voted = 0;
        gw_ballot_vote(ballot, view, epoch_of(s, s->views[k].base));
        if (s->views[k].given_up) take_back(ballot, view);
    }
    make_view(x, s, s->installed[peer], view);
    gw_ballot_install(ballot, view);
    if (x->without == GW_FORKS_WITHOUT_ONCE) ballot->voted = 0; /* the peer is not asked about older views */
    if (x->without == GW_FORKS_WITHOUT_PROMISES) ballot->later_count = 0;
    if (x->without == GW_FORKS_WITHOUT_INSTALLED) ballot->installed.epoch = 1;
}

/* Returns the answer of gw_ballot_consider for this peer and view k, the last one that it could vote for. */
static bool would_vote(search *x, const state *s, uint8_t k, uint32_t peer) {
    const proposal *v = &s->views[k];
    packed_state key = (packed_state)k << 5 | v->listed;
    key = key << 3 | v->base;
    key = key << 3 | s->installed[peer];
    for (uint8_t l = 1; l <= k; l++) {
        const proposal *one = &s->views[l];
        key = key << 1 | (one->votes >> peer & 1);
        key = key << PEERS | one->members;
        key = key << 3 | one->leader;
        key = key << 1 | (one->stale >> one->leader & 1);
        key = key << 1 | one->given_up;
        key = key << 2 | one->order;
        if (l < k) key = key << 3 | (unsigned)(one->base << 1) | (v->stale >> one->leader & 1U);
    }
    uint8_t yes;
    if (memo_find(&x->answer, key, &yes)) return yes;
    gw_view *views = calloc(VIEWS + 2, sizeof *views);
    GW_ASSERT_MEMORY(views != NULL);
    gw_view *view = &views[VIEWS], *base = &views[VIEWS + 1];
    make_ballot(x, s, peer, view);
    make_view(x, s, k, view);
    make_view(x, s, v->base, base);
    uint32_t count = make_views(x, s, v->listed, views);
    yes = gw_ballot_consider(&x->ballot, view, base->epoch, &base->name, views, count) == GW_BALLOT_YES;
    free(views);
    memo_add(&x->answer, key, yes);
    return yes;
}

/* The search for a fork. */

/* Whether a view descends from another, by base or by being listed. Listing a view lists every other view
 * of the same peers after the base, because it needs the same majority of their members. */
static bool descends(const state *s, uint8_t younger, uint8_t older) {
    if (younger == older) return true;
    if (younger == 0) return false;
    const proposal *v = &s->views[younger];
    uint8_t from = (uint8_t)(v->listed | 1 << v->base);
    for (uint8_t k = 1; k < younger; k++)
        for (uint8_t l = 0; l < younger; l++)
            if ((v->listed >> l & 1) && s->views[l].members == s->views[k].members && later(s, k, v->base))
                from |= (uint8_t)(1 << k);
    for (uint8_t k = 0; k < younger; k++)
        if ((from >> k & 1) && descends(s, k, older)) return true;
    return false;
}

static bool follows(const state *s, uint8_t younger, uint8_t older) {
    bool known = s->restarted != 0 || (s->views[younger].known >> older & 1);
    return known && descends(s, younger, older);
}

static void commit_and_check(search *x, state *s) {
    for (uint8_t k = 1; k < s->count; k++) {
        bool all = true;
        for (uint32_t i = 0; i < x->size.peers; i++)
            if (s->views[k].members >> i & 1) all &= s->installed[i] == k && voted_for(s, i) <= k;
        if (all) s->committed |= (uint8_t)(1 << k);
    }
    for (uint8_t a = 1; a < s->count; a++)
        for (uint8_t b = (uint8_t)(a + 1); b < s->count; b++)
            if ((s->committed >> a & 1) && (s->committed >> b & 1) && !follows(s, b, a)) x->fork = true;
}

static void grow_table(search *x) {
    uint64_t size = x->table_size == 0 ? FIRST_TABLE : 2 * x->table_size;
    free(x->table);
    x->table = calloc(size, sizeof *x->table);
    x->states = realloc(x->states, size / 2 * sizeof *x->states);
    GW_ASSERT_MEMORY(x->table != NULL && x->states != NULL);
    x->table_size = size;
    for (uint64_t i = 0; i < x->count; i++) {
        uint64_t at = hash_of(x->states[i]) & (size - 1);
        while (x->table[at] != 0) at = (at + 1) & (size - 1);
        x->table[at] = (uint32_t)(i + 1);
    }
}

static void found(search *x, state *s) {
    commit_and_check(x, s);
    packed_state packed = pack(x, s);
    if (2 * (x->count + 1) > x->table_size) grow_table(x);
    uint64_t at = hash_of(packed) & (x->table_size - 1);
    for (; x->table[at] != 0; at = (at + 1) & (x->table_size - 1))
        if (x->states[x->table[at] - 1] == packed) return;
    if (x->count == x->most) {
        x->full = true;
        return;
    }
    x->states[x->count++] = packed;
    x->table[at] = (uint32_t)x->count;
}

/* The steps that can follow a state. */

/* Whether the peer may still lose its memory. */
static bool may_restart(const search *x, const state *s, uint32_t peer) {
    return !(s->restarted >> peer & 1) && (uint32_t)__builtin_popcount(s->restarted) < x->size.restarts;
}

/* Returns the peers whose votes for the proposal others have heard of. */
static uint8_t answered(const search *x, const proposal *v) {
    return x->without == GW_FORKS_WITHOUT_DURABLE ? v->votes | v->unsaved : v->votes & ~v->unsaved;
}

/* Casts a vote. The vote of a peer that cannot forget it any more is durable at once: that others hear of
 * it sooner excludes nothing that can happen. */
static void cast(const search *x, state *t, uint8_t k, uint32_t by) {
    t->views[k].votes |= (uint8_t)(1 << by);
    if (may_restart(x, t, by)) t->views[k].unsaved |= (uint8_t)(1 << by);
}

/* Writes the record of a peer: its votes, and the view that it lives in. */
static void save(search *x, const state *s, uint32_t by) {
    state t = *s;
    bool news = s->home[by] != s->installed[by];
    t.home[by] = s->installed[by];
    for (uint8_t k = 1; k < s->count; k++) {
        uint8_t its = s->views[k].votes & s->views[k].unsaved & (uint8_t)(1 << by);
        t.views[k].unsaved = (uint8_t)(t.views[k].unsaved & ~its);
        news |= its != 0;
    }
    if (news) found(x, &t);
}

/* Returns the views to which the peer has promised its vote and which their leaders may have given up by
 * now. A leader that was restarted will not live in what its former life proposed, and may have reported
 * so before that life ended. */
static uint8_t may_be_given_up(const state *s, uint32_t by) {
    uint8_t views = 0;
    for (uint8_t k = 1; k < s->count; k++) {
        const proposal *v = &s->views[k];
        if ((v->votes >> by & 1) && v->leader != by && !v->concluded) views |= (uint8_t)(1 << k);
    }
    return views;
}

static state with_given_up(const state *s, uint8_t views) {
    state t = *s;
    for (uint8_t k = 1; k < s->count; k++) t.views[k].given_up |= views >> k & 1;
    return t;
}

/* Adds the vote of a peer for view k, if it gives one, possibly because others have given up what it had
 * promised them. Their reports have no other effect, so they are made here, when they are needed, and of
 * no more views than needed. Each promise is an obstacle by itself: the first sufficient set of them is
 * part of all other sufficient sets. */
static void vote_if_free(search *x, const state *s, uint8_t k, uint32_t by) {
    const uint8_t most = may_be_given_up(s, by);
    state t = with_given_up(s, most);
    if (!would_vote(x, &t, k, by)) return;
    uint8_t given_up = 0;
    for (t = *s; !would_vote(x, &t, k, by); t = with_given_up(s, given_up))
        given_up = (uint8_t)((given_up - most) & most);
    cast(x, &t, k, by);
    found(x, &t);
}

static void propose_in(search *x, const state *s, uint32_t by, order place) {
    uint8_t base = s->installed[by], k = s->count, candidates = 0;
    for (uint8_t v = 1; v < k; v++)
        if (later(s, v, base)) candidates |= (uint8_t)(1 << v);
    if (x->without == GW_FORKS_WITHOUT_PROMISES) candidates = 0;
    for (uint32_t members = 1; members < 1U << x->size.peers; members++) {
        if (!(members >> by & 1)) continue;
        for (uint8_t listed = candidates;; listed = (uint8_t)((listed - 1) & candidates)) {
            state t = *s;
            t.views[k] = (proposal){.members = (uint8_t)members,
                                    .base = base,
                                    .leader = (uint8_t)by,
                                    .listed = listed,
                                    .order = (uint8_t)place,
                                    .known = (uint8_t)(s->views[base].known | 1 << k)};
            t.count++;
            if (quorum(x, &t, k)) vote_if_free(x, &t, k, by);
            if (listed == 0) break;
        }
    }
}

static void propose(search *x, const state *s, uint32_t by) {
    propose_in(x, s, by, NEW_EPOCH);
    if (s->count == 1 || shared_epochs(s) >= x->size.shared) return;
    propose_in(x, s, by, SAME_LATER);
    propose_in(x, s, by, SAME_EARLIER);
}

static void vote(search *x, const state *s, uint8_t k, uint32_t by) {
    const proposal *v = &s->views[k];
    bool asked = (v->members >> by & 1) && !(v->stale >> by & 1) && !(v->votes >> by & 1);
    if (!asked || s->installed[by] >= k || voted_for(s, by) > k) return;
    state t = *s;
    t.views[k].known |= s->views[s->installed[by]].known;
    vote_if_free(x, &t, k, by);
}

static void install(search *x, const state *s, uint8_t k, uint32_t by) {
    const proposal *v = &s->views[k];
    bool told = answered(x, v) == v->members && (v->members >> by & 1) && !(v->stale >> by & 1);
    if (!told || epoch_of(s, s->installed[by]) >= epoch_of(s, k)) return;
    bool keeps = !v->given_up || x->without == GW_FORKS_WITHOUT_GIVEN_UP;
    bool leads = v->leader == by && voted_for(s, by) == k && keeps; /* it still has the attempt */
    if (!leads && !v->concluded && x->without != GW_FORKS_WITHOUT_LEADER) return;
    state t = *s;
    t.installed[by] = k;
    if (!may_restart(x, s, by)) t.home[by] = k;
    t.views[k].concluded |= leads;
    found(x, &t);
}

/* Forgets what is not durable; others may have heard of it where the rule is taken out. */
static void forget(const search *x, state *t, uint32_t peer) {
    t->installed[peer] = t->home[peer];
    for (uint8_t k = 1; k < t->count; k++) {
        proposal *v = &t->views[k];
        uint8_t lost = v->votes & v->unsaved & (uint8_t)(1 << peer);
        v->votes = (uint8_t)(v->votes & ~lost);
        if (x->without != GW_FORKS_WITHOUT_DURABLE) v->unsaved = (uint8_t)(v->unsaved & ~lost);
    }
}

/* Makes everything durable after the last restart: nothing is forgotten any more. */
static void settle(const search *x, state *t) {
    if ((uint32_t)__builtin_popcount(t->restarted) < x->size.restarts) return;
    for (uint8_t k = 1; k < t->count; k++)
        t->views[k].unsaved = (uint8_t)(t->views[k].unsaved & ~t->views[k].votes);
    memcpy(t->home, t->installed, sizeof t->home);
}

static void restart(search *x, const state *s, uint32_t peer) {
    if (!may_restart(x, s, peer)) return;
    state t = *s;
    t.restarted |= (uint8_t)(1 << peer);
    for (uint8_t k = 1; k < s->count; k++)
        t.views[k].stale = (uint8_t)(t.views[k].stale | (s->views[k].members & 1 << peer));
    forget(x, &t, peer);
    settle(x, &t);
    found(x, &t);
}

bool gw_forks_explore(const gw_forks_size *size, gw_forks_without without, uint64_t most,
                      gw_forks_result *result) {
    *result = (gw_forks_result){0};
    search x = {.size = *size,
                .views = size->attempts + 1,
                .view_bits = bits_for(size->attempts + 1),
                .peer_bits = bits_for(size->peers),
                .without = without,
                .most = most};
    if (size->peers < 1 || size->peers > PEERS || size->attempts < 1 || size->attempts > ATTEMPTS ||
        size->shared >= size->attempts || most >= UINT32_MAX || state_bits(&x) > 128)
        return false;
    gw_ballot_open(&x.ballot, true);
    uint8_t all = (uint8_t)((1 << size->peers) - 1);
    state first = {.count = 1, .committed = 1};
    first.views[0] = (proposal){.members = all, .votes = all, .known = 1, .concluded = true};
    found(&x, &first);
    uint64_t layer_end = x.count;
    for (uint64_t at = 0; at < x.count && !x.fork && !x.full; at++) {
        if (at == layer_end) {
            layer_end = x.count;
            result->depth++;
        }
        state s = unpack(&x, x.states[at]);
        for (uint32_t i = 0; i < size->peers; i++) {
            if (s.count < x.views) propose(&x, &s, i);
            for (uint8_t k = 1; k < s.count; k++) {
                vote(&x, &s, k, i);
                install(&x, &s, k, i);
            }
            save(&x, &s, i);
            restart(&x, &s, i);
        }
    }
    result->fork = x.fork;
    result->full = x.full;
    result->states = x.count;
    gw_ballot_close(&x.ballot);
    free(x.states);
    free(x.table);
    free(x.quorum.keys);
    free(x.quorum.values);
    free(x.answer.keys);
    free(x.answer.values);
    return true;
}

/* The output for people. */

const char *gw_forks_rule_name(gw_forks_without without) {
    static const char *const names[] = {
        [GW_FORKS_WITH_ALL] = "none",           [GW_FORKS_WITHOUT_PROMISES] = "promises",
        [GW_FORKS_WITHOUT_LISTED] = "listed",   [GW_FORKS_WITHOUT_INSTALLED] = "installed",
        [GW_FORKS_WITHOUT_LOWEST] = "lowest",   [GW_FORKS_WITHOUT_LEADER] = "leader",
        [GW_FORKS_WITHOUT_LIVES] = "lives",     [GW_FORKS_WITHOUT_ONCE] = "once",
        [GW_FORKS_WITHOUT_DURABLE] = "durable", [GW_FORKS_WITHOUT_GIVEN_UP] = "given-up",
    };
    return without < GW_FORKS_RULES ? names[without] : NULL;
}

bool gw_forks_print(const gw_forks_size *size, gw_forks_without without) {
    enum { MOST_STATES = 500000000 };
    gw_forks_result result;
    if (!gw_forks_explore(size, without, MOST_STATES, &result)) {
        printf("godwit sim: %u peers with %u proposals are more than this search can hold\n", size->peers,
               size->attempts);
        return false;
    }
    printf("majority mode, %u peers of which %u restart once, every order of up to %u proposals", size->peers,
           size->restarts, size->attempts);
    if (size->shared > 0) printf(", %u of them in the epoch of another,", size->shared);
    printf(" and their votes and installs");
    if (without != GW_FORKS_WITH_ALL) printf(", without the rule '%s'", gw_forks_rule_name(without));
    printf(": %" PRIu64 " states, %" PRIu64 " steps deep: %s\n", result.states, result.depth,
           result.fork   ? "A FORK"
           : result.full ? "no fork so far, but there are more states than fit"
                         : "all visited, no fork");
    return !result.fork && !result.full;
}
