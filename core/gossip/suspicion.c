#include "core/gossip/inside.h"

#include "core/base/assert.h"

#include <stdlib.h>

/* Lifeguard's timeout falls from the longest to the shortest with the logarithm of the number of independent
 * confirmations. In a flock of two no third peer can confirm, and the timeout is in the middle. */
static uint64_t timeout_of(const gw_gossip *g, uint32_t confirmers) {
    static const double ln[GW_GOSSIP_CONFIRMERS + 1] = {0,      0,      0.6931, 1.0986, 1.3863,
                                                        1.6094, 1.7918, 1.9459, 2.0794};
    const gw_gossip_timing *timing = &g->config.timing;
    uint64_t least = timing->suspicion_ns + timing->suspicion_log_ns * gw_gossip_log2(g->live);
    uint32_t expected = g->live > 2 ? g->live - 2 : 0;
    if (expected > timing->confirmations) expected = timing->confirmations;
    if (expected == 0) return least + least / 2;
    uint32_t confirmations = confirmers - 1 < expected ? confirmers - 1 : expected;
    double fraction = ln[confirmations + 1] / ln[expected + 1];
    return least + (uint64_t)((1.0 - fraction) * (double)least);
}

static void plan(gw_gossip *g, const gw_suspicion *suspicion) {
    uint64_t due = suspicion->deadline_ns;
    if (suspicion->nag_ns < due) due = suspicion->nag_ns;
    if (due < g->suspicion_due) g->suspicion_due = due;
}

static gw_suspicion *begin(gw_gossip *g, gw_gossip_entry *entry, uint64_t now_ns) {
    if (g->suspicion_count == g->suspicion_capacity) {
        uint32_t capacity = g->suspicion_capacity == 0 ? 4 : 2 * g->suspicion_capacity;
        gw_suspicion *grown = realloc(g->suspicions, capacity * sizeof *grown);
        if (grown == NULL) return NULL;
        g->suspicions = grown;
        g->suspicion_capacity = capacity;
    }
    gw_suspicion *suspicion = &g->suspicions[g->suspicion_count++];
    *suspicion = (gw_suspicion){.member = entry->number, .started_ns = now_ns, .nag_ns = UINT64_MAX};
    entry->suspicion = g->suspicion_count;
    return suspicion;
}

void gw_gossip_suspicion_end(gw_gossip *g, gw_gossip_entry *entry) {
    if (entry->suspicion == 0) return;
    uint32_t place = entry->suspicion - 1;
    GW_ASSERT(place < g->suspicion_count);
    g->suspicions[place] = g->suspicions[--g->suspicion_count];
    if (place < g->suspicion_count) gw_gossip_entry_at(g, g->suspicions[place].member)->suspicion = place + 1;
    entry->suspicion = 0;
}

static void add_confirmer(gw_gossip *g, gw_suspicion *suspicion, const gw_peer_id *accuser, uint64_t now_ns) {
    suspicion->confirmer[suspicion->count++] = *accuser;
    suspicion->deadline_ns = suspicion->started_ns + timeout_of(g, suspicion->count);
    if (suspicion->deadline_ns < now_ns) suspicion->deadline_ns = now_ns;
    if (gw_peer_id_equal(accuser, &g->self->public.id)) {
        suspicion->mine = true;
        suspicion->nag_ns = now_ns; /* the buddy system: the suspect hears of it at once, and again */
    } else if (!suspicion->mine && gw_rng_below(&g->rng, g->live) < GW_GOSSIP_LAST_ASKERS) {
        /* This peer alone may have missed a refutation: it pings the suspect before the suspicion ends. */
        uint64_t asks_ns = suspicion->deadline_ns - g->config.timing.probe_timeout_ns;
        suspicion->nag_ns = asks_ns > now_ns ? asks_ns : now_ns;
    }
    plan(g, suspicion);
}

/* Whether this peer probes the suspect to confirm a suspicion. Confirmations must be independent, and at
 * 10,000 peers few have the suspect next in their round; therefore about as many peers as are needed
 * volunteer. */
static void perhaps_volunteer(gw_gossip *g, gw_gossip_entry *entry, uint64_t now_ns) {
    if (gw_rng_below(&g->rng, g->live) < g->config.timing.confirmations + 1)
        gw_gossip_probe_start(g, entry, now_ns);
}

void gw_gossip_suspect(gw_gossip *g, gw_gossip_entry *entry, const gw_peer_id *accuser, uint64_t now_ns) {
    GW_ASSERT(gw_gossip_is_live(entry));
    if (entry->suspicion == 0) {
        gw_suspicion *suspicion = begin(g, entry, now_ns);
        if (suspicion == NULL) return;
        g->stats.suspicions++;
        entry->refuted = (uint8_t)gw_gossip_patience(g, entry, now_ns);
        gw_gossip_entry_set(g, entry, GW_GOSSIP_IS_SUSPECT, now_ns);
        add_confirmer(g, suspicion, accuser, now_ns);
        gw_gossip_spread(g, entry, GW_NEWS, now_ns);
        gw_gossip_tell(g, GW_GOSSIP_SUSPECT, entry, &entry->public.incarnation);
        if (!gw_peer_id_equal(accuser, &g->self->public.id)) perhaps_volunteer(g, entry, now_ns);
        return;
    }
    gw_suspicion *suspicion = &g->suspicions[entry->suspicion - 1];
    if (suspicion->count > g->config.timing.confirmations) return;
    for (uint32_t i = 0; i < suspicion->count; i++)
        if (gw_peer_id_equal(&suspicion->confirmer[i], accuser)) return;
    add_confirmer(g, suspicion, accuser, now_ns);
    gw_gossip_spread(g, entry, GW_NEWS, now_ns);
}

uint32_t gw_gossip_patience(const gw_gossip *g, const gw_gossip_entry *entry, uint64_t now_ns) {
    uint64_t steady_ns = (uint64_t)g->live * GW_GOSSIP_STEADY_MEMBER_NS;
    bool steady = entry->public.state == GW_GOSSIP_IS_ALIVE && now_ns - entry->since_ns > steady_ns;
    return steady ? 0 : entry->refuted;
}

void gw_gossip_refuted(const gw_gossip *g, gw_gossip_entry *entry, uint32_t by, uint64_t now_ns) {
    uint32_t before = gw_gossip_patience(g, entry, now_ns);
    entry->refuted = (uint8_t)(by < GW_GOSSIP_PATIENCE - before ? before + by : GW_GOSSIP_PATIENCE);
    entry->since_ns = now_ns;
}

static void nag(gw_gossip *g, gw_suspicion *suspicion, uint64_t now_ns) {
    const gw_gossip_entry *entry = g->entries[suspicion->member];
    suspicion->nag_ns = suspicion->mine ? now_ns + g->config.timing.probe_timeout_ns : UINT64_MAX;
    const gw_addr *addr = gw_gossip_addr_of(entry);
    if (addr != NULL) gw_gossip_ping(g, addr, entry, 0);
}

static void bury(gw_gossip *g, gw_gossip_entry *entry, uint64_t now_ns) {
    const gw_incarnation life = entry->public.incarnation;
    entry->proven = false;
    gw_gossip_entry_set(g, entry, GW_GOSSIP_IS_DEAD, now_ns);
    gw_gossip_spread(g, entry, GW_NEWS, now_ns);
    gw_gossip_tell(g, GW_GOSSIP_DEAD, entry, &life);
}

void gw_gossip_suspicions_run(gw_gossip *g, uint64_t now_ns) {
    g->suspicion_due = UINT64_MAX;
    for (uint32_t i = 0; i < g->suspicion_count;) {
        gw_suspicion *suspicion = &g->suspicions[i];
        if (now_ns >= suspicion->deadline_ns) {
            /* Burying removes the suspicion, and the last one moves to place i. */
            bury(g, gw_gossip_entry_at(g, suspicion->member), now_ns);
            continue;
        }
        if (now_ns >= suspicion->nag_ns) nag(g, suspicion, now_ns);
        plan(g, suspicion);
        i++;
    }
}

void gw_gossip_suspicions_restart(gw_gossip *g, uint64_t now_ns) {
    g->suspicion_due = UINT64_MAX;
    for (uint32_t i = 0; i < g->suspicion_count; i++) {
        gw_suspicion *suspicion = &g->suspicions[i];
        suspicion->started_ns = now_ns;
        suspicion->count = 1;
        suspicion->deadline_ns = now_ns + timeout_of(g, 1);
        plan(g, suspicion);
        gw_gossip_probe_start(g, g->entries[suspicion->member], now_ns);
    }
}

void gw_gossip_suspicions_shift(gw_gossip *g, uint64_t by_ns) {
    g->suspicion_due = UINT64_MAX;
    for (uint32_t i = 0; i < g->suspicion_count; i++) {
        g->suspicions[i].started_ns += by_ns;
        g->suspicions[i].deadline_ns += by_ns;
        plan(g, &g->suspicions[i]);
    }
}
