#include "core/gossip/gossip.h"

#include "core/base/assert.h"
#include "core/gossip/inside.h"

#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)

gw_gossip_timing gw_gossip_timing_default(void) {
    return (gw_gossip_timing){.period_ns = 200 * MS,
                              .period_log_ns = 50 * MS,
                              .ping_timeout_ns = 100 * MS,
                              .probe_timeout_ns = 300 * MS,
                              .suspicion_ns = 1000 * MS,
                              .suspicion_log_ns = 30 * MS,
                              .rumour_ns = 50 * MS,
                              .sync_ns = 2000 * MS,
                              .revive_ns = 200 * MS,
                              .seed_ns = 5000 * MS,
                              .meta_ns = 100 * MS,
                              .gap_ns = 400 * MS,
                              .meta_bytes_per_s = 32768,
                              .indirect = 3,
                              .fanout = 3,
                              .confirmations = 3};
}

static bool check_config(const gw_gossip_config *config, gw_err *err) {
    const gw_gossip_timing *t = &config->timing;
    if (gw_peer_id_is_none(&config->id)) return gw_fail(err, GW_E_INVALID, "gossip: no peer id");
    if (config->addr_count > GW_GOSSIP_ADDRS)
        return gw_fail(err, GW_E_LIMIT, "gossip: %u addresses, at most %d", config->addr_count,
                       GW_GOSSIP_ADDRS);
    if (config->name != NULL && strlen(config->name) > GW_GOSSIP_NAME_BYTES)
        return gw_fail(err, GW_E_LIMIT, "gossip: a name of %zu bytes, at most %d", strlen(config->name),
                       GW_GOSSIP_NAME_BYTES);
    if (config->seed_count > GW_GOSSIP_SEEDS)
        return gw_fail(err, GW_E_LIMIT, "gossip: %u seeds, at most %d", config->seed_count, GW_GOSSIP_SEEDS);
    if (t->period_ns == 0 || t->ping_timeout_ns == 0 || t->probe_timeout_ns <= t->ping_timeout_ns ||
        t->suspicion_ns == 0 || t->rumour_ns == 0 || t->sync_ns == 0 || t->revive_ns == 0 ||
        t->seed_ns < 10 || t->gap_ns == 0 || t->meta_bytes_per_s == 0 || t->fanout == 0)
        return gw_fail(err, GW_E_INVALID, "gossip: a time or rate of zero, or a probe shorter than its ping");
    if (t->confirmations >= GW_GOSSIP_CONFIRMERS)
        return gw_fail(err, GW_E_LIMIT, "gossip: %u confirmations, at most %d", t->confirmations,
                       GW_GOSSIP_CONFIRMERS - 1);
    return true;
}

bool gw_gossip_create(const gw_gossip_config *config, gw_gossip **gossip, gw_err *err) {
    if (!check_config(config, err)) return false;
    gw_gossip *g = calloc(1, sizeof *g);
    if (g == NULL) return gw_fail(err, GW_E_NOMEM, "gossip: out of memory");
    g->config = *config;
    for (uint32_t i = 0; i < config->seed_count; i++) g->seeds[i] = config->seeds[i];
    g->config.seeds = g->seeds;
    g->rng = gw_rng_seeded(config->rng_seed);
    g->seq = (uint32_t)gw_rng_next(&g->rng);
    g->joining = true;
    g->period_due = g->rumour_due = g->suspicion_due = g->probe_due = g->relay_due = g->sync_due =
        g->revive_due = g->seed_due = g->meta_due = UINT64_MAX;
    g->reads = config->before ? GW_GOSSIP_OLDEST : GW_GOSSIP_VERSION;
    const char *name = config->name != NULL ? config->name : "";
    gw_gossip_entry *self = g->self = gw_gossip_entry_add(g, &config->id, &config->incarnation);
    if (self == NULL || !gw_gossip_entry_set_name(self, name, (uint8_t)strlen(name))) {
        gw_gossip_destroy(g);
        return gw_fail(err, GW_E_NOMEM, "gossip: out of memory");
    }
    g->config.name = self->public.name;
    self->reads = g->reads;
    memcpy(self->public.addr, config->addr, sizeof self->public.addr);
    self->public.addr_count = (uint8_t)config->addr_count;
    *gossip = g;
    return true;
}

void gw_gossip_destroy(gw_gossip *g) {
    if (g == NULL) return;
    for (uint32_t i = 0; i < g->count; i++) gw_gossip_entry_free(g->entries[i]);
    gw_rumours_destroy(&g->rumours[GW_NEWS]);
    gw_rumours_destroy(&g->rumours[GW_METAS]);
    free(g->entries);
    gw_id_index_free(&g->index);
    free(g->order);
    free(g->heard_ns);
    free(g->suspicions);
    free(g);
}

void gw_gossip_start(gw_gossip *g, uint64_t now_ns) {
    GW_ASSERT(!g->started);
    const gw_gossip_timing *timing = &g->config.timing;
    g->started = true;
    g->meta_tokens_ns = now_ns;
    g->meta_tokens = timing->meta_bytes_per_s;
    g->period_due = now_ns + gw_rng_below(&g->rng, timing->period_ns);
    g->sync_due = now_ns + timing->sync_ns / 2 + gw_rng_below(&g->rng, timing->sync_ns);
    g->revive_due = now_ns + gw_rng_below(&g->rng, timing->revive_ns);
    g->seed_due = g->config.seed_count > 0 ? now_ns : UINT64_MAX;
    if (g->config.seed_count > 0) g->next_seed = (uint32_t)gw_rng_below(&g->rng, g->config.seed_count);
}

static bool is_seed(const gw_gossip *g, const gw_addr *addr) {
    for (uint32_t i = 0; i < g->config.seed_count; i++)
        if (gw_addr_equal(&g->seeds[i], addr)) return true;
    return false;
}

void gw_gossip_set_addresses(gw_gossip *g, const gw_addr *addrs, uint32_t count, uint64_t now_ns) {
    gw_gossip_member *self = &g->self->public;
    GW_ASSERT(count <= GW_GOSSIP_ADDRS);
    bool same = count == self->addr_count;
    for (uint32_t i = 0; i < count && same; i++) same = gw_addr_equal(&addrs[i], &self->addr[i]);
    if (same) return;
    for (uint32_t i = 0; i < count; i++) self->addr[i] = addrs[i];
    self->addr_count = (uint8_t)count;
    if (g->started && !g->leaving) gw_gossip_spread(g, g->self, GW_NEWS, now_ns);
}

void gw_gossip_seek(gw_gossip *g, const gw_addr *seeds, uint32_t count, uint64_t now_ns) {
    GW_ASSERT(count <= GW_GOSSIP_SEEDS);
    uint32_t first_new = 0;
    while (first_new < count && is_seed(g, &seeds[first_new])) first_new++;
    for (uint32_t i = 0; i < count; i++) g->seeds[i] = seeds[i];
    g->config.seed_count = count;
    if (first_new < count)
        g->next_seed = first_new;
    else if (g->next_seed >= count)
        g->next_seed = 0;
    if (!g->started || g->leaving) return;
    if (count == 0)
        g->seed_due = UINT64_MAX;
    else if (first_new < count)
        g->seed_due = now_ns;
}

uint64_t gw_gossip_next_deadline(const gw_gossip *g) {
    const uint64_t due[] = {g->period_due, g->rumour_due, g->suspicion_due, g->probe_due, g->relay_due,
                            g->sync_due,   g->revive_due, g->seed_due,      g->meta_due};
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < sizeof due / sizeof *due; i++)
        if (due[i] < first) first = due[i];
    return first;
}

/* The delay of a tick that happens now. */
static uint64_t late_by(const gw_gossip *g, uint64_t now_ns) {
    uint64_t deadline_ns = gw_gossip_next_deadline(g);
    return now_ns > deadline_ns ? now_ns - deadline_ns : 0;
}

bool gw_gossip_stood_still(const gw_gossip *g, uint64_t now_ns) {
    return g->started && late_by(g, now_ns) > g->config.timing.gap_ns;
}

/* Time in which this peer did not run does not count against others, whose answers may wait in its socket. */
static void forgive(gw_gossip *g, uint64_t now_ns) {
    if (!gw_gossip_stood_still(g, now_ns)) {
        uint64_t late_ns = late_by(g, now_ns);
        gw_gossip_probes_shift(g, late_ns);
        gw_gossip_suspicions_shift(g, late_ns);
        return;
    }
    g->stats.gaps++;
    gw_gossip_health(g, 2);
    gw_gossip_probes_restart(g, now_ns);
    gw_gossip_suspicions_restart(g, now_ns);
}

void gw_gossip_notice_gap(gw_gossip *g, uint64_t now_ns) {
    if (late_by(g, now_ns) > g->config.timing.ping_timeout_ns) g->late_ns = now_ns;
}

void gw_gossip_tick(gw_gossip *g, uint64_t now_ns) {
    if (!g->started) return;
    uint64_t deadline_ns = gw_gossip_next_deadline(g);
    if (now_ns < deadline_ns) return;
    gw_gossip_notice_gap(g, now_ns);
    if (now_ns > deadline_ns) forgive(g, now_ns);
    if (now_ns >= g->probe_due) gw_gossip_probes_run(g, now_ns);
    if (now_ns >= g->suspicion_due) gw_gossip_suspicions_run(g, now_ns);
    if (now_ns >= g->relay_due) gw_gossip_relays_run(g, now_ns);
    if (now_ns >= g->period_due) gw_gossip_period(g, now_ns);
    if (now_ns >= g->meta_due) gw_gossip_publish_meta(g, now_ns);
    if (now_ns >= g->rumour_due) gw_gossip_rumour_round(g, now_ns);
    if (now_ns >= g->sync_due) gw_gossip_sync(g, now_ns);
    if (now_ns >= g->revive_due) gw_gossip_revive(g, now_ns);
    if (now_ns >= g->seed_due) gw_gossip_try_seeds(g, now_ns);
}

void gw_gossip_suspect_hint(gw_gossip *g, const gw_peer_id *id, uint64_t now_ns) {
    const gw_gossip_entry *entry = gw_gossip_entry_find(g, id);
    if (entry == NULL || entry == g->self || !gw_gossip_is_live(entry)) return;
    gw_gossip_probe_start(g, entry, now_ns);
}

void gw_gossip_confirm_dead(gw_gossip *g, const gw_peer_id *id, const gw_incarnation *incarnation,
                            uint64_t now_ns) {
    const gw_gossip_entry *entry = gw_gossip_entry_find(g, id);
    if (entry == NULL || entry == g->self || !gw_gossip_is_live(entry) ||
        !gw_same_life(&entry->public.incarnation, incarnation))
        return;
    gw_gossip_record record = gw_gossip_record_of(g, entry, false);
    record.state = GW_GOSSIP_IS_DEAD;
    record.proven = true;
    gw_gossip_merge(g, &record, GW_FROM_PROOF, NULL, now_ns);
    gw_gossip_rumour_round(g, now_ns);
}

void gw_gossip_leave(gw_gossip *g, uint64_t now_ns) {
    if (g->leaving) return;
    g->leaving = true;
    gw_gossip_entry *self = g->self;
    gw_gossip_entry_set(g, self, GW_GOSSIP_IS_LEFT, now_ns);
    g->period_due = g->sync_due = g->revive_due = g->seed_due = UINT64_MAX;
    g->probe_count = 0;
    g->probe_due = UINT64_MAX;
    while (g->suspicion_count > 0) { /* a leaving peer declares nobody dead */
        gw_gossip_entry *suspect = gw_gossip_entry_at(g, g->suspicions[0].member);
        gw_gossip_entry_set(g, suspect, GW_GOSSIP_IS_ALIVE, now_ns);
    }
    g->suspicion_due = UINT64_MAX;
    if (g->meta_waits) gw_gossip_publish_meta(g, now_ns); /* the last metadata goes with the goodbye */
    gw_gossip_spread(g, self, GW_NEWS, now_ns);
    gw_gossip_rumour_round(g, now_ns);
}

void gw_gossip_set_meta(gw_gossip *g, const void *meta, size_t bytes, uint64_t now_ns) {
    GW_ASSERT(bytes <= GW_GOSSIP_META_BYTES);
    bool same = bytes == g->meta_bytes && (bytes == 0 || memcmp(meta, g->meta, bytes) == 0);
    if (same && g->self->public.meta_version + g->meta_waits > 0) return;
    if (bytes > 0) memcpy(g->meta, meta, bytes);
    g->meta_bytes = (uint8_t)bytes;
    g->meta_waits = true;
    if (g->meta_due == UINT64_MAX) gw_gossip_publish_meta(g, now_ns);
}

const gw_gossip_member *gw_gossip_self(const gw_gossip *g) {
    return &g->self->public;
}

const gw_gossip_member *gw_gossip_find(const gw_gossip *g, const gw_peer_id *id) {
    const gw_gossip_entry *entry = gw_gossip_entry_find(g, id);
    return entry == NULL ? NULL : &entry->public;
}

uint32_t gw_gossip_count(const gw_gossip *g) {
    return g->count;
}

const gw_gossip_member *gw_gossip_at(const gw_gossip *g, uint32_t number) {
    GW_ASSERT(number < g->count);
    return &g->entries[number]->public;
}

void gw_gossip_stats_read(const gw_gossip *g, gw_gossip_stats *stats) {
    *stats = g->stats;
}
