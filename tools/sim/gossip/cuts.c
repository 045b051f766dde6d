#include "tools/sim/gossip/cuts.h"

#include <stddef.h>
#include <string.h>

#define MS UINT64_C(1000000)

static uint64_t between(gw_flock_cuts *cuts, uint64_t least, uint64_t most) {
    return least + gw_rng_below(&cuts->rng, most - least + 1);
}

static bool chance(gw_flock_cuts *cuts, double probability) {
    return gw_rng_unit(&cuts->rng) < probability;
}

static void later(gw_flock_cuts *cuts, uint64_t delay_ns, const gw_sim_event *event) {
    gw_sim_schedule(cuts->flock->engine, gw_sim_now(cuts->flock->engine) + delay_ns, event);
}

/* Partitions. */

static void heal(void *context, const gw_sim_event *event) {
    gw_flock_cuts *cuts = context;
    if (cuts->over || cuts->cut != event->a) return;
    cuts->cut++;
    gw_sim_network_heal(&cuts->flock->network);
}

/* Removes the cut, or puts it back. */
static void flap(void *context, const gw_sim_event *event) {
    gw_flock_cuts *cuts = context;
    bool cut = event->b != 0, one_way = event->c != 0;
    if (cuts->over || cuts->cut != event->a) return;
    cuts->flaps += cut;
    cuts->flock->network.cut[0][1] = cut;
    cuts->flock->network.cut[1][0] = cut && !one_way;
    gw_sim_event next = *event;
    next.b = !cut;
    later(cuts, between(cuts, 20, 800) * MS, &next);
}

static void partition(gw_flock_cuts *cuts) {
    gw_sim_network *network = &cuts->flock->network;
    bool one_way = chance(cuts, 0.4), flaps = chance(cuts, cuts->flap_permille / 1000.0);
    double share = 0.5 * gw_rng_unit(&cuts->rng);
    gw_sim_network_heal(network);
    cuts->cut++;
    for (uint32_t i = 0; i < network->endpoints; i++) network->group[i] = chance(cuts, share);
    if (chance(cuts, 0.5)) { /* the larger part is the one that is not heard, with even odds */
        for (uint32_t i = 0; i < network->endpoints; i++) network->group[i] = !network->group[i];
    }
    network->cut[0][1] = true;
    network->cut[1][0] = !one_way;
    *(one_way ? &cuts->one_way : &cuts->partitions) += 1;
    gw_sim_event event = {.run = flap, .context = cuts, .a = cuts->cut, .c = one_way};
    if (flaps) later(cuts, between(cuts, 20, 800) * MS, &event);
    event.run = heal;
    later(cuts, between(cuts, 50, 8000) * MS, &event);
}

/* Single ways between two peers. */

static void see_again(void *context, const gw_sim_event *event) {
    gw_flock_cuts *cuts = context;
    if (cuts->over) return; /* all ways are open already */
    gw_sim_network_cut_way(&cuts->flock->network, (uint32_t)event->a, (uint32_t)event->b, false);
    gw_sim_network_cut_way(&cuts->flock->network, (uint32_t)event->b, (uint32_t)event->a, false);
}

static uint32_t any_but(gw_flock_cuts *cuts, uint32_t but) {
    uint32_t other = (uint32_t)between(cuts, 0, cuts->flock->count - 2);
    return other < but ? other : other + 1;
}

static void blind(gw_flock_cuts *cuts) {
    uint64_t pairs = between(cuts, 1, cuts->flock->count), for_ns = between(cuts, 100, 10000) * MS;
    for (uint64_t i = 0; i < pairs; i++) {
        uint32_t a = (uint32_t)between(cuts, 0, cuts->flock->count - 1), b = any_but(cuts, a);
        gw_sim_network_cut_way(&cuts->flock->network, a, b, true);
        gw_sim_network_cut_way(&cuts->flock->network, b, a, chance(cuts, 0.6));
        gw_sim_event event = {.run = see_again, .context = cuts, .a = a, .b = b};
        later(cuts, for_ns, &event);
    }
    cuts->parted += pairs;
}

static void clog_way(gw_flock_cuts *cuts) {
    uint32_t a = (uint32_t)between(cuts, 0, cuts->flock->count - 1), b = any_but(cuts, a);
    uint64_t for_ns = between(cuts, 20, 3000) * MS;
    gw_sim_network_clog_way(&cuts->flock->network, a, b, gw_sim_now(cuts->flock->engine) + for_ns);
    cuts->clogged++;
}

/* The times of the faults. */

typedef struct kind {
    void (*inject)(gw_flock_cuts *cuts);
    size_t mean_at; /* offset of its mean interval in gw_flock_cuts */
} kind;

static const kind kinds[] = {{partition, offsetof(gw_flock_cuts, partition_ms)},
                             {blind, offsetof(gw_flock_cuts, blind_ms)},
                             {clog_way, offsetof(gw_flock_cuts, clog_ms)}};

static uint32_t mean_of(const gw_flock_cuts *cuts, const kind *one) {
    uint32_t mean_ms;
    memcpy(&mean_ms, (const char *)cuts + one->mean_at, sizeof mean_ms);
    return mean_ms;
}

static void plan(gw_flock_cuts *cuts, const gw_sim_event *event) {
    uint64_t mean_ms = mean_of(cuts, &kinds[event->a]);
    if (mean_ms != 0) later(cuts, between(cuts, 1, 2 * mean_ms) * MS, event);
}

static void strike(void *context, const gw_sim_event *event) {
    gw_flock_cuts *cuts = context;
    if (cuts->over) return;
    kinds[event->a].inject(cuts);
    plan(cuts, event);
}

void gw_flock_cuts_begin(gw_flock_cuts *cuts, gw_flock *flock, uint64_t seed) {
    cuts->flock = flock;
    cuts->rng = gw_rng_seeded(seed ^ 0xc075ULL);
    for (uint64_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        gw_sim_event event = {.run = strike, .context = cuts, .a = i};
        plan(cuts, &event);
    }
}

void gw_flock_cuts_end(gw_flock_cuts *cuts) {
    cuts->over = true;
    gw_sim_network_heal(&cuts->flock->network);
    gw_sim_network_open_ways(&cuts->flock->network);
    cuts->flock = NULL;
}
