#include "tools/sim/engine/network.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { PORT = 7117 };

void gw_sim_network_open(gw_sim_network *network, gw_sim_engine *engine, uint32_t endpoints, uint64_t seed) {
    *network = (gw_sim_network){.engine = engine, .rng = gw_rng_seeded(seed), .endpoints = endpoints};
    network->weather = (gw_sim_weather){.delay_least_ns = 50000, .delay_most_ns = 500000};
    network->group = calloc(endpoints, 1);
    GW_ASSERT_MEMORY(network->group != NULL);
}

void gw_sim_network_close(gw_sim_network *network) {
    free(network->group);
    free(network->ways);
    network->group = NULL;
    network->ways = NULL;
}

static const gw_sim_way *way_of(const gw_sim_network *network, uint32_t from, uint32_t to) {
    static const gw_sim_way open;
    return network->ways == NULL ? &open : &network->ways[(size_t)from * network->endpoints + to];
}

static bool is_cut(const gw_sim_network *network, uint32_t from, uint32_t to) {
    return network->cut[network->group[from]][network->group[to]] || way_of(network, from, to)->cut;
}

bool gw_sim_network_reaches(const gw_sim_network *network, uint32_t from, uint32_t to) {
    GW_ASSERT(from < network->endpoints && to < network->endpoints);
    return !is_cut(network, from, to) &&
           way_of(network, from, to)->clogged_until_ns <= gw_sim_now(network->engine);
}

uint64_t gw_sim_network_delay_ns(gw_sim_network *network) {
    const gw_sim_weather *weather = &network->weather;
    uint64_t spread = weather->delay_most_ns - weather->delay_least_ns;
    uint64_t delay_ns = weather->delay_least_ns + gw_rng_below(&network->rng, spread + 1);
    bool late = weather->tail > 0 && gw_rng_unit(&network->rng) < weather->tail;
    network->late += late;
    return late ? delay_ns * (2 + gw_rng_below(&network->rng, GW_SIM_TAIL - 1)) : delay_ns;
}

static void arrive(void *context, const gw_sim_event *event) {
    gw_sim_network *network = context;
    network->deliver(network->context, (uint32_t)event->a, (uint32_t)event->b, event->bytes, event->length);
}

void gw_sim_network_send(gw_sim_network *network, uint32_t from, uint32_t to, const void *bytes,
                         size_t length) {
    network->sent++;
    if (is_cut(network, from, to) ||
        (network->weather.drop > 0 && gw_rng_unit(&network->rng) < network->weather.drop)) {
        network->dropped++;
        return;
    }
    if (network->weather.garble > 0 && gw_rng_unit(&network->rng) < network->weather.garble) {
        network->garbled++;
        if (network->garble != NULL) network->garble(network->context, bytes, length);
        return;
    }
    uint8_t copy[2048];
    GW_ASSERT(length <= sizeof copy);
    memcpy(copy, bytes, length);
    gw_sim_event event = {
        .run = arrive, .context = network, .a = from, .b = to, .bytes = copy, .length = length};
    uint64_t now_ns = gw_sim_now(network->engine), clogged_ns = way_of(network, from, to)->clogged_until_ns;
    if (now_ns < clogged_ns) now_ns = clogged_ns;
    gw_sim_schedule(network->engine, now_ns + gw_sim_network_delay_ns(network), &event);
    if (network->weather.duplicate > 0 && gw_rng_unit(&network->rng) < network->weather.duplicate) {
        network->duplicated++;
        gw_sim_schedule(network->engine, now_ns + gw_sim_network_delay_ns(network), &event);
    }
}

void gw_sim_network_heal(gw_sim_network *network) {
    memset(network->cut, 0, sizeof network->cut);
    memset(network->group, 0, network->endpoints);
}

static gw_sim_way *way_to_change(gw_sim_network *network, uint32_t from, uint32_t to) {
    GW_ASSERT(from < network->endpoints && to < network->endpoints);
    if (network->ways == NULL)
        network->ways = calloc((size_t)network->endpoints * network->endpoints, sizeof *network->ways);
    GW_ASSERT_MEMORY(network->ways != NULL);
    return &network->ways[(size_t)from * network->endpoints + to];
}

void gw_sim_network_cut_way(gw_sim_network *network, uint32_t from, uint32_t to, bool cut) {
    way_to_change(network, from, to)->cut = cut;
}

void gw_sim_network_clog_way(gw_sim_network *network, uint32_t from, uint32_t to, uint64_t until_ns) {
    way_to_change(network, from, to)->clogged_until_ns = until_ns;
}

void gw_sim_network_open_ways(gw_sim_network *network) {
    free(network->ways);
    network->ways = NULL;
}

gw_addr gw_sim_addr(uint32_t endpoint) {
    gw_addr addr = {.family = 4, .port = PORT};
    addr.ip[0] = 10;
    for (int i = 0; i < 3; i++) addr.ip[1 + i] = (uint8_t)(endpoint >> (8 * (2 - i)));
    return addr;
}

bool gw_sim_endpoint(const gw_sim_network *network, const gw_addr *addr, uint32_t *endpoint) {
    uint32_t number = (uint32_t)addr->ip[1] << 16 | (uint32_t)addr->ip[2] << 8 | addr->ip[3];
    if (addr->family != 4 || addr->ip[0] != 10 || addr->port != PORT || number >= network->endpoints)
        return false;
    *endpoint = number;
    return true;
}
