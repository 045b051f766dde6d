/* A seeded network of numbered endpoints: datagrams that are dropped, doubled, damaged, delayed and so
 * reordered; cuts between groups of endpoints and between pairs, in one direction or both; and ways on which
 * nothing moves for a while. */
#ifndef GODWIT_TOOLS_SIM_ENGINE_NETWORK_H
#define GODWIT_TOOLS_SIM_ENGINE_NETWORK_H

#include "core/base/id.h"
#include "core/rng.h"
#include "tools/sim/engine/engine.h"

enum { GW_SIM_GROUPS = 8 };

typedef struct gw_sim_weather {
    double drop, duplicate, garble;         /* probabilities */
    uint64_t delay_least_ns, delay_most_ns; /* uniform between these two */
    double tail; /* the share of datagrams that take up to GW_SIM_TAIL times as long */
} gw_sim_weather;

enum { GW_SIM_TAIL = 50 };

typedef struct gw_sim_way { /* from one endpoint to another */
    bool cut;
    uint64_t clogged_until_ns;
} gw_sim_way;

typedef struct gw_sim_network {
    gw_sim_engine *engine;
    gw_rng rng;
    gw_sim_weather weather;
    uint8_t *group; /* of each endpoint */
    uint32_t endpoints;
    bool cut[GW_SIM_GROUPS][GW_SIM_GROUPS]; /* [from][to] */
    gw_sim_way *ways;                       /* [from * endpoints + to]; NULL = all open */
    uint64_t sent, dropped, duplicated, garbled, late;
    /* A datagram arrives. Bytes are valid during the call. */
    void (*deliver)(void *context, uint32_t from, uint32_t to, const uint8_t *bytes, size_t length);
    /* A datagram is damaged on its way and dropped. The callback may check that its receiver would notice;
     * NULL = nobody checks. */
    void (*garble)(void *context, const uint8_t *bytes, size_t length);
    void *context;
} gw_sim_network;

void gw_sim_network_open(gw_sim_network *network, gw_sim_engine *engine, uint32_t endpoints, uint64_t seed);
void gw_sim_network_close(gw_sim_network *network);

void gw_sim_network_send(gw_sim_network *network, uint32_t from, uint32_t to, const void *bytes,
                         size_t length);
/* Whether anything can go from one to the other now; what is clogged goes later. */
bool gw_sim_network_reaches(const gw_sim_network *network, uint32_t from, uint32_t to);
/* How long the next thing sent is on its way; draws from the random numbers. */
uint64_t gw_sim_network_delay_ns(gw_sim_network *network);
/* Heals every cut between groups and puts everybody into group 0. */
void gw_sim_network_heal(gw_sim_network *network);

/* One way between two endpoints: cut or mended; clogged until then, when all that was sent arrives. */
void gw_sim_network_cut_way(gw_sim_network *network, uint32_t from, uint32_t to, bool cut);
void gw_sim_network_clog_way(gw_sim_network *network, uint32_t from, uint32_t to, uint64_t until_ns);
/* Mends and opens every way. */
void gw_sim_network_open_ways(gw_sim_network *network);

/* Endpoint numbers as addresses, and back; false for an address that is none of the network's. */
gw_addr gw_sim_addr(uint32_t endpoint);
bool gw_sim_endpoint(const gw_sim_network *network, const gw_addr *addr, uint32_t *endpoint);

#endif
