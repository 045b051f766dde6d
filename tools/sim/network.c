#include "tools/sim/network.h"

#include "core/check.h"

#include <stdlib.h>
#include <string.h>

enum { PORT = 7117 };

void gw_sim_network_open(gw_sim_network *network, gw_sim_engine *engine, uint32_t endpoints, uint64_t seed) {
    *network = (gw_sim_network){.engine = engine, .rng = gw_rng_seeded(seed), .endpoints = endpoints};
    network->weather = (gw_sim_weather){.delay_least_ns = 50000, .delay_most_ns = 500000};
    network->group = calloc(endpoints, 1);
    GW_CHECK(network->group != NULL);
}

void gw_sim_network_close(gw_sim_network *network) {
    free(network->group);
    network->group = NULL;
}

bool gw_sim_network_reaches(const gw_sim_network *network, uint32_t from, uint32_t to) {
    GW_CHECK(from < network->endpoints && to < network->endpoints);
    return !network->cut[network->group[from]][network->group[to]];
}

uint64_t gw_sim_network_delay_ns(gw_sim_network *network) {
    const gw_sim_weather *weather = &network->weather;
    uint64_t spread = weather->delay_most_ns - weather->delay_least_ns;
    return weather->delay_least_ns + gw_rng_below(&network->rng, spread + 1);
}

static void arrive(void *context, const gw_sim_event *event) {
    gw_sim_network *network = context;
    network->deliver(network->context, (uint32_t)event->a, (uint32_t)event->b, event->bytes, event->length);
}

void gw_sim_network_send(gw_sim_network *network, uint32_t from, uint32_t to, const void *bytes,
                         size_t length) {
    network->sent++;
    if (!gw_sim_network_reaches(network, from, to) ||
        (network->weather.drop > 0 && gw_rng_unit(&network->rng) < network->weather.drop)) {
        network->dropped++;
        return;
    }
    uint8_t copy[2048];
    GW_CHECK(length <= sizeof copy);
    memcpy(copy, bytes, length);
    gw_sim_event event = {
        .run = arrive, .context = network, .a = from, .b = to, .bytes = copy, .length = length};
    uint64_t now_ns = gw_sim_now(network->engine);
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
