#include "core/gossip/inside.h"

#include "core/base/assert.h"

enum {
    PACE_LEAST = 64,
    PACE_MOST = 1024, /* flock size beyond which the period grows no longer */
    LATELY_DEAD = 8,  /* the last members to die, which get every other ping to the dead */
    DEAD_TRIES = 32,  /* most dead members examined in search of one to ping */
};

/* Lifeguard's local health multiplier: a peer that misses answers may be slow itself, and waits longer. */
static uint64_t stretched(const gw_gossip *g, uint64_t ns) {
    return ns * (g->stats.health + 1);
}

/* The time until which a member may answer. A slow member refutes each suspicion, and each suspicion and
 * refutation spreads to all members; to wait longer for it costs the flock a tenth of that. */
static uint64_t verdict_at(const gw_gossip *g, const gw_gossip_entry *entry, uint64_t now_ns) {
    uint64_t timeout_ns = g->config.timing.probe_timeout_ns;
    return now_ns + stretched(g, timeout_ns) + gw_gossip_patience(g, entry, now_ns) * timeout_ns;
}

static void plan_probe(gw_gossip *g, const gw_probe *probe) {
    uint64_t due = probe->indirect ? probe->verdict_ns : probe->indirect_ns;
    if (due < g->probe_due) g->probe_due = due;
}

void gw_gossip_ping(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *entry, uint32_t seq) {
    gw_gossip_packet packet = gw_gossip_packet_of(g, GW_GOSSIP_PING);
    packet.seq = seq;
    packet.target = entry->public.id;
    /* A peer that has not heard the target's name asks for its metadata, with which the name comes. */
    bool nameless = entry->public.name == NULL && entry->public.meta_version > 0 &&
                    gw_gossip_version_for(g, entry) == GW_GOSSIP_VERSION;
    packet.known_meta = nameless ? 0 : entry->public.meta_version;
    gw_gossip_send(g, addr, entry, &packet, NULL);
}

static uint32_t next_seq(gw_gossip *g) {
    if (++g->seq == 0) g->seq = 1; /* 0 means that no answer is awaited */
    return g->seq;
}

void gw_gossip_probe_start(gw_gossip *g, const gw_gossip_entry *entry, uint64_t now_ns) {
    const gw_addr *addr = gw_gossip_addr_of(entry);
    if (addr == NULL || g->leaving || g->probe_count == GW_GOSSIP_PROBES) return;
    for (uint32_t i = 0; i < g->probe_count; i++)
        if (gw_peer_id_equal(&g->probes[i].target, &entry->public.id)) return;
    gw_probe *probe = &g->probes[g->probe_count++];
    *probe = (gw_probe){.target = entry->public.id,
                        .boot = entry->public.incarnation.boot,
                        .seq = next_seq(g),
                        .indirect_ns = now_ns + stretched(g, g->config.timing.ping_timeout_ns),
                        .verdict_ns = verdict_at(g, entry, now_ns)};
    plan_probe(g, probe);
    g->stats.probes++;
    gw_gossip_ping(g, addr, entry, probe->seq);
}

static void ask_others(gw_gossip *g, gw_probe *probe, const gw_gossip_entry *target) {
    uint32_t numbers[16];
    uint32_t most = g->config.timing.indirect < 16 ? g->config.timing.indirect : 16;
    uint32_t count = gw_gossip_choose(g, &probe->target, numbers, most);
    gw_gossip_packet packet = gw_gossip_packet_of(g, GW_GOSSIP_PING_REQ);
    packet.seq = probe->seq;
    packet.target = probe->target;
    packet.addr = *gw_gossip_addr_of(target);
    for (uint32_t i = 0; i < count; i++) {
        const gw_gossip_entry *via = g->entries[numbers[i]];
        gw_gossip_send(g, gw_gossip_addr_of(via), via, &packet, NULL);
    }
    probe->nacks_expected = count;
    probe->indirect = true;
    if (target->public.addr_count > 1) gw_gossip_ping(g, &target->public.addr[1], target, probe->seq);
}

/* The target of a probe; NULL if that life has ended. The address of a later life may be unknown yet. */
static const gw_gossip_entry *target_of(const gw_gossip *g, const gw_probe *probe) {
    const gw_gossip_entry *entry = gw_gossip_entry_find(g, &probe->target);
    bool lives = entry != NULL && gw_gossip_is_live(entry) && entry->public.incarnation.boot == probe->boot;
    return lives ? entry : NULL;
}

static void probe_failed(gw_gossip *g, const gw_probe *probe, const gw_gossip_entry *entry, uint64_t now_ns) {
    g->stats.probes_failed++;
    /* Some peers that were asked to ping sent no NACK either: this peer may be the slow one. */
    gw_gossip_health(g, probe->nacks_expected == 0 ? 1 : (int)(probe->nacks_expected - probe->nacks));
    gw_gossip_entry *suspect = gw_gossip_entry_own(g, entry);
    if (suspect != NULL) gw_gossip_suspect(g, suspect, &g->self->public.id, now_ns);
}

void gw_gossip_probes_run(gw_gossip *g, uint64_t now_ns) {
    g->probe_due = UINT64_MAX;
    for (uint32_t i = 0; i < g->probe_count;) {
        gw_probe *probe = &g->probes[i];
        const gw_gossip_entry *target = target_of(g, probe);
        if (target == NULL || now_ns >= probe->verdict_ns) {
            gw_probe ended = *probe;
            *probe = g->probes[--g->probe_count];
            if (target != NULL) probe_failed(g, &ended, target, now_ns);
            continue;
        }
        if (!probe->indirect && now_ns >= probe->indirect_ns) ask_others(g, probe, target);
        plan_probe(g, probe);
        i++;
    }
}

void gw_gossip_probes_restart(gw_gossip *g, uint64_t now_ns) {
    g->probe_due = UINT64_MAX;
    for (uint32_t i = 0; i < g->probe_count; i++) {
        gw_probe *probe = &g->probes[i];
        const gw_gossip_entry *target = target_of(g, probe);
        probe->indirect = false;
        probe->nacks = 0;
        probe->indirect_ns = now_ns + stretched(g, g->config.timing.ping_timeout_ns);
        probe->verdict_ns = target != NULL ? verdict_at(g, target, now_ns) : now_ns;
        if (target != NULL) gw_gossip_ping(g, gw_gossip_addr_of(target), target, probe->seq);
        plan_probe(g, probe);
    }
}

void gw_gossip_probes_shift(gw_gossip *g, uint64_t by_ns) {
    g->probe_due = UINT64_MAX;
    for (uint32_t i = 0; i < g->probe_count; i++) {
        g->probes[i].indirect_ns += by_ns;
        g->probes[i].verdict_ns += by_ns;
        plan_probe(g, &g->probes[i]);
    }
}

void gw_gossip_on_ping_req(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from,
                           uint64_t now_ns) {
    if (g->relay_count == GW_GOSSIP_RELAYS || packet->addr.family == 0 || packet->addr.port == 0) return;
    gw_relay *relay = &g->relays[g->relay_count++];
    *relay = (gw_relay){.seq = next_seq(g),
                        .origin_seq = packet->seq,
                        .origin = *from,
                        .nack_ns = now_ns + g->config.timing.ping_timeout_ns,
                        .end_ns = now_ns + 2 * g->config.timing.probe_timeout_ns};
    if (relay->nack_ns < g->relay_due) g->relay_due = relay->nack_ns;
    const gw_gossip_entry *entry = gw_gossip_entry_find(g, &packet->target);
    if (entry != NULL) {
        gw_gossip_ping(g, &packet->addr, entry, relay->seq);
        return;
    }
    gw_gossip_packet ping = gw_gossip_packet_of(g, GW_GOSSIP_PING);
    ping.seq = relay->seq;
    ping.target = packet->target;
    gw_gossip_send(g, &packet->addr, NULL, &ping, NULL);
}

void gw_gossip_relays_run(gw_gossip *g, uint64_t now_ns) {
    g->relay_due = UINT64_MAX;
    for (uint32_t i = 0; i < g->relay_count;) {
        gw_relay *relay = &g->relays[i];
        if (now_ns >= relay->end_ns) {
            *relay = g->relays[--g->relay_count];
            continue;
        }
        if (!relay->nacked && now_ns >= relay->nack_ns) {
            relay->nacked = true;
            gw_gossip_packet nack = gw_gossip_packet_of(g, GW_GOSSIP_NACK);
            nack.seq = relay->origin_seq;
            gw_gossip_send(g, &relay->origin, NULL, &nack, NULL);
        }
        uint64_t due = relay->nacked ? relay->end_ns : relay->nack_ns;
        if (due < g->relay_due) g->relay_due = due;
        i++;
    }
}

void gw_gossip_on_ack(gw_gossip *g, uint32_t seq) {
    for (uint32_t i = 0; i < g->probe_count; i++) {
        if (g->probes[i].seq != seq) continue;
        g->probes[i] = g->probes[--g->probe_count];
        gw_gossip_health(g, -1);
        return;
    }
    for (uint32_t i = 0; i < g->relay_count; i++) {
        if (g->relays[i].seq != seq) continue;
        gw_gossip_packet ack = gw_gossip_packet_of(g, GW_GOSSIP_ACK);
        ack.seq = g->relays[i].origin_seq;
        gw_gossip_send(g, &g->relays[i].origin, NULL, &ack, NULL);
        g->relays[i] = g->relays[--g->relay_count];
        return;
    }
}

void gw_gossip_on_nack(gw_gossip *g, uint32_t seq) {
    for (uint32_t i = 0; i < g->probe_count; i++)
        if (g->probes[i].seq == seq && g->probes[i].nacks < g->probes[i].nacks_expected) g->probes[i].nacks++;
}

/* The period grows with the flock, so that a peer of a large flock, which has more rumours to pass on,
 * sends less than a kilobyte a second. */
static uint64_t period_of(const gw_gossip *g) {
    const gw_gossip_timing *timing = &g->config.timing;
    uint32_t live = g->live < PACE_MOST ? g->live : PACE_MOST;
    return timing->period_ns +
           (live > PACE_LEAST ? gw_gossip_log2(live / PACE_LEAST) : 0) * timing->period_log_ns;
}

void gw_gossip_period(gw_gossip *g, uint64_t now_ns) {
    g->period_due = now_ns + stretched(g, period_of(g));
    uint32_t period = g->periods++;
    const gw_gossip_entry *entry = period % 2 == 0 ? gw_gossip_watched(g, period / 2) : NULL;
    if (entry == NULL) entry = gw_gossip_next_in_round(g);
    if (entry != NULL) gw_gossip_probe_start(g, entry, now_ns);
}

/* Whether a dead member may be found at its address. If a living member has that address now, it is not, and
 * the living one need not receive pings that are meant for a dead one. */
static bool may_be_there(const gw_gossip *g, const gw_gossip_entry *entry) {
    return gw_gossip_entry_at_addr(g, gw_gossip_addr_of(entry)) == NULL;
}

static bool is_pinged(const gw_gossip_entry *entry) {
    return entry->public.state == GW_GOSSIP_IS_DEAD && entry->public.addr_count > 0;
}

/* Chooses one of the members that died last, at random. Most of the dead may have ended for good long ago,
 * for instance where each start has a new identity; a member that was only cut off is nevertheless pinged
 * again soon. NULL: there is none, or it cannot be at its address. */
static const gw_gossip_entry *lately_dead(gw_gossip *g) {
    const gw_gossip_entry *last[LATELY_DEAD];
    uint32_t count = 0;
    for (uint32_t i = 1; i < g->count; i++) {
        const gw_gossip_entry *entry = g->entries[i];
        if (!is_pinged(entry)) continue;
        if (count == LATELY_DEAD && entry->since_ns <= last[count - 1]->since_ns) continue;
        uint32_t place = count < LATELY_DEAD ? count++ : count - 1;
        for (; place > 0 && entry->since_ns > last[place - 1]->since_ns; place--)
            last[place] = last[place - 1];
        last[place] = entry;
    }
    if (count == 0) return NULL;
    const gw_gossip_entry *chosen = last[gw_rng_below(&g->rng, count)];
    return may_be_there(g, chosen) ? chosen : NULL;
}

/* The next dead member in turn. NULL: there is none, or none of the DEAD_TRIES examined can be at its
 * address. */
static const gw_gossip_entry *next_dead(gw_gossip *g) {
    uint32_t tries = 0;
    for (uint32_t i = 0; i < g->count && tries < DEAD_TRIES; i++) {
        g->next_dead = (g->next_dead + 1) % g->count;
        const gw_gossip_entry *entry = g->entries[g->next_dead];
        if (!is_pinged(entry)) continue;
        if (may_be_there(g, entry)) return entry;
        tries++;
    }
    return NULL;
}

void gw_gossip_revive(gw_gossip *g, uint64_t now_ns) {
    /* The living members share the probing of the dead: about two probes a pause reach each dead member. */
    uint64_t pause_ns = g->config.timing.revive_ns;
    if (g->dead > 0 && g->live > 2 * g->dead) pause_ns = pause_ns * g->live / (2 * g->dead);
    g->revive_due = now_ns + pause_ns - pause_ns / 8 + gw_rng_below(&g->rng, pause_ns / 4 + 1);
    if (g->dead == 0) return;
    const gw_gossip_entry *entry = g->revivals++ % 2 == 0 ? lately_dead(g) : NULL;
    if (entry == NULL) entry = next_dead(g);
    if (entry != NULL) gw_gossip_ping(g, gw_gossip_addr_of(entry), entry, 0);
}

void gw_gossip_try_seeds(gw_gossip *g, uint64_t now_ns) {
    /* A peer that is alone asks all seeds, and often. A peer in a flock asks one after the other, so that
     * none is left out for long, and the more rarely the larger the flock is. */
    bool alone = g->live == 1;
    uint64_t pause_ns = g->config.timing.seed_ns;
    if (alone)
        pause_ns /= 10;
    else if (g->live > 32)
        pause_ns = pause_ns * g->live / 32;
    g->seed_due = now_ns + pause_ns - pause_ns / 8 + gw_rng_below(&g->rng, pause_ns / 4 + 1);
    for (uint32_t i = 0; i < g->config.seed_count; i++) {
        const gw_addr *seed = &g->seeds[g->next_seed];
        g->next_seed = (g->next_seed + 1) % g->config.seed_count;
        if (gw_gossip_entry_at_addr(g, seed) != NULL) continue;
        gw_gossip_send_digest(g, seed, NULL, false);
        if (!alone) return;
    }
}
