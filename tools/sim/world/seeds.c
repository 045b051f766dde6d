/* Seeds that are names. Each life looks them up (tools/godwit/node/seeds.h), gets their addresses after a
 * while, and may get outdated ones at first. */
#include "tools/sim/world/cluster.h"

static void told(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_addr seeds[SIM_SEEDS];
    bool stale = !c->calm && sim_chance(c, 0.3);
    for (uint32_t i = 0; i < SIM_SEEDS; i++)
        seeds[i] = gw_sim_addr(stale ? (uint32_t)sim_between(c, 0, c->count - 1) : c->seeds[i]);
    sim_trace(c, "peer %u is told where its seeds are%s", p->number, stale ? ", wrongly" : "");
    if (stale) {
        c->result->faults[GW_SIM_STALE_NAME]++;
        sim_later(c, sim_between(c, 100, 5000) * SIM_MS, op);
    }
    gw_event event = {.kind = GW_EV_SEEDS, .seeds.addrs = seeds, .seeds.count = SIM_SEEDS};
    sim_event(c, p, &event);
}

void sim_look_up(sim_cluster *c, const sim_peer *p, uint64_t most_ms) {
    sim_op op = sim_op_to(p, told);
    sim_later(c, sim_between(c, 1, most_ms) * SIM_MS, &op);
}
