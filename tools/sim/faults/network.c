/* Faults of the network: cuts in two that may flap, pairs of peers that cannot reach each other, clogged
 * ways, broken links, and lost data links and paths of sums. */
#include "tools/sim/faults/inside.h"

#include <inttypes.h>

static void heal(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    (void)event;
    sim_trace(c, "the network heals");
    sim_faults_of(c)->flap++;
    gw_sim_network_heal(&c->network);
}

static void break_if_cut(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    uint32_t a = (uint32_t)event->a, b = (uint32_t)event->b;
    if (!sim_reaches_both(c, a, b)) sim_break(c, a, b);
}

/* Plans the end of a link over which nothing passes: it breaks sooner or later, even if nothing is sent. */
static void break_if_cut_later(sim_cluster *c, uint32_t a, uint32_t b) {
    gw_sim_event event = {.run = break_if_cut, .context = c, .a = a, .b = b};
    gw_sim_schedule(c->engine, sim_now(c) + sim_between(c, 500, 4000) * SIM_MS, &event);
}

/* Removes the cut, or makes it again. */
static void flap(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    bool cut = event->b != 0, one_way = event->c != 0;
    if (c->calm || sim_faults_of(c)->flap != event->a) return;
    c->result->faults[GW_SIM_FLAP] += cut;
    sim_trace(c, "the network %s", cut ? "is cut again" : "heals for a moment");
    c->network.cut[0][1] = cut;
    c->network.cut[1][0] = cut && !one_way;
    gw_sim_event next = *event;
    next.b = !cut;
    gw_sim_schedule(c->engine, sim_now(c) + sim_between(c, 20, 800) * SIM_MS, &next);
}

void sim_partition(sim_cluster *c) {
    bool one_way = sim_chance(c, 0.4);
    gw_sim_network_heal(&c->network);
    sim_faults_of(c)->flap++;
    for (uint32_t i = 0; i < c->count; i++) c->network.group[i] = sim_chance(c, 0.5);
    c->network.cut[0][1] = true;
    c->network.cut[1][0] = !one_way;
    *(one_way ? &c->result->faults[GW_SIM_ONE_WAY] : &c->result->faults[GW_SIM_PARTITION]) += 1;
    sim_trace(c, "the network is cut%s", one_way ? " one way" : "");
    for (uint32_t i = 0; i < c->count; i++) sim_trace(c, "  peer %u on side %u", i, c->network.group[i]);
    for (uint32_t a = 0; a < c->count; a++)
        for (uint32_t b = a + 1; b < c->count; b++) break_if_cut_later(c, a, b);
    if (sim_chance(c, c->options->flap_permille / 1000.0)) {
        gw_sim_event event = {
            .run = flap, .context = c, .a = sim_faults_of(c)->flap, .b = false, .c = one_way};
        gw_sim_schedule(c->engine, sim_now(c) + sim_between(c, 20, 800) * SIM_MS, &event);
    }
    gw_sim_event event = {.run = heal, .context = c};
    gw_sim_schedule(c->engine, sim_now(c) + sim_lasting_ns(c, sim_between(c, 50, 8000)), &event);
}

void sim_break_link(sim_cluster *c) {
    uint32_t a = (uint32_t)sim_between(c, 0, c->count - 1), b = (uint32_t)sim_between(c, 0, c->count - 1);
    if (a == b || !sim_link_of(c, a, b)->up) return;
    c->result->faults[GW_SIM_BREAK]++;
    sim_trace(c, "the link of %u and %u breaks", a, b);
    sim_break(c, a, b);
}

/* Single ways and data links. */

/* Draws two peers; returns false if they are the same. */
static bool any_two(sim_cluster *c, uint32_t *a, uint32_t *b) {
    *a = (uint32_t)sim_between(c, 0, c->count - 1);
    *b = (uint32_t)sim_between(c, 0, c->count - 1);
    return *a != *b;
}

static void see_again(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    uint32_t a = (uint32_t)event->a, b = (uint32_t)event->b;
    if (c->calm) return; /* all ways are open */
    sim_trace(c, "peers %u and %u reach each other again", a, b);
    gw_sim_network_cut_way(&c->network, a, b, false);
    gw_sim_network_cut_way(&c->network, b, a, false);
}

/* Makes peers disagree about who is reachable: pairs are cut, in one direction or both, while the other
 * peers reach both of them. */
void sim_blind(sim_cluster *c) {
    uint64_t pairs = sim_between(c, 1, c->count), for_ns = sim_lasting_ns(c, sim_between(c, 100, 10000));
    uint32_t a, b;
    for (uint64_t i = 0; i < pairs; i++) {
        if (!any_two(c, &a, &b)) continue;
        bool both = sim_chance(c, 0.6);
        c->result->faults[GW_SIM_BLIND]++;
        sim_trace(c, "peer %u no longer reaches %u%s", a, b, both ? ", nor the other way round" : "");
        gw_sim_network_cut_way(&c->network, a, b, true);
        gw_sim_network_cut_way(&c->network, b, a, both);
        break_if_cut_later(c, a, b);
        gw_sim_event event = {.run = see_again, .context = c, .a = a, .b = b};
        gw_sim_schedule(c->engine, sim_now(c) + for_ns, &event);
    }
}

void sim_clog(sim_cluster *c) {
    uint32_t a, b;
    if (!any_two(c, &a, &b)) return;
    uint64_t for_ms = sim_chance(c, 0.7) ? sim_between(c, 20, 1000) : sim_between(c, 1000, 3000);
    uint64_t for_ns = sim_lasting_ns(c, for_ms);
    c->result->faults[GW_SIM_CLOG]++;
    sim_trace(c, "nothing moves from peer %u to %u for %" PRIu64 " ms", a, b, for_ns / SIM_MS);
    gw_sim_network_clog_way(&c->network, a, b, sim_now(c) + for_ns);
}

/* Loses data links of a peer: one of them, or all, as if it had no descriptors left. */
void sim_lose_data(sim_cluster *c) {
    uint32_t a = (uint32_t)sim_between(c, 0, c->count - 1), b = (uint32_t)sim_between(c, 0, c->count - 1);
    bool all = sim_chance(c, 0.5), fault = sim_chance(c, 0.5);
    uint64_t most_ms = sim_chance(c, 0.3) ? 30000 : 3000,
             for_ns = sim_lasting_ns(c, sim_between(c, 100, most_ms));
    for (uint32_t other = 0; other < c->count; other++) {
        if (other == a || (!all && other != b)) continue;
        c->result->faults[GW_SIM_LOST_DATA]++;
        sim_data_lose(c, a, other, for_ns, fault);
    }
}

void sim_lose_path(sim_cluster *c) {
    uint32_t a = (uint32_t)sim_between(c, 0, c->count - 1), b = (uint32_t)sim_between(c, 0, c->count - 1);
    uint64_t most_ms = sim_chance(c, 0.5) ? 90000 : 3000,
             for_ns = sim_lasting_ns(c, sim_between(c, 100, most_ms));
    if (a == b || sim_path_lost(c, a, b)) return;
    c->result->faults[GW_SIM_LOST_PATH]++;
    sim_path_lose(c, a, b, for_ns);
}
