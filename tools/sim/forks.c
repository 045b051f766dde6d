#include "tools/sim/forks.h"

#include "core/ballot.h"
#include "core/check.h"
#include "core/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = GW_FORKS_PEERS, ATTEMPTS = GW_FORKS_ATTEMPTS, VIEWS = ATTEMPTS + 1, FIRST_TABLE = 1 << 16 };

/* Masks of peers: members, votes. Masks of views: listed. View 0 is the founding one, of all peers. */
typedef struct proposal {
    uint8_t members, votes, base, listed;
} proposal;

/* What a peer has voted for and what it promised follow from the votes: the last one it is among, and all of
 * them after the view it lives in. */
typedef struct state {
    proposal views[VIEWS];
    uint8_t count, committed; /* of views; mask of those that were committed once */
    uint8_t installed[PEERS];
} state;

/* Answers of the real rules, by what they depend on: a state is visited in less time than a view is built. */
typedef struct memo {
    uint64_t *keys; /* key + 1, 0 = free */
    uint8_t *values;
    uint64_t size, used;
} memo;

typedef struct search {
    uint32_t peers, views, base_bits;
    gw_forks_without without;
    uint64_t *states, count, most; /* packed, in the order in which they were found */
    uint32_t *table;               /* index + 1, open addressing */
    uint64_t table_size;
    memo quorum, answer;
    gw_ballot ballot;
    bool fork, full;
} search;

/* ---- states in 64 bits ---- */

static uint64_t push_bits(uint64_t packed, uint32_t bits, uint64_t value) {
    GW_CHECK(value < UINT64_C(1) << bits);
    return packed << bits | value;
}

static uint32_t state_bits(uint32_t peers, uint32_t attempts, uint32_t base_bits) {
    return attempts * (2 * peers + base_bits + attempts - 1) + peers * base_bits + peers + attempts;
}

static uint64_t pack(const search *x, const state *s) {
    uint64_t packed = 0;
    for (uint32_t k = 1; k < x->views; k++) {
        const proposal *v = &s->views[k];
        packed = push_bits(packed, x->peers, v->members);
        packed = push_bits(packed, x->peers, v->votes);
        packed = push_bits(packed, x->base_bits, v->base);
        packed = push_bits(packed, x->views - 2, v->listed >> 1); /* never view 0, never the last */
    }
    for (uint32_t i = 0; i < x->peers; i++) packed = push_bits(packed, x->base_bits + 1, s->installed[i]);
    return push_bits(packed, x->views - 1, s->committed >> 1);
}

static uint8_t pop_bits(uint64_t *packed, uint32_t bits) {
    uint8_t value = (uint8_t)(*packed & ((UINT64_C(1) << bits) - 1));
    *packed >>= bits;
    return value;
}

static state unpack(const search *x, uint64_t packed) {
    state s = {.count = 1};
    s.committed = (uint8_t)(pop_bits(&packed, x->views - 1) << 1 | 1);
    for (uint32_t i = x->peers; i-- > 0;) s.installed[i] = pop_bits(&packed, x->base_bits + 1);
    for (uint32_t k = x->views; k-- > 1;) {
        proposal *v = &s.views[k];
        v->listed = (uint8_t)(pop_bits(&packed, x->views - 2) << 1);
        v->base = pop_bits(&packed, x->base_bits);
        v->votes = pop_bits(&packed, x->peers);
        v->members = pop_bits(&packed, x->peers);
        if (v->members != 0 && s.count == 1) s.count = (uint8_t)(k + 1);
    }
    uint8_t all = (uint8_t)((1 << x->peers) - 1);
    s.views[0] = (proposal){.members = all, .votes = all};
    return s;
}

/* ---- the real rules, remembered ---- */

static uint64_t slot_of(const memo *m, uint64_t key) {
    uint64_t at = gw_mix64(key) & (m->size - 1);
    while (m->keys[at] != 0 && m->keys[at] != key + 1) at = (at + 1) & (m->size - 1);
    return at;
}

static bool memo_find(const memo *m, uint64_t key, uint8_t *value) {
    if (m->size == 0) return false;
    uint64_t at = slot_of(m, key);
    *value = m->values[at];
    return m->keys[at] != 0;
}

static void memo_add(memo *m, uint64_t key, uint8_t value) {
    if (2 * m->used >= m->size) {
        memo bigger = {.size = m->size == 0 ? 1024 : 2 * m->size};
        bigger.keys = calloc(bigger.size, sizeof *bigger.keys);
        bigger.values = calloc(bigger.size, 1);
        GW_CHECK(bigger.keys != NULL && bigger.values != NULL);
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

static void make_view(const search *x, const state *s, uint8_t k, gw_view *view) {
    *view = (gw_view){.epoch = (uint64_t)k + 1};
    for (uint32_t i = 0; i < x->peers; i++)
        if (s->views[k].members >> i & 1)
            view->members[view->count++] = (gw_member){.id = {{(uint8_t)(i + 1)}}};
    view->leader = view->members[0].id;
    view->name.bytes[0] = (uint8_t)(k + 1); /* distinct is all that the rules need */
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

/* gw_ballot_quorum for view k, the last one; depends on members alone. */
static bool quorum(search *x, const state *s, uint8_t k) {
    const proposal *v = &s->views[k];
    uint8_t listed = x->without == GW_FORKS_WITHOUT_LISTED ? 0 : v->listed, yes;
    uint64_t key = s->views[v->base].members;
    for (uint8_t l = 1; l < k; l++) key = key << PEERS | (listed >> l & 1 ? s->views[l].members : 0);
    key = key << PEERS | v->members;
    if (memo_find(&x->quorum, key, &yes)) return yes;
    gw_view view, *views = calloc(VIEWS, sizeof *views);
    GW_CHECK(views != NULL);
    make_view(x, s, k, &view);
    yes = true;
    for (uint8_t l = 0; l < k;
         l++) { /* one by one, so that a half can be let through where it does not count */
        if (l != v->base && !(listed >> l & 1)) continue;
        make_view(x, s, l, views);
        bool enough =
            l == v->base ? gw_ballot_quorum(views, NULL, 0, &view) : gw_ballot_quorum(&view, views, 1, &view);
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

static uint8_t promised(const search *x, const state *s, uint32_t peer) {
    uint8_t later = 0;
    if (x->without == GW_FORKS_WITHOUT_PROMISES) return 0;
    for (uint8_t k = (uint8_t)(s->installed[peer] + 1); k < s->count; k++)
        if (s->views[k].votes >> peer & 1) later |= (uint8_t)(1 << k);
    return later;
}

/* gw_ballot_consider: what this peer's ballot says to view k. */
static bool would_vote(search *x, const state *s, uint8_t k, uint32_t peer) {
    const proposal *v = &s->views[k];
    uint8_t voted = voted_for(s, peer), later = promised(x, s, peer), installed = s->installed[peer], yes;
    if (x->without == GW_FORKS_WITHOUT_INSTALLED) installed = 0;
    uint64_t key = (uint64_t)k << 24 | (uint64_t)voted << 20 | (uint64_t)installed << 16 |
                   (uint64_t)later << 8 | v->listed;
    key = key << 3 | v->base;
    for (uint8_t l = 1; l < k; l++) key = key << PEERS | s->views[l].members;
    if (memo_find(&x->answer, key, &yes)) return yes;
    gw_view *views = calloc(VIEWS + 2, sizeof *views);
    GW_CHECK(views != NULL);
    make_view(x, s, k, &views[VIEWS]);
    make_view(x, s, v->base, &views[VIEWS + 1]);
    make_view(x, s, installed, &x->ballot.installed);
    x->ballot.voted = (uint64_t)voted + 1;
    x->ballot.later_count = make_views(x, s, later, x->ballot.later);
    uint32_t count = make_views(x, s, v->listed, views);
    const gw_view *base = &views[VIEWS + 1];
    yes = gw_ballot_consider(&x->ballot, &views[VIEWS], base->epoch, &base->name, views, count) ==
          GW_BALLOT_YES;
    free(views);
    memo_add(&x->answer, key, yes);
    return yes;
}

/* ---- what is looked for ---- */

static bool descends(const state *s, uint8_t younger, uint8_t older) {
    if (younger == older) return true;
    if (younger == 0) return false;
    const proposal *v = &s->views[younger];
    uint8_t from = (uint8_t)(v->listed | 1 << v->base);
    for (uint8_t k = (uint8_t)(v->base + 1); k < younger; k++)
        for (uint8_t l = 0; l < younger; l++)
            if ((v->listed >> l & 1) && s->views[l].members == s->views[k].members) from |= (uint8_t)(1 << k);
    for (uint8_t k = 0; k < younger; k++)
        if ((from >> k & 1) && descends(s, k, older)) return true;
    return false;
}

static void commit_and_check(search *x, state *s) {
    for (uint8_t k = 1; k < s->count; k++) {
        bool all = true;
        for (uint32_t i = 0; i < x->peers; i++)
            if (s->views[k].members >> i & 1) all &= s->installed[i] == k && voted_for(s, i) <= k;
        if (all) s->committed |= (uint8_t)(1 << k);
    }
    for (uint8_t a = 1; a < s->count; a++)
        for (uint8_t b = (uint8_t)(a + 1); b < s->count; b++)
            if ((s->committed >> a & 1) && (s->committed >> b & 1) && !descends(s, b, a)) x->fork = true;
}

static void grow_table(search *x) {
    uint64_t size = x->table_size == 0 ? FIRST_TABLE : 2 * x->table_size;
    free(x->table);
    x->table = calloc(size, sizeof *x->table);
    x->states = realloc(x->states, size / 2 * sizeof *x->states);
    GW_CHECK(x->table != NULL && x->states != NULL);
    x->table_size = size;
    for (uint64_t i = 0; i < x->count; i++) {
        uint64_t at = gw_mix64(x->states[i]) & (size - 1);
        while (x->table[at] != 0) at = (at + 1) & (size - 1);
        x->table[at] = (uint32_t)(i + 1);
    }
}

static void found(search *x, state *s) {
    commit_and_check(x, s);
    uint64_t packed = pack(x, s);
    if (2 * (x->count + 1) > x->table_size) grow_table(x);
    uint64_t at = gw_mix64(packed) & (x->table_size - 1);
    for (; x->table[at] != 0; at = (at + 1) & (x->table_size - 1))
        if (x->states[x->table[at] - 1] == packed) return;
    if (x->count == x->most) {
        x->full = true;
        return;
    }
    x->states[x->count++] = packed;
    x->table[at] = (uint32_t)x->count;
}

/* ---- what can happen next ---- */

static void propose(search *x, const state *s, uint32_t by) {
    uint8_t base = s->installed[by], k = s->count, candidates = 0, own = promised(x, s, by);
    for (uint8_t v = (uint8_t)(base + 1); v < k; v++) candidates |= (uint8_t)(1 << v);
    if (x->without == GW_FORKS_WITHOUT_PROMISES) candidates = 0;
    for (uint32_t members = 1; members < 1U << x->peers; members++) {
        if (!(members >> by & 1)) continue;
        for (uint8_t listed = candidates;; listed = (uint8_t)((listed - 1) & candidates)) {
            state t = *s;
            t.views[k] = (proposal){(uint8_t)members, (uint8_t)(1 << by), base, listed};
            t.count++;
            if ((own & ~listed) == 0 && quorum(x, &t, k)) found(x, &t);
            if (listed == 0) break;
        }
    }
}

static void vote(search *x, const state *s, uint8_t k, uint32_t by) {
    const proposal *v = &s->views[k];
    if (!(v->members >> by & 1) || (v->votes >> by & 1) || s->installed[by] >= k) return;
    if (!would_vote(x, s, k, by)) return;
    state t = *s;
    t.views[k].votes |= (uint8_t)(1 << by);
    found(x, &t);
}

static void install(search *x, const state *s, uint8_t k, uint32_t by) {
    const proposal *v = &s->views[k];
    if (v->votes != v->members || !(v->members >> by & 1) || s->installed[by] >= k) return;
    state t = *s;
    t.installed[by] = k;
    found(x, &t);
}

bool gw_forks_explore(uint32_t peers, uint32_t attempts, gw_forks_without without, uint64_t most,
                      gw_forks_result *result) {
    *result = (gw_forks_result){0};
    uint32_t base_bits = attempts <= 1 ? 1 : attempts <= 2 ? 1 : 2;
    if (peers < 1 || peers > PEERS || attempts < 1 || attempts > ATTEMPTS || most >= UINT32_MAX ||
        state_bits(peers, attempts, base_bits) > 64)
        return false;
    search x = {
        .peers = peers, .views = attempts + 1, .base_bits = base_bits, .without = without, .most = most};
    gw_ballot_open(&x.ballot, true);
    state first = {.count = 1, .committed = 1};
    first.views[0].members = first.views[0].votes = (uint8_t)((1 << peers) - 1);
    found(&x, &first);
    uint64_t layer_end = x.count;
    for (uint64_t at = 0; at < x.count && !x.fork && !x.full; at++) {
        if (at == layer_end) {
            layer_end = x.count;
            result->depth++;
        }
        state s = unpack(&x, x.states[at]);
        for (uint32_t i = 0; i < peers; i++) {
            if (s.count < x.views) propose(&x, &s, i);
            for (uint8_t k = 1; k < s.count; k++) {
                vote(&x, &s, k, i);
                install(&x, &s, k, i);
            }
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

/* ---- for people ---- */

const char *gw_forks_rule_name(gw_forks_without without) {
    static const char *const names[] = {
        [GW_FORKS_WITH_ALL] = "none",         [GW_FORKS_WITHOUT_PROMISES] = "promises",
        [GW_FORKS_WITHOUT_LISTED] = "listed", [GW_FORKS_WITHOUT_INSTALLED] = "installed",
        [GW_FORKS_WITHOUT_LOWEST] = "lowest",
    };
    return without < GW_FORKS_RULES ? names[without] : NULL;
}

bool gw_forks_print(uint32_t peers, uint32_t attempts, gw_forks_without without) {
    enum { MOST_STATES = 500000000 };
    gw_forks_result result;
    if (!gw_forks_explore(peers, attempts, without, MOST_STATES, &result)) {
        printf("godwit sim: %u peers with %u proposals are more than this search can hold\n", peers,
               attempts);
        return false;
    }
    printf("majority mode, %u peers, every order of up to %u proposals and their votes and installs", peers,
           attempts);
    if (without != GW_FORKS_WITH_ALL) printf(", without the rule '%s'", gw_forks_rule_name(without));
    printf(": %" PRIu64 " states, %" PRIu64 " steps deep: %s\n", result.states, result.depth,
           result.fork   ? "A FORK"
           : result.full ? "no fork so far, but there are more states than fit"
                         : "all visited, no fork");
    return !result.fork && !result.full;
}
