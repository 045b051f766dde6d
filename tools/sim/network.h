/* A seeded network of numbered endpoints: datagrams that are dropped, doubled, delayed and so reordered, and
 * cuts between groups of endpoints, in one direction or both. */
#ifndef GODWIT_TOOLS_SIM_NETWORK_H
#define GODWIT_TOOLS_SIM_NETWORK_H

#include "core/id.h"
#include "core/rng.h"
#include "tools/sim/engine.h"

enum { GW_SIM_GROUPS = 8 };

typedef struct gw_sim_weather {
    double drop, duplicate;                 /* probabilities */
    uint64_t delay_least_ns, delay_most_ns; /* uniform between */
} gw_sim_weather;

typedef struct gw_sim_network {
    gw_sim_engine *engine;
    gw_rng rng;
    gw_sim_weather weather;
    uint8_t *group; /* of each endpoint */
    uint32_t endpoints;
    bool cut[GW_SIM_GROUPS][GW_SIM_GROUPS]; /* [from][to] */
    uint64_t sent, dropped, duplicated;
    /* A datagram arrives. Bytes are valid during the call. */
    void (*deliver)(void *context, uint32_t from, uint32_t to, const uint8_t *bytes, size_t length);
    void *context;
} gw_sim_network;

void gw_sim_network_open(gw_sim_network *network, gw_sim_engine *engine, uint32_t endpoints, uint64_t seed);
void gw_sim_network_close(gw_sim_network *network);

void gw_sim_network_send(gw_sim_network *network, uint32_t from, uint32_t to, const void *bytes,
                         size_t length);
/* Whether anything can go from one to the other now. */
bool gw_sim_network_reaches(const gw_sim_network *network, uint32_t from, uint32_t to);
/* How long the next thing sent is on its way; draws from the random numbers. */
uint64_t gw_sim_network_delay_ns(gw_sim_network *network);
/* Heals every cut and puts everybody into group 0. */
void gw_sim_network_heal(gw_sim_network *network);

/* Endpoint numbers as addresses, and back; false for an address that is none of the network's. */
gw_addr gw_sim_addr(uint32_t endpoint);
bool gw_sim_endpoint(const gw_sim_network *network, const gw_addr *addr, uint32_t *endpoint);

#endif
