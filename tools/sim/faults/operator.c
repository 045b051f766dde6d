/* The operator. If more peers are gone for good than a majority can do without, a person who knows that
 * they are gone forces a view (godwit force-view). The operator looks now and then, and acts only while
 * there is no progress: the peers that are left do what they can by themselves. */
#include "tools/sim/faults/inside.h"

/* Returns the time between two looks of the operator, which is longer than a single peer needs for a step. */
static uint64_t look_every_ns(const gw_sim_options *o) {
    return 20000 * SIM_MS + (uint64_t)(o->shards + 2) * o->shard_us * 1000;
}

static bool has_progressed(sim_cluster *c) {
    uint64_t before = sim_faults_of(c)->steps_seen;
    sim_faults_of(c)->steps_seen = c->result->steps_applied;
    return sim_faults_of(c)->steps_seen != before || c->result->done_ns != 0;
}

/* Ranks peers for the operator: a peer in a view comes before one that was in a view, and that before any
 * other. */
static uint32_t rank_of(const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    return status.view != NULL ? 3 : sim_record_has_view(&p->disk.record) ? 2 : 1;
}

static sim_peer *choose(sim_cluster *c) {
    sim_peer *best = NULL;
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        if (!sim_runs(p) || p->paused_until_ns > sim_now(c)) continue;
        if (best == NULL || rank_of(p) > rank_of(best)) best = p;
    }
    return best;
}

static void look(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    gw_sim_schedule(c->engine, sim_now(c) + look_every_ns(c->options), event);
    if (has_progressed(c)) return;
    sim_peer *p = choose(c);
    if (p == NULL) return;
    c->result->forced++;
    SIM_NOTIFY(c, view_forced, p);
    sim_trace(c, "a view is forced at peer %u", p->number);
    gw_event force = {.kind = GW_EV_FORCE_VIEW};
    sim_event(c, p, &force);
}

void sim_force_later(sim_cluster *c) {
    gw_sim_event event = {.run = look, .context = c};
    gw_sim_schedule(c->engine, sim_now(c) + look_every_ns(c->options), &event);
}
